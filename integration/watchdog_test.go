package integration_test

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/deploy/await"
	"strongroom/deploy/dev/stack"
)

// watchdog is what runs beside the worker of a host whose guests are stopped when it is cut off.
type watchdog struct {
	cmd   *exec.Cmd
	usual []byte // the host's configuration without it
}

// fenceAfter is the shortest that a host can have.
const fenceAfter = "60"

// fencesItself has a host stop its guests when it has no contact, until it is ended.
func (c *testCloud) fencesItself(t *testing.T, h stack.Host) *watchdog {
	t.Helper()
	was, err := os.ReadFile(h.ConfigFile())
	require.NoError(t, err)
	w := &watchdog{usual: was}
	w.start(t, c, h)
	require.True(t, strings.HasPrefix(string(was), "host:\n"))
	w.configure(t, h, fenceAfter)
	c.restartHost(t, h)
	c.hasLease(t, h, 60)
	return w
}

// end has the host take no lease any more.
func (w *watchdog) end(t *testing.T, c *testCloud, h stack.Host) {
	t.Helper()
	w.stop()
	require.NoError(t, os.WriteFile(h.ConfigFile(), w.usual, 0o600))
	c.control(t, h, true)
	c.restartHost(t, h)
	c.hasLease(t, h, 0)
}

// configure sets host.fence_after.
func (w *watchdog) configure(t *testing.T, h stack.Host, seconds string) {
	t.Helper()
	text := strings.Replace(string(w.usual), "host:\n", "host:\n    fence_after: "+seconds+"\n", 1)
	require.NoError(t, os.WriteFile(h.ConfigFile(), []byte(text), 0o600))
}

func (w *watchdog) start(t *testing.T, c *testCloud, h stack.Host) {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(c.State, "log", h.Part("watchdog")+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	w.cmd = exec.Command(c.binary, "--config", h.ConfigFile(), "host", "watchdog")
	w.cmd.Stdout, w.cmd.Stderr = log, log
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, w.cmd.Start())
	require.NoError(t, log.Close())
}

// stop kills it.
func (w *watchdog) stop() {
	if w.cmd != nil {
		_ = w.cmd.Process.Kill()
		_ = w.cmd.Wait()
		w.cmd = nil
	}
}

// leaseOf is after how many seconds without contact a host stops its guests, as the control plane has it.
func (c *testCloud) leaseOf(t *testing.T, h stack.Host) (seconds int) {
	t.Helper()
	require.NoError(t, c.database(t).QueryRow(t.Context(), "SELECT fence_after FROM hosts WHERE name = $1", hostName(t, h)).Scan(&seconds))
	return seconds
}

// hasLease waits until the control plane has that of a host, which has started again or says that it stops.
func (c *testCloud) hasLease(t *testing.T, h stack.Host, seconds int) {
	t.Helper()
	await.For(t, fmt.Sprintf("host %d has a lease of %d s", h.Number, seconds), func() bool { return c.leaseOf(t, h) == seconds }, c.hostProgress(h))
}

// evacuatesUnforced asks until a server is evacuated from a host that nobody forced down, and requires
// that its guest had been stopped by then.
func (c *testCloud) evacuatesUnforced(t *testing.T, id string) {
	t.Helper()
	await.For(t, "the margin of its host is over", func() bool {
		code, body := c.tryEvacuate(t, id, "2.14", map[string]any{})
		if code != http.StatusOK {
			require.Equal(t, http.StatusBadRequest, code)
			require.Contains(t, body, "is still in use.")
		}
		return code == http.StatusOK
	}, c.hostProgress(c.hostOf(t, id)))
	c.becomes(t, id, "ACTIVE")
}

// Issue "Moves", Build 5: a host that is cut off stops its guests itself, and so does one whose worker is killed or
// hangs. Its servers are evacuated then without being forced down, and not before; no server ever runs twice. The
// host that returns has nothing of them any more before it takes work.
func TestAHostThatIsCutOffStopsItsGuests(t *testing.T) {
	backends(t, local) // it is about what the hosts do
	c := twoHosts(t)
	to, h := c.Host(1), c.Host(2)
	w := c.fencesItself(t, h)
	defer w.end(t, c, h)
	ways := map[string]struct {
		silent, returns func(t *testing.T)
	}{
		"cut off, and its worker stops them": {
			func(t *testing.T) {
				w.stop() // its lease was taken before, and holds
				c.control(t, h, false)
			},
			func(t *testing.T) {
				w.start(t, c, h)
				c.control(t, h, true)
			},
		},
		"its worker is killed, and does not come back": {
			func(t *testing.T) {
				w.configure(t, h, "none") // it ends at once
				c.kill(t, h.Part("host"))
			},
			func(t *testing.T) { w.configure(t, h, fenceAfter) },
		},
		"its worker hangs": {
			func(t *testing.T) { c.signalWorker(t, h, syscall.SIGSTOP) },
			func(t *testing.T) { c.signalWorker(t, h, syscall.SIGCONT) },
		},
	}
	for _, name := range stepsOf("ways to be cut off", slices.Sorted(maps.Keys(ways))) {
		falls := ways[name]
		t.Run(name, func(t *testing.T) {
			c.hasLease(t, h, 60)
			id := c.on(t, h, func() string { return c.createIdle(t, encryptedTIS) })
			oneCopyAtMost(t, id)
			code, body := c.tryEvacuate(t, id, "2.14", map[string]any{})
			require.Equal(t, http.StatusBadRequest, code)
			require.Contains(t, body, "Compute service of "+hostName(t, h)+" is still in use.")

			falls.silent(t)
			oneCopy(t, id)
			c.stops(t, h, id)
			code, body = c.tryEvacuate(t, id, "2.14", map[string]any{})
			require.Equal(t, http.StatusBadRequest, code, "the margin is not over")
			require.Contains(t, body, "is still in use.")
			c.evacuatesUnforced(t, id)
			c.requireOn(t, to, id)
			oneCopy(t, id)
			require.False(t, c.hostService(t, h).ForcedDown)
			require.NotEmpty(t, c.remainsOnDisk(t, h, id).Disks)

			falls.returns(t)
			c.isDown(t, h, false)
			c.hasNothingSoon(t, h, id)
			c.evacuated(t, h, id)
			oneCopy(t, id)
			c.delete(t, id)
		})
	}
	// A worker that is told to stop releases the lease, which does not stop the guests of a host in maintenance.
	id := c.on(t, h, func() string { return c.createIdle(t, encryptedTIS) })
	w.configure(t, h, "none")
	c.signalWorker(t, h, syscall.SIGTERM)
	c.hasLease(t, h, 0)
	c.isDown(t, h, true)
	oneCopy(t, id)
	w.configure(t, h, fenceAfter)
	c.isDown(t, h, false)
	c.delete(t, id)
	c.nothingIsLeft(t)
}
