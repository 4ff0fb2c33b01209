package integration_test

import (
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/await"
	"strongroom/deploy/dev/process"
)

// TPM-15: a host goes down under its guests and comes back. Those start again whose keys can
// be read without their owner, with their TPM as it was; the others stay off, and their owner
// reads why and starts them.
func TestHostRestart(t *testing.T) {
	backends(t, openStack, local)
	c := ownCloud(t)
	reboot, usual := c.resumesGuests(t)
	defer usual()
	mine, delegates := c.create(t, encryptedTIS), c.create(t, delegated)
	for _, id := range []string{mine, delegates} {
		c.becomes(t, id, "ACTIVE")
		require.Contains(t, c.console(t, id, "TG ready", 1), "nvcount=1")
	}
	reboot(mine, delegates)
	require.Contains(t, c.console(t, delegates, "TG ready", 2), "nvcount=2")
	c.becomes(t, delegates, "ACTIVE")

	c.shows(t, mine, "SHUTOFF", servers.SHUTDOWN)
	await.For(t, "its host starts server "+mine, func() bool { return c.newestAction(t, mine).Action == "start" }, c.progress(mine), c.hostProgress(c.Host(1)))
	require.Equal(t, "Error", c.newestAction(t, mine).Message)
	shown, err := c.strongroom("server", "show", mine)
	require.NoError(t, err, shown)
	require.Contains(t, shown, "The host was restarted")
	require.NotContains(t, c.console(t, mine, "TG ready", 1), "nvcount=2")
	c.startAgain(t, mine)
	require.Contains(t, c.console(t, mine, "TG ready", 2), "nvcount=2")

	// A worker that is restarted starts nothing, and neither does a guest that switches itself off.
	c.shutOff(t, delegates)
	// S3: the folder of a vTPM's state is root's again, whoever an earlier release gave it to.
	folder := filepath.Join(c.Host(1).SwtpmDir(), delegates)
	swtpm, err := user.Lookup("tss")
	require.NoError(t, err)
	uid, err := strconv.Atoi(swtpm.Uid)
	require.NoError(t, err)
	require.NoError(t, errors.Join(os.Lchown(folder, uid, -1), os.Chmod(folder, 0o777)))
	c.restartHost(t, c.Host(1))
	is := filesOf(t, folder)["."]
	require.Equal(t, []any{0, os.FileMode(0o711)}, []any{int(is.UID), is.Mode.Perm()})
	c.shows(t, delegates, "SHUTOFF", servers.SHUTDOWN)
	for _, id := range []string{mine, delegates} {
		c.delete(t, id)
	}
	c.nothingIsLeft(t)
}

// resumesGuests has the host start its guests again when it comes back. It gives what takes
// the host down, with the guests of some servers, and boots it, and what makes the host as
// it was.
func (c *testCloud) resumesGuests(t *testing.T) (reboot func(servers ...string), usual func()) {
	t.Helper()
	boot := filepath.Join(c.State, "boot_id")
	require.NoError(t, os.WriteFile(boot, []byte("first"), 0o600))
	was, err := os.ReadFile(c.HostConfigFile())
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(was), "host:\n"))
	with := func(text string) {
		require.NoError(t, os.WriteFile(c.HostConfigFile(), []byte(text), 0o600))
		c.restartHost(t, c.Host(1))
	}
	with(strings.Replace(string(was), "host:\n", "host:\n    resume_guests_state_on_host_boot: true\n    boot_id: "+boot+"\n", 1))
	reboot = func(ids ...string) {
		t.Helper()
		worker, running := process.Named(c.PIDFile("host"))
		require.True(t, running)
		require.NoError(t, syscall.Kill(worker, syscall.SIGSTOP)) // a worker that dies first tells of nothing
		for _, id := range ids {
			c.atHypervisor(t, id, func(l *libvirt.Libvirt, dom libvirt.Domain) error { return l.DomainDestroy(dom) })
		}
		require.NoError(t, os.WriteFile(boot, []byte("second"), 0o600))
		c.restartHost(t, c.Host(1))
	}
	return reboot, func() { with(string(was)) }
}
