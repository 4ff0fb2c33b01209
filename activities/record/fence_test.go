package record_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/placement"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/schema/fence"
)

// N5: that an operation has lost its server is a kind of error, and no text.
func TestN5SupersededIsAKind(t *testing.T) {
	t.Parallel()
	require.True(t, record.IsSuperseded(record.Superseded()))
	require.True(t, record.IsSuperseded(fmt.Errorf("so: %w", record.Superseded())))
	require.False(t, record.IsSuperseded(compute.Errorf(compute.Conflict, "%s", fence.Message)), "the same words say nothing")
	require.False(t, record.IsSuperseded(nil))
}

// TestALostOperationChangesNothing tries every write of an operation whose
// server went over to another one.
func TestALostOperationChangesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Host("h1", 8, 8192)
	in := b.server(compute.OpCreate)
	_, err := b.Begin(b.ctx, in)
	require.NoError(t, err)
	secret := compute.SecretID{UUID: uuid.New()}
	disk := b.disk(in)
	require.NoError(t, b.saveSecrets(in, record.Secrets{Disks: map[string]compute.SecretID{disk.String(): secret}, TPM: &secret}))
	b.supersede(in, compute.OpDelete, nil)
	other := compute.SecretID{UUID: uuid.New()}
	for name, write := range map[string]func() error{
		"Task": func() error { return b.task(in, compute.TaskSpawning) },
		"Claim": func() error {
			_, err := b.placement.Claim(b.ctx, placement.ClaimInput{OperationInput: in, Plan: plan})
			return err
		},
		"SaveSecrets": func() error {
			return b.saveSecrets(in, record.Secrets{Disks: map[string]compute.SecretID{disk.String(): other}, Sources: map[string]compute.SecretID{disk.String(): other}, TPM: &other})
		},
		"SaveOptions": func() error {
			return b.saveOptions(in, record.Option{Disk: disk, Options: map[string]string{"a": "b"}})
		},
		"Open": func() error {
			things := []compute.Thing{thing(in, compute.ThingKeySecret, "s")}
			return b.open(in, record.Open{Event: "create_secrets", Things: things})
		},
		"Settle": func() error {
			return b.Settle(b.ctx, record.SettleInput{OperationInput: in, State: compute.OperationSucceeded, VMState: compute.VMActive})
		},
		"FinishDelete": func() error { return b.FinishDelete(b.ctx, record.FinishDeleteInput{OperationInput: in}) },
	} {
		before := b.Dump(everything...)
		err := write()
		require.True(t, record.IsSuperseded(err), "%s: %v", name, err)
		require.Equal(t, before, b.Dump(everything...), name)
	}
	before := b.Dump(everything...)
	require.NoError(t, b.ClearSecrets(b.ctx, in), "an undo goes on")
	require.NoError(t, b.placement.Unclaim(b.ctx, in))
	require.Equal(t, before, b.Dump(everything...))
}

// TestALostOperationCanStillUndo: what it made is released, its events
// close, and it ends as cancelled.
func TestALostOperationCanStillUndo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Host("h1", 8, 8192)
	in := b.server(compute.OpCreate)
	_, err := b.Begin(b.ctx, in)
	require.NoError(t, err)
	_, err = b.placement.Claim(b.ctx, placement.ClaimInput{OperationInput: in, Plan: plan})
	require.NoError(t, err)
	made := []compute.Thing{thing(in, compute.ThingKeySecret, "s")}
	require.NoError(t, b.open(in, record.Open{Event: "create_secrets", Things: made}))
	next := b.supersede(in, compute.OpDelete, nil)
	before := b.Dump("servers")

	_, err = b.Advance(b.ctx, record.AdvanceInput{OperationInput: in, Open: &record.Open{Event: "undo_create_secrets"}, Unfenced: true})
	require.NoError(t, err)
	require.NoError(t, b.close(in, record.Close{Event: "undo_create_secrets", Released: made}))
	require.NoError(t, b.placement.Unclaim(b.ctx, in))
	require.NoError(t, b.Settle(b.ctx, record.SettleInput{OperationInput: in, State: compute.OperationFailed, Message: "x", VMState: compute.VMError}))

	require.Equal(t, before, b.Dump("servers"))
	require.Equal(t, "claims:\n\n", b.Dump("claims"))
	require.Empty(t, b.things(in.Server))
	op := b.op(in)
	require.Equal(t, compute.OperationCancelled, op.State)
	require.NotNil(t, op.FinishedAt)
	require.Equal(t, compute.OperationAccepted, b.op(next).State)
	require.Zero(t, b.CountRows("SELECT count(*) FROM operation_events WHERE finished_at IS NULL"))
}

// TestTheServerCannotGoOverInTheMiddle: the fence holds until the write is
// through, whichever comes first.
func TestTheServerCannotGoOverInTheMiddle(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range 20 {
		in := b.server(compute.OpCreate)
		next := compute.Operation{ID: compute.NewOperationID(), ServerID: in.Server, Kind: compute.OpDelete}
		b.Operation(next, nil)
		errs := atOnce(2, func(i int) error {
			if i == 0 {
				return b.open(in, record.Open{Event: "e", Things: []compute.Thing{thing(in, compute.ThingKeySecret, in.Server.String())}})
			}
			_, err := b.Pool.Exec(b.ctx, "UPDATE servers SET current_operation = $1 WHERE id = $2", next.ID, in.Server)
			return err
		})
		require.NoError(t, errs[1])
		things := b.things(in.Server)
		if errs[0] == nil {
			require.Len(t, things, 1)
		} else {
			require.True(t, record.IsSuperseded(errs[0]), "%v", errs[0])
			require.Empty(t, things)
		}
	}
}
