package record_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// TestALostOperationChangesNothing tries every write of an operation whose
// server went over to another one.
func TestALostOperationChangesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.host("h1", 8, 8192)
	in := b.server(compute.OpCreate)
	_, err := b.Begin(b.ctx, in)
	require.NoError(t, err)
	secret := compute.SecretID{UUID: uuid.New()}
	disk := b.disk(in)
	require.NoError(t, b.SaveSecrets(b.ctx, record.SecretsInput{
		OperationInput: in, Disks: map[string]compute.SecretID{disk.String(): secret}, TPM: &secret,
	}))
	b.supersede(in, compute.OpDelete, nil)
	other := compute.SecretID{UUID: uuid.New()}
	for name, write := range map[string]func() error{
		"Task": func() error { return b.Task(b.ctx, record.TaskInput{OperationInput: in, Task: compute.TaskSpawning}) },
		"Claim": func() error {
			_, err := b.Claim(b.ctx, record.ClaimInput{OperationInput: in, Plan: plan(1)})
			return err
		},
		"SaveSecrets": func() error {
			return b.SaveSecrets(b.ctx, record.SecretsInput{OperationInput: in,
				Disks: map[string]compute.SecretID{disk.String(): other}, Sources: map[string]compute.SecretID{disk.String(): other}, TPM: &other})
		},
		"SaveOptions": func() error {
			return b.SaveOptions(b.ctx, record.OptionsInput{OperationInput: in, Disk: disk, Options: map[string]string{"a": "b"}})
		},
		"Open": func() error {
			things := []compute.Thing{thing(in, compute.ThingKeySecret, "s")}
			return b.Open(b.ctx, record.OpenInput{OperationInput: in, Event: "create_secrets", Things: things})
		},
		"Settle": func() error {
			return b.Settle(b.ctx, record.SettleInput{OperationInput: in, State: compute.OperationSucceeded, VMState: compute.VMActive})
		},
		"Bury": func() error { return b.Bury(b.ctx, in) },
	} {
		before := b.dump(everything...)
		err := write()
		require.True(t, record.IsSuperseded(err), "%s: %v", name, err)
		require.Equal(t, before, b.dump(everything...), name)
	}
	before := b.dump(everything...)
	require.NoError(t, b.ClearSecrets(b.ctx, in), "an undo goes on")
	require.NoError(t, b.Unclaim(b.ctx, in))
	require.Equal(t, before, b.dump(everything...))
}

// TestALostOperationCanStillUndo: what it made goes off the books, its events
// close, and it ends as cancelled.
func TestALostOperationCanStillUndo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.host("h1", 8, 8192)
	in := b.server(compute.OpCreate)
	_, err := b.Begin(b.ctx, in)
	require.NoError(t, err)
	_, err = b.Claim(b.ctx, record.ClaimInput{OperationInput: in, Plan: plan(1)})
	require.NoError(t, err)
	made := []compute.Thing{thing(in, compute.ThingKeySecret, "s")}
	require.NoError(t, b.Open(b.ctx, record.OpenInput{OperationInput: in, Event: "create_secrets", Things: made}))
	next := b.supersede(in, compute.OpDelete, nil)
	before := b.dump("servers")

	require.NoError(t, b.Open(b.ctx, record.OpenInput{OperationInput: in, Event: "undo_create_secrets", Undo: true}))
	require.NoError(t, b.Close(b.ctx, record.CloseInput{OperationInput: in, Event: "undo_create_secrets", Released: made}))
	require.NoError(t, b.Unclaim(b.ctx, in))
	require.NoError(t, b.Settle(b.ctx, record.SettleInput{OperationInput: in, State: compute.OperationFailed, Message: "x", VMState: compute.VMError}))

	require.Equal(t, before, b.dump("servers"))
	require.Equal(t, "claims:\n\n", b.dump("claims"))
	left, err := b.Things(b.ctx, in.Server)
	require.NoError(t, err)
	require.Empty(t, left)
	op := b.op(in)
	require.Equal(t, compute.OperationCancelled, op.State)
	require.NotNil(t, op.FinishedAt)
	require.Equal(t, compute.OperationAccepted, b.op(next).State)
	var open int
	require.NoError(t, b.Pool.QueryRow(b.ctx, "SELECT count(*) FROM operation_events WHERE finished_at IS NULL").Scan(&open))
	require.Zero(t, open)
}

// TestTheServerCannotGoOverInTheMiddle: the fence holds until the write is
// through, whichever comes first.
func TestTheServerCannotGoOverInTheMiddle(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range 20 {
		in := b.server(compute.OpCreate)
		next := durable.OperationInput{Operation: compute.NewOperationID(), Server: in.Server}
		b.operation(next, compute.OpDelete, nil)
		errs := atOnce(2, func(i int) error {
			if i == 0 {
				return b.Open(b.ctx, record.OpenInput{OperationInput: in, Event: "e", Things: []compute.Thing{thing(in, compute.ThingKeySecret, in.Server.String())}})
			}
			_, err := b.Pool.Exec(b.ctx, "UPDATE servers SET current_operation = $1 WHERE id = $2", next.Operation, in.Server)
			return err
		})
		require.NoError(t, errs[1])
		things, err := b.Things(b.ctx, in.Server)
		require.NoError(t, err)
		if errs[0] == nil {
			require.Len(t, things, 1)
		} else {
			require.True(t, record.IsSuperseded(errs[0]), "%v", errs[0])
			require.Empty(t, things)
		}
	}
}
