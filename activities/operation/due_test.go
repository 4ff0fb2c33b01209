package operation_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/activities/operation"
	"strongroom/compute"
	"strongroom/schema"
)

// A shelved server leaves its host by itself when its time there is over, and none before,
// none that an operation has, and none that stays. Nobody is asked for a token for it.
func TestShelvedServersLeaveTheirHosts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	due, early, taken, stays := b.server(), b.server(), b.server(), b.server()
	b.exec("UPDATE servers SET vm_state = 'shelved', task_state = '', current_operation = ''")
	b.exec("UPDATE servers SET offload_at = now() - interval '1 second' WHERE id = ANY ($1::uuid[])", []string{due.String(), taken.String()})
	b.exec("UPDATE servers SET offload_at = now() + interval '1 hour' WHERE id = $1", early)
	b.exec("UPDATE servers SET task_state = 'unshelving', current_operation = 'req-x' WHERE id = $1", taken)
	b.exec("UPDATE servers SET locked_by = 'owner' WHERE id = $1", due)
	for range 2 {
		_, err := b.watch(operation.WatchInput{Limit: 100 * time.Millisecond, Every: quick}, nil)
		require.NoError(t, err)
	}
	row, err := b.q.GetServer(t.Context(), due)
	require.NoError(t, err)
	require.Equal(t, compute.TaskShelvingOffloading, row.TaskState)
	op, err := b.q.GetOperation(t.Context(), row.CurrentOperation)
	require.NoError(t, err)
	require.Equal(t, compute.OpShelveOffload, op.Kind)
	require.Equal(t, compute.MemberCredential("p"), op.Operation().Credential)
	for _, id := range []compute.ServerID{early, stays} {
		row, err := b.q.GetServer(t.Context(), id)
		require.NoError(t, err)
		require.Empty(t, row.CurrentOperation)
	}
	row, err = b.q.GetServer(t.Context(), taken)
	require.NoError(t, err)
	require.Equal(t, compute.OperationID("req-x"), row.CurrentOperation)
}

// TPM-15: a server that went off with its host is started again, once, if its keys can be read
// without its owner. Of one whose keys cannot, its owner reads why it is off. None is started
// that somebody took meanwhile, and no lock is in the way.
func TestServersOfARestartedHostAreStarted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	free, closed, taken, stays := b.server(), b.server(), b.server(), b.server()
	b.exec("UPDATE servers SET vm_state = 'stopped', task_state = '', current_operation = ''")
	b.exec("UPDATE servers SET resume_at = now() WHERE id <> $1", stays)
	b.exec("UPDATE servers SET locked_by = 'owner' WHERE id = $1", free)
	b.exec(`UPDATE servers SET tpm = '{"version": "2.0", "model": "tpm-crb", "security": "user"}' WHERE id = $1`, closed)
	rows, err := b.q.TakeServer(t.Context(), schema.TakeServerParams{
		ID: taken, Task: compute.TaskRebuilding, OperationID: "req-x", FromVmState: compute.VMStopped, FromTaskState: compute.TaskNone,
	})
	require.NoError(t, err)
	require.EqualValues(t, 1, rows)
	b.exec("UPDATE servers SET task_state = '', current_operation = '' WHERE id = $1", taken) // it is over
	for range 2 {
		_, err := b.watch(operation.WatchInput{Limit: 100 * time.Millisecond, Every: quick}, nil)
		require.NoError(t, err)
	}
	row, err := b.q.GetServer(t.Context(), free)
	require.NoError(t, err)
	require.Equal(t, compute.TaskPoweringOn, row.TaskState)
	op, err := b.q.GetOperation(t.Context(), row.CurrentOperation)
	require.NoError(t, err)
	require.Equal(t, compute.OpStart, op.Kind)
	require.Equal(t, compute.MemberCredential("p"), op.Operation().Credential)

	var state, message string
	require.NoError(t, b.Pool.QueryRow(t.Context(), "SELECT state, message FROM operations WHERE server_id = $1", closed).Scan(&state, &message))
	require.Equal(t, "failed", state)
	require.Contains(t, message, "The host was restarted")
	for _, id := range []compute.ServerID{closed, taken, stays} {
		row, err := b.q.GetServer(t.Context(), id)
		require.NoError(t, err)
		require.Empty(t, row.CurrentOperation)
		require.Equal(t, compute.VMStopped, row.VMState)
	}
	var left int
	require.NoError(t, b.Pool.QueryRow(t.Context(), "SELECT count(*) FROM servers WHERE resume_at IS NOT NULL").Scan(&left))
	require.Zero(t, left)
}

// A server that somebody keeps locked, in a session that hangs, keeps no other waiting whose time has
// come, nor the ledger.
func TestAServerThatIsKeptLockedKeepsNoOtherWaiting(t *testing.T) {
	t.Parallel()
	b := setup(t)
	stuck, other := b.server(), b.server()
	b.exec("UPDATE servers SET vm_state = 'shelved', task_state = '', current_operation = ''")
	b.exec("UPDATE servers SET offload_at = now() - interval '2 seconds' WHERE id = $1", stuck)
	b.exec("UPDATE servers SET offload_at = now() - interval '1 second' WHERE id = $1", other)
	tx, err := b.Pool.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	_, err = tx.Exec(t.Context(), "SELECT FROM servers WHERE id = $1 FOR UPDATE", stuck)
	require.NoError(t, err)
	_, err = b.watch(operation.WatchInput{Limit: 100 * time.Millisecond, Every: quick}, nil)
	require.NoError(t, err)
	row, err := b.q.GetServer(t.Context(), other)
	require.NoError(t, err)
	require.Equal(t, compute.TaskShelvingOffloading, row.TaskState)
}
