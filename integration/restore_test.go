package integration_test

import (
	"bytes"
	"os/exec"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// M8: a server's keys are rotated, and then a database from before is restored. The record
// names secrets that are gone, so that the server does not start. A repair finds the new
// ones by their names; the server starts, with its data, and nothing is lost or left.
func TestM8RotatedKeysAreFoundAfterARestore(t *testing.T) {
	backends(t, local)
	c := ownCloud(t)
	id := c.create(t, encryptedTPM)
	c.becomes(t, id, "ACTIVE")
	c.console(t, id, "TG ready", 1)
	client := c.compute(t, "-demo")
	require.NoError(t, servers.Stop(t.Context(), client, id).ExtractErr())
	c.becomes(t, id, "SHUTOFF")
	repair := func(args ...string) (string, error) {
		return c.strongroom(append([]string{"--config", c.ConfigFile(), "repair"}, args...)...)
	}
	out, err := repair()
	require.NoError(t, err, out)
	require.Contains(t, out, "0 of 3 disks")

	dump, err := exec.CommandContext(t.Context(), "pg_dump", "--clean", "--if-exists", databaseURL(t, c)).Output()
	require.NoError(t, err)
	out, err = c.strongroom("server", "rotate-keys", id, "--wait")
	require.NoError(t, err, out)
	keys := c.diskKeys(t, id)
	restore := exec.CommandContext(t.Context(), "psql", "--quiet", "--single-transaction", "--set", "ON_ERROR_STOP=1", databaseURL(t, c))
	restore.Stdin = bytes.NewReader(dump)
	said, err := restore.CombinedOutput()
	require.NoError(t, err, "%s", said)

	require.NoError(t, servers.Start(t.Context(), client, id).ExtractErr())
	c.becomes(t, id, "SHUTOFF")
	require.NotEmpty(t, c.newestAction(t, id).Message)
	verdicts := map[compute.Verdict]int{}
	for _, f := range c.audit(t).Findings {
		verdicts[f.What]++
	}
	require.Equal(t, map[compute.Verdict]int{compute.Missing: 3, compute.Unowned: 3}, verdicts)
	audit, err := c.strongroom("--config", c.ConfigFile(), "audit")
	require.Error(t, err)
	t.Log(audit)

	for range 2 { // to ask changes nothing
		out, err = repair()
		require.Error(t, err)
		require.Contains(t, out, "3 disks are to be repaired: run it with --apply")
	}
	t.Log(out)
	out, err = repair("--apply")
	require.NoError(t, err, out)
	t.Log(out)
	out, err = repair("--apply")
	require.NoError(t, err, out)
	require.Contains(t, out, "0 of 3 disks")
	c.nothingIsLeft(t)

	require.NoError(t, servers.Start(t.Context(), client, id).ExtractErr())
	c.becomes(t, id, "ACTIVE")
	require.Contains(t, c.console(t, id, "TG ready", 2), "boots=2")
	require.Equal(t, keys, c.diskKeys(t, id))
	c.delete(t, id)
	require.Empty(t, c.diskKeys(t, id))
	c.nothingIsLeft(t)
}
