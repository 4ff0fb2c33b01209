package integration_test

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/deploy/await"
)

// M8: a server's keys are rotated, and then a database from before is restored. The record
// names secrets that are gone, so that the server does not start. A repair finds the new
// ones by their names; the server starts, with its data, and nothing is lost or left.
func TestM8RotatedKeysAreFoundAfterARestore(t *testing.T) {
	backends(t, local) // on the real cloud strongroom has no role in users' projects, in which the audit would look for their keys
	c := ownCloud(t)
	id := c.create(t, encryptedTPM)
	c.becomes(t, id, "ACTIVE")
	c.console(t, id, "TG ready", 1)
	client := c.compute(t, "-demo")
	require.NoError(t, servers.Stop(t.Context(), client, id).ExtractErr())
	c.becomes(t, id, "SHUTOFF")
	repair := c.repair
	out, err := repair()
	require.NoError(t, err, out)
	require.Contains(t, out, "0 differences")

	dump := c.backup(t)
	out, err = c.strongroom("server", "rotate-keys", id, "--wait")
	require.NoError(t, err, out)
	keys := c.diskKeys(t, id)
	c.restore(t, dump)

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
		require.Contains(t, out, "3 to be repaired: run it with --apply")
	}
	t.Log(out)
	out, err = repair("--apply")
	require.NoError(t, err, out)
	t.Log(out)
	out, err = repair("--apply")
	require.NoError(t, err, out)
	require.Contains(t, out, "0 differences")
	c.nothingIsLeft(t)

	require.NoError(t, servers.Start(t.Context(), client, id).ExtractErr())
	c.becomes(t, id, "ACTIVE")
	require.Contains(t, c.console(t, id, "TG ready", 2), "boots=2")
	require.Equal(t, keys, c.diskKeys(t, id))
	c.delete(t, id)
	require.Empty(t, c.diskKeys(t, id))
	c.nothingIsLeft(t)
}

// M8: one server was deleted and one created since the backup. A repair deletes the first one
// for good, and leaves the other, its guest running, until it is named.
func TestM8ServersOfSinceARestore(t *testing.T) {
	backends(t, local) // the same
	c := ownCloud(t)
	deleted, kept := c.createIdle(t, encryptedTPM), c.createIdle(t, encrypted)
	c.becomes(t, deleted, "ACTIVE")
	c.becomes(t, kept, "ACTIVE")
	dump := c.backup(t)
	c.delete(t, deleted)
	created := c.createIdle(t, encryptedTPM)
	c.becomes(t, created, "ACTIVE")
	c.restore(t, dump)

	for range 2 {
		out, err := c.repair()
		require.Error(t, err)
		require.Regexp(t, "server +"+deleted+" .* delete the server ", out)
		require.Regexp(t, "unknown server +"+created+" .* none ", out)
		require.Contains(t, out, "1 to be repaired: run it with --apply; 1 for people to decide")
	}
	out, err := c.repair("--apply")
	require.Error(t, err)
	require.Contains(t, out, "1 are left")
	t.Log(out)
	c.gone(t, deleted)
	for _, file := range []string{"disk", "console.log"} {
		require.FileExists(t, filepath.Join(c.Instances(), created, file))
	}
	out, err = c.repair("--apply", "--remove-unknown", kept)
	require.Error(t, err)
	require.Contains(t, out, "is on record: delete it as any other")
	out, err = c.repair("--apply", "--remove-unknown", created)
	require.NoError(t, err, out)
	await.For(t, "what was to be removed is gone", func() bool { return len(c.audit(t).Findings) == 0 })
	require.NoDirExists(t, filepath.Join(c.Instances(), created))
	c.becomes(t, kept, "ACTIVE")
	require.FileExists(t, filepath.Join(c.Instances(), kept, "disk"))
	c.delete(t, kept)
	c.nothingIsLeft(t)
}

// repair asks again where it is told to: hosts report what became of their guests at any moment.
func (c *testCloud) repair(args ...string) (out string, err error) {
	_ = await.Until("nothing is changed meanwhile", func() bool { // that something is, the answer tells
		out, err = c.strongroom(append([]string{"--config", c.ConfigFile(), "repair"}, args...)...)
		return !strings.Contains(out, "was changed meanwhile: ask again")
	})
	return out, err
}

// backup gives the database as it is.
func (c *testCloud) backup(t *testing.T) []byte {
	t.Helper()
	dump, err := exec.CommandContext(t.Context(), "pg_dump", "--clean", "--if-exists", databaseURL(t, c)).Output()
	require.NoError(t, err)
	return dump
}

// restore puts the database back as it was.
func (c *testCloud) restore(t *testing.T, dump []byte) {
	t.Helper()
	restore := exec.CommandContext(t.Context(), "psql", "--quiet", "--single-transaction", "--set", "ON_ERROR_STOP=1", databaseURL(t, c))
	restore.Stdin = bytes.NewReader(dump)
	said, err := restore.CombinedOutput()
	require.NoError(t, err, "%s", said)
}
