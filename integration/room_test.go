package integration_test

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"strongroom/deploy/dev/process"
	"strongroom/deploy/dev/stack"
)

// hasNoRoom gives the worker of a host, which is not the first, a full file system for disks, until the function is
// called that it gives. It is as large as any, for the host says each minute how large it is, and what does not fit into it is
// claimed nowhere.
func (c *testCloud) hasNoRoom(t *testing.T, h stack.Host) (hasAgain func()) {
	t.Helper()
	worker := c.workerOf(t, h)
	there := func(command ...string) {
		t.Helper()
		enter := []string{"--target", worker, "--mount", "--"}
		out, err := exec.Command("nsenter", append(enter, command...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	image := filepath.Join(t.TempDir(), "full") // sparse: nothing is written into what is taken
	for _, command := range [][]string{
		{"truncate", "--size", "64G", image},
		{"mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", "-E", "nodiscard,lazy_itable_init=1", image},
	} {
		out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	there("mount", "-o", "loop", image, h.Instances())
	full := true
	hasAgain = func() {
		if full {
			full = false
			there("umount", h.Instances())
		}
	}
	t.Cleanup(hasAgain)
	there("chmod", "0711", h.Instances())
	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs(c.asItsWorkerSees(t, h), &fs))
	const left = 66 << 20 // 64 MiB are to stay free
	there("fallocate", "--length", strconv.FormatInt(int64(fs.Bavail)*fs.Bsize-left, 10), filepath.Join(h.Instances(), "full"))
	return hasAgain
}

func (c *testCloud) workerOf(t *testing.T, h stack.Host) (pid string) {
	t.Helper()
	worker, running := process.Named(c.PIDFile(h.Part("host")))
	require.True(t, running)
	return strconv.Itoa(worker)
}

// asItsWorkerSees is the folder of a host's servers, with what is mounted over it for its worker alone.
func (c *testCloud) asItsWorkerSees(t *testing.T, h stack.Host) string {
	t.Helper()
	return filepath.Join("/proc", c.workerOf(t, h), "root", h.Instances())
}

// A host without room for the disks is refused before anything moves: the guest is in the boot that it
// was in, and that host has nothing of it. Where the room goes only when the guest is off, it boots again
// where it was. Once there is room the server moves.
func TestATargetWithoutRoomIsRefused(t *testing.T) {
	backends(t, local, openStack)
	c := twoHosts(t)
	a, b := c.Host(1), c.Host(2)
	id := c.on(t, a, func() string { return c.create(t, encryptedTIS) })
	c.counts(t, id, 1, 1, 1)
	keys, guest := c.keysOf(t, id), machines()[id]
	require.Len(t, guest, 1)
	hasAgain := c.hasNoRoom(t, b)
	for name, move := range map[string]func() error{
		"migrate": func() error { return servers.Migrate(t.Context(), c.compute(t, ""), id).ExtractErr() },
		"migrate to it": func() error {
			client := *c.compute(t, "")
			client.Microversion = "2.56"
			resp, err := client.Post(t.Context(), client.ServiceURL("servers", id, "action"), map[string]any{"migrate": map[string]any{"host": hostName(t, b)}}, nil,
				&gophercloud.RequestOpts{OkCodes: []int{http.StatusAccepted}})
			if err != nil {
				return err
			}
			return resp.Body.Close()
		},
		"live migrate": func() error { return c.liveMigrate(t, id, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, move(), "the request itself is allowed")
			c.becomes(t, id, "ACTIVE")
			require.Contains(t, c.refusedBecause(t, id), "check_room: disks of server "+id+": the host has ")
			require.Empty(t, c.settled(t, id).Fault.Message)
			c.requireOn(t, a, id)
			require.Equal(t, guest, machines()[id])
			require.NoDirExists(t, filepath.Join(c.asItsWorkerSees(t, b), id))
			c.hasNothing(t, b, id)
			require.Equal(t, keys, c.keysOf(t, id))
			require.Empty(t, c.audit(t).Findings)
		})
	}
	tick := c.ticks(t, id)
	c.ticksOn(t, id, tick)
	c.counts(t, id, 1, 1, 1)

	hasAgain()
	receives := c.holdOn(t, b, "disk.Receive@before")
	require.NoError(t, servers.Migrate(t.Context(), c.compute(t, ""), id).ExtractErr())
	receives.waits(t, c.progress(id))
	hasAgain = c.hasNoRoom(t, b)
	receives.release()
	c.becomes(t, id, "ACTIVE")
	require.Contains(t, c.refusedBecause(t, id), "receive_disks: disk ")
	c.requireOn(t, a, id)
	c.counts(t, id, 2, 2, 2)
	require.NoDirExists(t, filepath.Join(c.asItsWorkerSees(t, b), id))
	c.hasNothing(t, b, id)
	require.Equal(t, keys, c.keysOf(t, id))
	require.Empty(t, c.audit(t).Findings)

	hasAgain()
	require.NoError(t, servers.Migrate(t.Context(), c.compute(t, ""), id).ExtractErr())
	c.becomes(t, id, "VERIFY_RESIZE")
	c.requireOn(t, b, id)
	c.counts(t, id, 1, 3, 3)
	c.delete(t, id)
	c.nothingIsLeft(t)
}
