package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// A forced delete is a delete, whatever goes on; a delete cannot be taken back.
func TestForceDeleteAndRestore(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.create(nil)
	c.act(t, member, id, `{"restore":null}`).fails(409, "conflictingRequest", "Cannot 'restore' instance "+id+" while it is in task_state scheduling")
	c.settle(id, compute.VMActive, compute.TaskNone)
	c.act(t, member, id, `{"restore":null}`).fails(409, "conflictingRequest", "Cannot 'restore' instance "+id+" while it is in vm_state active")
	c.act(t, reader, id, `{"forceDelete":null}`).fails(403, "forbidden", "Policy doesn't allow os_compute_api:os-deferred-delete:force to be performed.")
	c.settle(id, compute.VMActive, compute.TaskRebooting)
	for range 2 {
		c.act(t, member, id, `{"forceDelete":null}`).is(202, "")
		require.Equal(t, compute.TaskDeleting, c.row(id).TaskState)
		require.Equal(t, 1, c.count(`SELECT count(*) FROM operations WHERE server_id = $1 AND kind = 'delete'`, id))
	}
	locked := c.create(nil)
	c.settle(locked, compute.VMActive, compute.TaskNone)
	c.act(t, admin, locked, `{"lock":null}`).ok(202)
	c.act(t, member, locked, `{"forceDelete":null}`).fails(409, "conflictingRequest", "Instance "+locked+" is locked")
}
