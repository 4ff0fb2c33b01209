package integration_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"
)

// The kill matrix: an operation is cut at a point by SIGKILL of a process, and
// whatever the point, the operation settles, completed or fully undone, and the
// audit finds nothing.

// cut is where operations are cut off on one back end. Each activity kills its
// worker once before and once after it.
type cut struct{ spawn, delete, undo, image, backup, rescue, unrescue []string }

// cuts are all of the host worker's activities and a sample of the control
// worker's. Real services have those that call them, and a sample of the rest.
var cuts = map[string]cut{
	local: {
		spawn: []string{
			"disk.CacheImage", "disk.Create", "domain.Start",
			"record.Claim", "key.Create", "trust.Create", "record.Settle",
		},
		delete: []string{
			"domain.Destroy", "disk.Delete", "tpm.Delete",
			"operation.CancelRunning", "key.Delete", "trust.Delete", "record.Bury",
		},
		undo:     []string{"disk.Delete", "domain.Destroy", "domain.ForgetSecrets", "key.Delete", "trust.Delete"},
		image:    []string{"image.Create", "domain.Export", "image.Upload"},
		backup:   []string{"record.Give", "image.Delete"},
		rescue:   []string{"disk.Create", "domain.Stop", "domain.Start"},
		unrescue: []string{"domain.Start", "record.Unrescue", "disk.Delete"},
	},
	openStack: {
		spawn:    []string{"disk.CacheImage", "disk.Create", "domain.Start", "key.Create", "trust.Create"},
		delete:   []string{"disk.Delete", "key.Delete", "trust.Delete", "record.Bury"},
		undo:     []string{"domain.ForgetSecrets", "key.Delete", "trust.Delete"},
		image:    []string{"image.Upload"},
		backup:   []string{"image.Delete"},
		rescue:   []string{"domain.Start"},
		unrescue: []string{"disk.Delete"},
	},
}

// cutFlavor is of a server that an operation cut at the point makes.
func cutFlavor(point string) flavorSpec {
	if strings.HasPrefix(point, "trust.") {
		return delegated
	}
	return encryptedTIS
}

func TestKillMatrixSpawn(t *testing.T) {
	eachPoint(t, cuts[leansOn()].spawn, func(t *testing.T, c *testCloud, point string) {
		c.arm(t, point)
		id := c.createIdle(t, cutFlavor(point))
		s := c.settled(t, id)
		require.Contains(t, []string{"ACTIVE", "ERROR"}, s.Status)
		require.Equal(t, "ACTIVE", s.Status, "a worker that comes back completes the create; fault: %s", s.Fault.Message)
		c.nothingIsLeft(t)
		c.delete(t, id)
		c.nothingIsLeft(t)
	})
}

func TestKillMatrixDelete(t *testing.T) {
	eachPoint(t, cuts[leansOn()].delete, func(t *testing.T, c *testCloud, point string) {
		id := c.createIdle(t, cutFlavor(point))
		c.becomes(t, id, "ACTIVE")
		c.arm(t, point)
		c.delete(t, id)
		c.nothingIsLeft(t)
	})
}

// A create that is undone, since its server is deleted when its domain has just
// started, is cut in its undo.
func TestKillMatrixUndo(t *testing.T) {
	eachPoint(t, cuts[leansOn()].undo, func(t *testing.T, c *testCloud, point string) {
		started := c.hold(t, "domain.Start@after")
		id := c.createIdle(t, cutFlavor(point))
		require.Eventually(t, started.reached, settleTimeout, 50*time.Millisecond)
		c.arm(t, point)
		c.delete(t, id)
		c.nothingIsLeft(t)
	})
}

// The other processes are killed at sampled moments of a create and a delete: all
// of them on the local back end, those that log in to services on the real one.
func TestKillMatrixServices(t *testing.T) {
	t.Parallel()
	parts := []string{"control", "api", "temporal", "libvirtd", "postgres", "host"}
	moments := []time.Duration{50 * time.Millisecond, 700 * time.Millisecond, 2500 * time.Millisecond}
	if leansOn() == openStack {
		parts, moments = []string{"control", "api", "host"}, moments[1:2]
	}
	for _, part := range parts {
		for _, after := range moments {
			t.Run(part+"/create/"+after.String(), func(t *testing.T) {
				c := ownCloud(t)
				id := c.createIdle(t, encryptedTIS)
				time.Sleep(after)
				c.kill(t, part)
				s := c.settled(t, id)
				require.Contains(t, []string{"ACTIVE", "ERROR"}, s.Status)
				c.nothingIsLeft(t)
				c.delete(t, id)
				c.nothingIsLeft(t)
			})
		}
		t.Run(part+"/delete", func(t *testing.T) {
			c := ownCloud(t)
			id := c.createIdle(t, encryptedTIS)
			c.becomes(t, id, "ACTIVE")
			require.NoError(t, servers.Delete(t.Context(), c.compute(t, "-demo"), id).ExtractErr())
			time.Sleep(200 * time.Millisecond)
			c.kill(t, part)
			c.gone(t, id)
			c.nothingIsLeft(t)
		})
	}
}

func eachPoint(t *testing.T, activities []string, run func(t *testing.T, c *testCloud, point string)) {
	t.Helper()
	t.Parallel()
	for _, activity := range activities {
		for _, when := range []string{"before", "after"} {
			point := activity + "@" + when
			t.Run(point, func(t *testing.T) { run(t, ownCloud(t), point) })
		}
	}
}
