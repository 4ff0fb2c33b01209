package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// EE-03: a create for which nobody asks for a format leaves it to the host that will have the
// server; a rebuild is of a server that has its host.
func TestEE03TheAPILeavesTheFormatToTheHost(t *testing.T) {
	t.Parallel()
	c := setupRebuild(t)
	c.addFlavor("open", map[string]string{"hw:ephemeral_encryption": "true"})
	c.create(map[string]any{"flavorRef": "open"})
	require.Equal(t, 3, c.count(`SELECT count(*) FROM server_disks WHERE encrypted AND encryption_format = ''`))
	require.Zero(t, c.count(`SELECT count(*) FROM server_disks WHERE encrypted AND encryption_format <> ''`))

	id, asks := c.active(), c.imageOf(map[string]string{"hw_ephemeral_encryption": "true"})
	c.exec(`UPDATE hosts SET default_format = 'luksv2'`)
	c.rebuild(t, member, id, asks, "", "2.90").fails(409, "conflictingRequest",
		"The host of instance "+id+" lacks trait COMPUTE_EPHEMERAL_ENCRYPTION_LUKSV2, so it cannot take image "+asks+".")
	c.exec(`UPDATE hosts SET traits = $1`, append([]string{compute.TraitEncryptionLUKSv2}, allTraits...))
	c.rebuild(t, member, id, asks, "", "2.90").ok(202)
}
