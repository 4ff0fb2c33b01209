package integration_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// The kill matrix: an operation is cut at a point by SIGKILL of a process, and
// whatever the point, the operation settles, completed or fully undone, and the
// audit finds nothing.

// cuts are the activities at which operations are cut off: all of the host worker's
// and some of the control worker's. cutsOf chooses among them.
var cuts = struct{ certificate, spawn, groups, delete, undo, image, backup, rescue, unrescue, rebuild, rotation, pause, unpause, suspend, resume, shelve, unshelve, resize, confirm, revert, resizeOff, migrate, confirmThere, revertThere, move, live, liveUndo, evacuate, drain, shareAttach, shareDetach, shareStart, shareStop, shareDelete, portCreate, portMove, portShelve, portUnshelve, portDelete, portUndo, interfaceAttach, interfaceDetach, interfaceUndo, uefiSpawn, uefiUndo []string }{
	certificate: []string{"disk.CacheImage", "disk.Create", "domain.Start"},
	spawn: []string{
		"disk.CacheImage", "disk.Create", "domain.Start",
		"placement.Claim", "record.Advance", "key.Create", "trust.Create", "record.Settle",
	},
	groups: []string{"placement.Claim", "disk.Create", "record.Settle"},
	delete: []string{
		"domain.Remove.domain", "disk.Remove.disk_file", "tpm.Remove.tpm_state",
		"operation.CancelRunning", "ledger.Things", "key.Remove.key_secret", "trust.Remove.trust", "record.FinishDelete",
	},
	undo:     []string{"disk.Remove.disk_file", "domain.Remove.domain", "domain.Remove.hypervisor_secret", "key.Remove.key_secret", "trust.Remove.trust"},
	image:    []string{"image.Create", "key.Check", "domain.Export", "image.Upload"},
	backup:   []string{"record.HandOver", "image.Remove.image"},
	rescue:   []string{"key.Check", "disk.Create", "domain.Stop", "domain.Start"},
	unrescue: []string{"domain.Start", "record.Unrescue", "disk.Remove.disk_file"},
	rebuild:  []string{"disk.Create", "domain.Start", "record.Rebuild", "disk.Remove.disk_file", "key.Remove.key_secret"},
	pause:    []string{"domain.Pause", "record.Settle"},
	unpause:  []string{"domain.Unpause", "record.Advance"},
	suspend:  []string{"domain.Suspend", "record.Settle"},
	resume:   []string{"domain.Start", "record.Advance"},
	shelve: []string{
		"disk.CheckExport", "image.Create", "domain.Stop", "disk.Export", "image.Upload", "tpm.Save", "object.Verify", "record.Shelve",
		"domain.Remove.domain", "disk.Remove.disk_file", "tpm.Remove.tpm_state",
	},
	unshelve: []string{
		"placement.Claim", "disk.Restore", "tpm.Restore", "domain.Start", "record.Unshelve", "image.Remove.image", "object.Remove.object",
	},
	resize:  []string{"disk.CheckMove", "placement.Claim", "disk.CheckRoom", "domain.Stop", "disk.Resize", "tpm.Keep", "domain.Start", "record.Settle"},
	confirm: []string{"record.ConfirmResize", "disk.Remove.disk_file", "tpm.Remove.tpm_state"},
	revert:  []string{"domain.Stop", "tpm.Keep", "tpm.PutBack", "domain.Start", "record.RevertResize", "disk.Remove.disk_file"},
	resizeOff: []string{ // what becomes of the vTPM, and which of the operations is cut
		"changed, resize: tpm.Keep", "changed, resize: tpm.PutBack", "added, resize: key.Create", "kept, resize: disk.Resize",
		"changed, revert: tpm.PutBack", "changed, revert: tpm.Remove.tpm_state", "added, revert: key.Remove.key_secret",
		"changed, confirm: tpm.Remove.tpm_state", "removed, confirm: key.Remove.key_secret",
	},
	migrate: []string{
		"placement.Claim", "disk.CacheImage", "domain.Stop", "placement.HostAgent", "disk.Receive", "tpm.Receive", "domain.Start", "record.Settle",
	},
	confirmThere: []string{"record.ConfirmResize", "domain.Remove.domain", "disk.Remove.disk_file", "tpm.Remove.tpm_state"},
	revertThere: []string{
		"domain.Stop", "domain.Start", "record.RevertResize", "domain.Remove.domain", "disk.Remove.disk_file", "tpm.Remove.tpm_state",
	},
	move: []string{"disk.Receive", "tpm.Receive"},
	live: []string{
		"placement.Claim", "disk.CacheImage", "disk.Create", "placement.HostAgent", "domain.Expect", "domain.Migrate", "domain.Arrived",
		"record.LiveMigrated", "domain.Remove.domain", "disk.Remove.disk_file", "tpm.Remove.tpm_state", "record.Settle",
	},
	liveUndo:    []string{"domain.Departed", "domain.Remove.domain", "disk.Remove.disk_file", "tpm.Remove.tpm_state"},
	evacuate:    []string{"placement.Claim", "record.LeaveHost", "disk.CacheImage", "disk.Create", "domain.Start", "record.Evacuate", "record.Settle"},
	drain:       []string{"drain.Begin", "drain.Watch", "drain.End"},
	shareAttach: []string{"share.Allow", "record.Settle"},
	shareDetach: []string{"share.Remove.share_access", "record.Settle"},
	shareStart:  []string{"mount.Mount", "domain.Start", "record.Settle"},
	shareStop:   []string{"domain.Stop", "mount.Remove.share_mount", "record.Settle"},
	shareDelete: []string{"domain.Remove.domain", "mount.Remove.share_mount", "share.Remove.share_access"},

	portCreate:   []string{"port.Plug", "port.Look"},
	portMove:     []string{"port.Prepare", "port.Bind"},
	portShelve:   []string{"port.Release"},
	portUnshelve: []string{"port.Bind"},
	portDelete:   []string{"port.Remove.port"},
	portUndo:     []string{"record.ClearPorts", "port.Remove.port"},

	interfaceAttach: []string{"port.Plug", "record.Advance", "domain.Plug", "record.Settle"},
	interfaceUndo:   []string{"domain.Remove.plugged_port", "record.DropPort", "port.Remove.port"},
	interfaceDetach: []string{"ledger.Things", "domain.Unplug", "record.DropPort", "port.Remove.port", "record.Settle"},

	uefiSpawn: []string{"disk.CreateNVRAM", "domain.Start"},
	uefiUndo:  []string{"domain.Remove.domain", "disk.Remove.disk_file"},

	rotation: []string{"disk.AddKey", "record.Rotate", "disk.Remove.key_slot", "key.Remove.key_secret"},
}

// cutFlavor is of a server that an operation cut at the point makes.
func cutFlavor(point string) flavorSpec {
	if strings.HasPrefix(point, "trust.") {
		return delegated
	}
	return encryptedTIS
}

func TestKillMatrixSpawn(t *testing.T) {
	everywhere(t)
	eachPoint(t, cutsOf("spawn", cuts.spawn), cutCreate)
}

func cutCreate(t *testing.T, c *testCloud, point string) {
	c.arm(t, point)
	id := c.createIdle(t, cutFlavor(point))
	c.becomes(t, id, "ACTIVE") // a worker that comes back completes the create
	c.nothingIsLeft(t)
	c.delete(t, id)
	c.nothingIsLeft(t)
}

func TestKillMatrixDelete(t *testing.T) {
	everywhere(t)
	eachPoint(t, cutsOf("delete", cuts.delete), cutDelete)
}

func cutDelete(t *testing.T, c *testCloud, point string) {
	id := c.createIdle(t, cutFlavor(point))
	c.becomes(t, id, "ACTIVE")
	c.arm(t, point)
	c.delete(t, id)
	c.nothingIsLeft(t)
}

func TestKillMatrixUndo(t *testing.T) {
	everywhere(t)
	eachPoint(t, cutsOf("undo", cuts.undo), cutUndo)
}

// cutUndo cuts the undo of a create, whose server is deleted when its domain has just started.
func cutUndo(t *testing.T, c *testCloud, point string) {
	started := c.hold(t, "domain.Start@after")
	id := c.createIdle(t, cutFlavor(point))
	started.waits(t, c.progress(id))
	c.arm(t, point)
	c.delete(t, id)
	c.nothingIsLeft(t)
}

// What ./task test has of the matrices of creates and deletes: a worker that dies in each of them and in an undo, and other processes that die
// while a host is about to make a disk.
func TestKillSmoke(t *testing.T) {
	backends(t, local)
	points := map[string]func(*testing.T, *testCloud, string){
		"disk.Create@after": cutCreate, "domain.Start@before": cutCreate, "record.Settle@after": cutCreate,
		"disk.Remove.disk_file@before": cutDelete,
		"key.Remove.key_secret@after":  cutUndo,
		control:                        killInCreate, "temporal": killInCreate, "postgres": killInCreate,
	}
	eachPoint(t, slices.Sorted(maps.Keys(points)), func(t *testing.T, c *testCloud, point string) { points[point](t, c, point) })
}

func killInCreate(t *testing.T, c *testCloud, part string) {
	making := c.hold(t, "disk.Create@before")
	id := c.createIdle(t, encryptedTIS)
	making.waits(t, c.progress(id))
	c.kill(t, part)
	making.release()
	c.becomes(t, id, "ACTIVE")
	c.nothingIsLeft(t)
	c.delete(t, id)
	require.Equal(t, []string{"create succeeded", "delete succeeded"}, c.ends(t, id))
	c.nothingIsLeft(t)
}

// The other processes are killed at some points of a create and a delete, after the api has
// accepted them. Each of these parts starts again by itself, and what it was doing is retried: there is
// no moment at which the death of any makes a create fail, and none at which a delete does not end.
func TestKillMatrixServices(t *testing.T) {
	everywhere(t)
	t.Parallel()
	for _, k := range killsOf("kills", []string{control, "api", gateway, "host", "temporal", "libvirtd", "postgres"},
		[]string{"create/placement.Claim@before", "create/disk.Create@before", "create/domain.Start@after", "delete/disk.Remove.disk_file@before"}) {
		t.Run(k.part+"/"+k.moment, func(t *testing.T) {
			c := ownCloud(t)
			operation, point, _ := strings.Cut(k.moment, "/")
			at := c.hold(t, point)
			id := c.createIdle(t, encryptedTIS)
			if operation == "delete" {
				c.becomes(t, id, "ACTIVE")
				require.NoError(t, servers.Delete(t.Context(), c.compute(t, "-demo"), id).ExtractErr())
			}
			at.waits(t, c.progress(id))
			c.kill(t, k.part)
			at.release()
			if operation == "create" {
				c.becomes(t, id, "ACTIVE")
				c.nothingIsLeft(t)
				c.delete(t, id)
			}
			c.gone(t, id)
			require.Equal(t, []string{"create succeeded", "delete succeeded"}, c.ends(t, id))
			c.nothingIsLeft(t)
		})
	}
}

// ends says how each operation on a server ended, the oldest first.
func (c *testCloud) ends(t *testing.T, id string) []string {
	t.Helper()
	rows, err := c.database(t).Query(t.Context(), "SELECT kind || ' ' || state FROM operations WHERE server_id = $1 ORDER BY number", id)
	require.NoError(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return all
}

// eachPoint runs a test for each point, on a cloud of its own.
func eachPoint(t *testing.T, points []string, run func(t *testing.T, c *testCloud, point string)) {
	t.Helper()
	t.Parallel()
	for _, point := range points {
		t.Run(point, func(t *testing.T) { run(t, ownCloud(t), point) })
	}
}
