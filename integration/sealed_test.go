package integration_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/await"
	"strongroom/schema/seal"
)

// H9: the file of the keys that seal tokens is replaced while a create is at work and a
// delete of its server waits for it. Their tokens open no more: the delete ends all the same,
// the keys wait for a credential, and go with the next request of their owner.
func TestH9DeleteWinsOverAReplacedCredentialsKey(t *testing.T) {
	backends(t, openStack)
	c := ownCloud(t)
	b := c.beginCreate(t, encryptedTIS)
	keys := len(c.secrets(t, "-demo"))
	require.Positive(t, keys)
	require.NoError(t, servers.Delete(t.Context(), c.compute(t, "-demo"), b.id).ExtractErr())

	file := filepath.Join(c.State, "credentials.key")
	require.NoError(t, os.WriteFile(file, []byte(seal.NewKey()), 0o600))
	for _, part := range []string{"control", "gateway", "api"} {
		c.kill(t, part)
	}
	b.held.release()
	c.goneAs(t, "-reader", b.id)
	c.keysWait(t, b.id, keys)
	require.Len(t, c.secrets(t, "-demo"), keys, "they are still there")
	// What was kept of an earlier request, for something else that waited, nobody can open either: for a minute at most no other is
	// kept beside it.
	require.NotEmpty(t, c.audit(t).Findings)
	left := 0
	await.For(t, "the owner's requests clear up", func() bool {
		listed(t, c.compute(t, "-demo2"), servers.ListOpts{})
		left = len(c.secrets(t, "-demo"))
		return left == 0
	}, await.Witness{Name: "secrets", Look: func() string { return strconv.Itoa(left) }})
	c.nothingIsLeftInTime(t)
}
