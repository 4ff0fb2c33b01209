package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// EE-33: a resize that would change how disks are encrypted is refused, and nothing
// is changed.
func TestResizeRefuses(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	c.addFlavor("large", nil)
	c.addFlavor("safe", map[string]string{"hw:ephemeral_encryption": "true"})
	id := c.active()
	own := c.row(id).Flavor
	ask := func(as who, flavor string) answer {
		return c.act(t, as, id, `{"resize": {"flavorRef": "`+flavor+`"}}`, at("2.90"))
	}
	ask(member, "safe").fails(409, "conflictingRequest", "Flavor "+own.Name+" and flavor flavor-safe differ in the encryption of disks (none and luks): "+
		"a resize does not encrypt, decrypt or convert disks. Make an image of the server and create a new one from it.")
	ask(member, own.ID).fails(400, "badRequest", "When resizing, instances must change flavor!")
	ask(member, "nope").fails(400, "badRequest", "Flavor nope could not be found.")
	ask(member, "large").fails(501, "notImplemented",
		"Resizing servers is not supported yet. Make an image of the server and create a new one from it.")
	ask(reader, "large").ok(403)
	ask(stranger, "large").ok(404)
	require.Equal(t, own, c.row(id).Flavor)
	require.Equal(t, compute.TaskNone, c.row(id).TaskState)
}
