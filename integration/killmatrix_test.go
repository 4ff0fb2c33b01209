package integration_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"
)

// The kill matrix: an operation is cut at a point by SIGKILL of a process, and
// whatever the point, the operation settles, completed or fully undone, and the
// audit finds nothing.

// arm makes the next worker that reaches a fault point die there, and requires
// at the end of the test that one did.
func (c *testCloud) arm(t *testing.T, point string) {
	t.Helper()
	path := filepath.Join(c.faults, point)
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	t.Cleanup(func() {
		require.NoFileExists(t, path, "the point was never reached")
		_ = os.Remove(path)
	})
}

// The activities of a create and a delete: all of the host worker's, a sample of
// the control worker's. Each kills its worker once before and once after it.
var (
	spawnOnHost     = []string{"disk.CacheImage", "disk.Create", "domain.Start"}
	spawnOnControl  = []string{"record.Claim", "key.Create", "record.Settle"}
	deleteOnHost    = []string{"domain.Destroy", "disk.Delete", "tpm.Delete"}
	deleteOnControl = []string{"operation.CancelRunning", "key.Delete", "record.Bury"}
)

func TestKillMatrixSpawn(t *testing.T) {
	c := startedCloud(t)
	eachPoint(t, append(spawnOnHost, spawnOnControl...), func(t *testing.T, point string) {
		c.arm(t, point)
		id := c.create(t, encryptedTIS)
		s := c.settled(t, id)
		require.Contains(t, []string{"ACTIVE", "ERROR"}, s.Status)
		require.Equal(t, "ACTIVE", s.Status, "a worker that comes back completes the create; fault: %s", s.Fault.Message)
		c.nothingIsLeft(t)
		c.delete(t, id)
		c.nothingIsLeft(t)
	})
}

func TestKillMatrixDelete(t *testing.T) {
	c := startedCloud(t)
	eachPoint(t, append(deleteOnHost, deleteOnControl...), func(t *testing.T, point string) {
		id := c.create(t, encryptedTIS)
		c.becomes(t, id, "ACTIVE")
		c.arm(t, point)
		c.delete(t, id)
		c.nothingIsLeft(t)
	})
}

// A create that is undone, since its server is deleted meanwhile, is cut in its
// undo.
func TestKillMatrixUndo(t *testing.T) {
	c := startedCloud(t)
	eachPoint(t, []string{"disk.Delete", "domain.Destroy", "domain.ForgetSecrets", "key.Delete"}, func(t *testing.T, point string) {
		id := c.create(t, encryptedTIS)
		c.reaches(t, id, "start_domain")
		c.arm(t, point)
		c.delete(t, id)
		c.nothingIsLeft(t)
	})
}

// The other processes are killed at sampled moments of a create and a delete.
func TestKillMatrixServices(t *testing.T) {
	c := startedCloud(t)
	for _, part := range []string{"control", "api", "temporal", "libvirtd", "postgres", "host"} {
		for _, after := range []time.Duration{50 * time.Millisecond, 700 * time.Millisecond, 2500 * time.Millisecond} {
			t.Run(part+"/create/"+after.String(), func(t *testing.T) {
				id := c.create(t, encryptedTIS)
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
			id := c.create(t, encryptedTIS)
			c.becomes(t, id, "ACTIVE")
			require.NoError(t, servers.Delete(t.Context(), c.compute(t, "-demo"), id).ExtractErr())
			time.Sleep(200 * time.Millisecond)
			c.kill(t, part)
			c.gone(t, id)
			c.nothingIsLeft(t)
		})
	}
}

func eachPoint(t *testing.T, activities []string, run func(t *testing.T, point string)) {
	t.Helper()
	for _, activity := range activities {
		for _, when := range []string{"before", "after"} {
			point := activity + "@" + when
			t.Run(point, func(t *testing.T) { run(t, point) })
		}
	}
}
