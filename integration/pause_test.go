package integration_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"

	"strongroom/activities/domain"
	"strongroom/deploy/await"
)

func (c *testCloud) pause(t *testing.T, id string) {
	t.Helper()
	require.NoError(t, servers.Pause(t.Context(), c.compute(t, "-demo"), id).ExtractErr())
	c.becomes(t, id, "PAUSED")
}

func (c *testCloud) unpause(t *testing.T, id string) {
	t.Helper()
	require.NoError(t, servers.Unpause(t.Context(), c.compute(t, "-demo"), id).ExtractErr())
	c.becomes(t, id, "ACTIVE")
}

// standsStill requires that a guest that was paused neither says any more nor answers, and that its virtual CPU does nothing. The
// command stays on its line.
func (c *testCloud) standsStill(t *testing.T, id string, line *serial, command string) {
	t.Helper()
	_, err := fmt.Fprintln(line.conn, command)
	require.NoError(t, err)
	log := filepath.Join(c.hostOf(t, id).Instances(), id, "console.log") // has all that goes to the line
	said, err := os.ReadFile(log)
	require.NoError(t, err)
	pids := machines()[id]
	require.Len(t, pids, 1)
	turns := vCPUTurns(pids[0])
	await.Quiet(t, 3*time.Second, "a guest that runs ticks each second")
	again, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Equal(t, string(said), string(again), "it has said more")
	require.Less(t, vCPUTurns(pids[0])-turns, 20, "its virtual CPU has run: one that runs wakes up more often in a second")
}

// atHypervisor does something to a server's domain, past strongroom.
func (c *testCloud) atHypervisor(t *testing.T, id string, do func(*libvirt.Libvirt, libvirt.Domain) error) {
	t.Helper()
	hypervisor := domain.Client{Socket: filepath.Join(c.State, "libvirt", "run", "libvirt-sock")}
	if _, err := os.Stat(hypervisor.Socket); errors.Is(err, os.ErrNotExist) {
		hypervisor.Socket = domain.DefaultSocket
	}
	require.NoError(t, hypervisor.Do(t.Context(), func(l *libvirt.Libvirt) error {
		return do(l, libvirt.Domain{UUID: libvirt.UUID(uuid.MustParse(id))})
	}))
}

// shows waits until a server that no operation is at work on shows a status.
func (c *testCloud) shows(t *testing.T, id, status string, power servers.PowerState) {
	t.Helper()
	await.For(t, fmt.Sprintf("server %s shows as %s, %s", id, status, power), func() bool {
		s, err := servers.Get(t.Context(), c.compute(t, "-demo"), id).Extract()
		return err == nil && s.Status == status && s.PowerState == power
	}, c.progress(id))
}

// A paused guest stands still and goes on where it was; what else is done to its server
// meanwhile leaves it paused, boots it afresh or is refused. The standard client does it.
func TestPause(t *testing.T) {
	backends(t, local, openStack)
	c := sharedCloud(t)
	id := c.create(t, encryptedTIS)
	c.becomes(t, id, "ACTIVE")
	c.console(t, id, "TG ready", 1)
	line := c.serial(t, id)
	line.expect("TG tick=")

	python := c.python(t, "-demo")
	python.run("server", "pause", id)
	s := c.becomes(t, id, "PAUSED")
	require.Equal(t, servers.PowerState(servers.PAUSED), s.PowerState)
	require.Equal(t, "pause", c.newestAction(t, id).Action)
	c.standsStill(t, id, line, "write note kept")

	demo := c.compute(t, "-demo")
	for action, err := range map[string]error{
		"pause":  servers.Pause(t.Context(), demo, id).ExtractErr(),
		"stop":   servers.Stop(t.Context(), demo, id).ExtractErr(),
		"start":  servers.Start(t.Context(), demo, id).ExtractErr(),
		"reboot": servers.Reboot(t.Context(), demo, id, servers.RebootOpts{Type: servers.SoftReboot}).ExtractErr(),
	} {
		require.True(t, gophercloud.ResponseCodeIs(err, http.StatusConflict), "%s: %v", action, err)
		require.ErrorContains(t, err, fmt.Sprintf("Cannot '%s' instance %s while it is in vm_state paused", action, id))
	}
	img := c.createImage(t, id, "of-a-paused-server", map[string]any{"key": "new"})
	c.becomes(t, id, "PAUSED")
	c.deleteImage(t, img)
	was := c.diskKeys(t, id)["root"]
	require.NoError(t, c.rotate(t, "-demo", id, nil))
	c.becomes(t, id, "PAUSED")
	require.NotEqual(t, was, c.diskKeys(t, id)["root"])

	python.run("server", "unpause", id)
	s = c.becomes(t, id, "ACTIVE")
	require.Equal(t, servers.PowerState(servers.RUNNING), s.PowerState)
	require.Equal(t, "unpause", c.newestAction(t, id).Action)
	require.Contains(t, line.expect("TG write "), "err=<nil>", "it does what it was told while it stood still")
	err := servers.Unpause(t.Context(), demo, id).ExtractErr()
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusConflict), "%v", err)
	require.ErrorContains(t, err, fmt.Sprintf("Cannot 'unpause' instance %s while it is in vm_state active", id))

	python.run("--os-compute-api-version", "2.17", "server", "dump", "create", id)
	require.Contains(t, c.console(t, id, "NMI received", 1), "NMI received for unknown reason", "this kernel writes no dump, and goes on")
	c.becomes(t, id, "ACTIVE")
	require.Equal(t, "trigger_crash_dump", c.newestAction(t, id).Action)

	// Behind strongroom's back.
	c.atHypervisor(t, id, (*libvirt.Libvirt).DomainSuspend)
	c.shows(t, id, "PAUSED", servers.PAUSED)
	c.unpause(t, id)
	c.pause(t, id)
	c.atHypervisor(t, id, (*libvirt.Libvirt).DomainResume)
	c.shows(t, id, "ACTIVE", servers.RUNNING)

	c.pause(t, id)
	require.NoError(t, servers.Reboot(t.Context(), demo, id, servers.RebootOpts{Type: servers.HardReboot}).ExtractErr())
	c.becomes(t, id, "ACTIVE")
	c.console(t, id, "nvcount=2", 1)
	c.pause(t, id)
	c.delete(t, id)
	require.Empty(t, c.audit(t).Findings)
}

// Workers die in the middle of pauses and unpauses of one server.
func TestKillMatrixPause(t *testing.T) {
	backends(t, local, openStack)
	c := ownCloud(t)
	id := c.create(t, encrypted)
	c.becomes(t, id, "ACTIVE")
	c.console(t, id, "TG ready", 1)
	line := c.serial(t, id)
	pauses, unpauses := cutsOf("pause", cuts.pause), cutsOf("unpause", cuts.unpause)
	for i := range max(len(pauses), len(unpauses)) {
		pause, unpause := pauses[i%len(pauses)], unpauses[i%len(unpauses)]
		t.Run(pause+" and "+unpause, func(t *testing.T) {
			line.expect("TG tick=")
			t.Run("pause", func(t *testing.T) {
				c.arm(t, pause)
				c.pause(t, id)
			})
			c.standsStill(t, id, line, "write note kept")
			t.Run("unpause", func(t *testing.T) {
				c.arm(t, unpause)
				c.unpause(t, id)
			})
			require.Contains(t, line.expect("TG write "), "err=<nil>")
			require.Empty(t, c.audit(t).Findings)
		})
	}
	require.NoError(t, line.conn.Close())
	c.delete(t, id)
	c.nothingIsLeft(t)
}

// A pause that is cancelled leaves the guest running, an unpause leaves it standing;
// what undoes them may die meanwhile.
func TestKillMatrixCancelledPause(t *testing.T) {
	backends(t, local, openStack)
	c := ownCloud(t)
	id := c.create(t, encrypted)
	c.becomes(t, id, "ACTIVE")
	c.console(t, id, "TG ready", 1)
	line := c.serial(t, id)
	demo := c.compute(t, "-demo")
	cancelled := func(held, armed, status string, ask func() error) {
		t.Run(held, func(t *testing.T) {
			point := c.hold(t, held)
			require.NoError(t, ask())
			point.waits(t, c.progress(id))
			c.arm(t, armed)
			c.cancelOperation(t, id)
			point.release()
			c.becomes(t, id, status)
			require.Equal(t, "Error", c.newestAction(t, id).Message)
			require.Empty(t, c.audit(t).Findings)
		})
	}
	cancelled("domain.Pause@after", "domain.Unpause@before", "ACTIVE", func() error { return servers.Pause(t.Context(), demo, id).ExtractErr() })
	line.expect("TG tick=")
	c.pause(t, id)
	cancelled("domain.Unpause@after", "domain.Pause@after", "PAUSED", func() error { return servers.Unpause(t.Context(), demo, id).ExtractErr() })
	c.standsStill(t, id, line, "write note kept")
	c.delete(t, id)
	c.nothingIsLeft(t)
}
