package integration_test

import (
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

func (c *testCloud) suspend(t *testing.T, id string) {
	t.Helper()
	require.NoError(t, servers.Suspend(t.Context(), c.compute(t, "-demo"), id).ExtractErr())
	c.becomes(t, id, "SUSPENDED")
}

func (c *testCloud) resume(t *testing.T, id string) {
	t.Helper()
	require.NoError(t, servers.Resume(t.Context(), c.compute(t, "-demo"), id).ExtractErr())
	c.becomes(t, id, "ACTIVE")
}

// boots is how often the server's guest has booted.
func (c *testCloud) boots(t *testing.T, id string) int {
	t.Helper()
	log, err := servers.ShowConsoleOutput(t.Context(), c.compute(t, "-demo"), id, servers.ShowConsoleOutputOpts{}).Extract()
	require.NoError(t, err)
	return strings.Count(log, "TG init ")
}

// A suspended guest goes on where it was; what else is done to its server meanwhile leaves it suspended, boots it afresh or is
// refused. One with something encrypted is not suspended. The standard client and strongroom's own do it.
func TestSuspend(t *testing.T) {
	backends(t, local, openStack)
	c := sharedCloud(t)
	id := c.create(t, smallGuest)
	c.becomes(t, id, "ACTIVE")
	c.console(t, id, "TG ready", 1)
	c.ticksOn(t, id, ticks{})

	python := c.python(t, "-demo")
	python.run("server", "suspend", id)
	s := c.becomes(t, id, "SUSPENDED")
	require.Equal(t, servers.PowerState(servers.SHUTDOWN), s.PowerState)
	require.Equal(t, "suspend", c.newestAction(t, id).Action)
	tick := c.ticks(t, id)
	demo := c.compute(t, "-demo")
	for action, err := range map[string]error{
		"suspend": servers.Suspend(t.Context(), demo, id).ExtractErr(),
		"stop":    servers.Stop(t.Context(), demo, id).ExtractErr(),
		"start":   servers.Start(t.Context(), demo, id).ExtractErr(),
		"reboot":  servers.Reboot(t.Context(), demo, id, servers.RebootOpts{Type: servers.SoftReboot}).ExtractErr(),
		"rebuild": servers.Rebuild(t.Context(), demo, id, servers.RebuildOpts{ImageRef: c.image}).Err,
	} {
		require.True(t, gophercloud.ResponseCodeIs(err, http.StatusConflict), "%s: %v", action, err)
		require.ErrorContains(t, err, fmt.Sprintf("Cannot '%s' instance %s while it is in vm_state suspended", action, id))
	}
	img := c.createImage(t, id, "of-a-suspended-server", nil)
	c.becomes(t, id, "SUSPENDED")
	c.deleteImage(t, img)

	python.run("server", "resume", id)
	s = c.becomes(t, id, "ACTIVE")
	require.Equal(t, servers.PowerState(servers.RUNNING), s.PowerState)
	require.Equal(t, "resume", c.newestAction(t, id).Action)
	c.ticksOn(t, id, tick)
	require.Equal(t, 1, c.boots(t, id), "it did not boot")

	c.suspend(t, id)
	require.NoError(t, servers.Reboot(t.Context(), demo, id, servers.RebootOpts{Type: servers.HardReboot}).ExtractErr())
	c.becomes(t, id, "ACTIVE")
	c.console(t, id, "TG ready", 2)
	c.suspend(t, id)
	c.delete(t, id)

	sealed := c.createIdle(t, encryptedTIS)
	c.becomes(t, sealed, "ACTIVE")
	err := servers.Suspend(t.Context(), demo, sealed).ExtractErr()
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusConflict), "%v", err)
	require.ErrorContains(t, err, "in clear on the host's disk")
	c.becomes(t, sealed, "ACTIVE")
	require.NotEqual(t, "suspend", c.newestAction(t, sealed).Action)
	c.delete(t, sealed)
	require.Empty(t, c.audit(t).Findings)
}

// A suspended server is not moved, resized or rescued. It can be shelved: its guest's memory goes, as at a stop, and it boots from
// its disk where it is unshelved.
func TestASuspendedServerIsShelved(t *testing.T) {
	backends(t, local, openStack)
	c := sharedCloud(t)
	id := c.create(t, smallGuest)
	c.becomes(t, id, "ACTIVE")
	c.console(t, id, "TG ready", 1)
	c.suspend(t, id)
	require.Len(t, c.savedMemory(t, id), 1)
	demo := c.compute(t, "-demo")
	for action, err := range map[string]error{
		"resize":         servers.Resize(t.Context(), demo, id, servers.ResizeOpts{FlavorRef: c.flavor(t, unspoken)}).ExtractErr(),
		"migrate":        servers.Migrate(t.Context(), c.compute(t, ""), id).ExtractErr(),
		"os-migrateLive": c.liveMigrate(t, id, nil),
		"rescue":         servers.Rescue(t.Context(), demo, id, servers.RescueOpts{}).Err,
		"pause":          servers.Pause(t.Context(), demo, id).ExtractErr(),
		"unshelve":       c.tryUnshelve(t, id),
	} {
		require.True(t, gophercloud.ResponseCodeIs(err, http.StatusConflict), "%s: %v", action, err)
		require.ErrorContains(t, err, fmt.Sprintf("Cannot '%s' instance %s while it is in vm_state suspended", action, id))
	}
	require.Equal(t, "SUSPENDED", c.settled(t, id).Status)

	c.shelve(t, id)
	require.Empty(t, c.savedMemory(t, id))
	require.Empty(t, c.audit(t).Findings)
	c.unshelve(t, id)
	c.console(t, id, "TG ready", 1)
	require.Equal(t, 1, c.boots(t, id), "it booted afresh")
	c.delete(t, id)
	require.Empty(t, c.audit(t).Findings)
}

// savedMemory gives the files in which libvirt keeps the memory of a server's guest.
func (c *testCloud) savedMemory(t *testing.T, id string) (files []string) {
	t.Helper()
	parsed, err := uuid.Parse(id)
	require.NoError(t, err)
	name := compute.InstanceName(compute.ServerID{UUID: parsed}) + ".save"
	require.NoError(t, filepath.WalkDir(c.State, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Name() == name {
			files = append(files, path)
		}
		return nil // files come and go meanwhile
	}))
	return files
}

// Workers die in the middle of suspensions of one server and of their ends, also where these are cancelled: its guest goes on, and
// boots once.
func TestKillMatrixSuspend(t *testing.T) {
	backends(t, local, openStack)
	c := ownCloud(t)
	id := c.create(t, smallGuest)
	c.becomes(t, id, "ACTIVE")
	c.console(t, id, "TG ready", 1)
	c.ticksOn(t, id, ticks{})
	suspends, resumes := cutsOf("suspend", cuts.suspend), cutsOf("resume", cuts.resume)
	for i := range max(len(suspends), len(resumes)) {
		suspend, resume := suspends[i%len(suspends)], resumes[i%len(resumes)]
		t.Run(suspend+" and "+resume, func(t *testing.T) {
			t.Run("suspend", func(t *testing.T) {
				c.arm(t, suspend)
				c.suspend(t, id)
			})
			tick := c.ticks(t, id)
			t.Run("resume", func(t *testing.T) {
				c.arm(t, resume)
				c.resume(t, id)
			})
			c.ticksOn(t, id, tick)
			require.Empty(t, c.audit(t).Findings)
		})
	}
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
	cancelled("domain.Suspend@after", "domain.Start@before", "ACTIVE", func() error { return servers.Suspend(t.Context(), demo, id).ExtractErr() })
	c.ticksOn(t, id, c.ticks(t, id))
	c.suspend(t, id)
	cancelled("domain.Start@after", "domain.Suspend@after", "SUSPENDED", func() error { return servers.Resume(t.Context(), demo, id).ExtractErr() })
	tick := c.ticks(t, id)
	c.resume(t, id)
	c.ticksOn(t, id, tick)
	require.Equal(t, 1, c.boots(t, id))
	c.delete(t, id)
	c.nothingIsLeft(t)
}
