package integration_test

import (
	"os"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/await"
	"strongroom/deploy/dev/process"
)

// Ctrl-C stops everything that `strongroom dev` started, and a second start goes
// on: the same servers, off by now, with their disks and TPM.
func TestSecondStartGoesOn(t *testing.T) {
	backends(t, local, openStack)
	c := ownCloud(t)
	id := c.create(t, encryptedTIS)
	c.becomes(t, id, "ACTIVE")
	c.console(t, id, "TG ready", 1)

	c.stop()
	for _, part := range []string{"api", "metadata", "control", "gateway", "host", "devcloud", "postgres", "temporal", "libvirtd"} {
		_, running := process.Named(c.PIDFile(part))
		require.False(t, running, part)
	}
	require.NoFileExists(t, c.ReadyFile())
	requireNoProcessIn(t, c.State)
	require.NoError(t, c.launch())

	client := c.compute(t, "-demo")
	await.For(t, "a guest that went with its host shows as off", func() bool {
		s, err := servers.Get(t.Context(), client, id).Extract()
		return err == nil && s.Status == "SHUTOFF"
	}, c.hostProgress(c.Host(1)), c.progress(id))
	require.NoError(t, servers.Start(t.Context(), client, id).ExtractErr())
	c.becomes(t, id, "ACTIVE")
	log := c.console(t, id, "TG ready", 2)
	require.Contains(t, log, "boots=2")
	require.Contains(t, log, "nvcount=2")
}

// requireNoProcessIn requires that no process names a folder in its arguments.
func requireNoProcessIn(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	require.NoError(t, err)
	for _, e := range entries {
		arguments, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		require.NotContains(t, string(arguments), dir)
	}
}
