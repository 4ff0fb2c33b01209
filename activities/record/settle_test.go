package record_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

func TestSettleGivesTheServerBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in := b.server(compute.OpCreate)
	_, err := b.Begin(b.ctx, in)
	require.NoError(t, err)
	require.NoError(t, b.Open(b.ctx, record.OpenInput{OperationInput: in, Event: "left open"}))
	end := record.SettleInput{OperationInput: in, State: compute.OperationSucceeded, VMState: compute.VMActive, Power: compute.PowerRunning, Launched: true}
	require.NoError(t, b.Settle(b.ctx, end))
	row := b.row(in)
	require.Equal(t, compute.VMActive, row.VMState)
	require.Equal(t, compute.PowerRunning, row.PowerState)
	require.Empty(t, row.TaskState)
	require.Empty(t, row.CurrentOperation)
	require.NotNil(t, row.LaunchedAt)
	require.Nil(t, row.Fault)

	before := b.dump(everything...)
	require.NoError(t, b.Settle(b.ctx, end), "twice")
	require.NoError(t, b.Settle(b.ctx, record.SettleInput{OperationInput: in, State: compute.OperationFailed, VMState: compute.VMError}), "an end is an end")
	require.NoError(t, b.Bury(b.ctx, in))
	require.Equal(t, before, b.dump(everything...))
}

// TestSettleAtOnce: an attempt that overtakes another one's commit is no loss of
// the server.
func TestSettleAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range 30 {
		in := b.server(compute.OpCreate)
		for _, err := range atOnce(8, func(int) error {
			return b.Settle(b.ctx, record.SettleInput{OperationInput: in, State: compute.OperationSucceeded, VMState: compute.VMActive})
		}) {
			require.NoError(t, err)
		}
		require.Equal(t, compute.OperationSucceeded, b.op(in).State)
	}
}

func TestAFailureLeavesItsFault(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in := b.server(compute.OpCreate)
	fault := &compute.Fault{Code: 500, Message: "no", Created: time.Now().UTC().Truncate(time.Second)}
	require.NoError(t, b.Settle(b.ctx, record.SettleInput{OperationInput: in, State: compute.OperationFailed, Message: "no", VMState: compute.VMError, Fault: fault}))
	require.Equal(t, fault, b.row(in).Fault)
	require.Equal(t, "no", *b.op(in).Message)
	require.Nil(t, b.row(in).LaunchedAt)

	stop := b.supersede(in, compute.OpStop, nil)
	require.NoError(t, b.Settle(b.ctx, record.SettleInput{OperationInput: stop, State: compute.OperationFailed, VMState: compute.VMError}))
	require.Equal(t, fault, b.row(in).Fault, "a server left in ERROR keeps its fault")

	start := b.supersede(in, compute.OpReboot, compute.RebootArguments{Hard: true})
	require.NoError(t, b.Settle(b.ctx, record.SettleInput{OperationInput: start, State: compute.OperationSucceeded, VMState: compute.VMActive}))
	require.Nil(t, b.row(in).Fault, "one that came out of it has none")
}

func TestBuryEndsADelete(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.host("h1", 8, 8192)
	spawn := b.server(compute.OpCreate)
	_, err := b.Claim(b.ctx, record.ClaimInput{OperationInput: spawn, Plan: plan(1)})
	require.NoError(t, err)
	secret := compute.SecretID{UUID: uuid.New()}
	require.NoError(t, b.SaveSecrets(b.ctx, record.SecretsInput{
		OperationInput: spawn, Disks: map[string]compute.SecretID{b.disk(spawn).String(): secret}, TPM: &secret,
	}))
	made := []compute.Thing{thing(spawn, compute.ThingKeySecret, "s")}
	require.NoError(t, b.Open(b.ctx, record.OpenInput{OperationInput: spawn, Event: "e", Things: made}))
	in := b.supersede(spawn, compute.OpDelete, nil)

	before := b.dump(everything...)
	require.True(t, compute.Is(b.Bury(b.ctx, in), compute.Conflict), "not while something is left")
	require.Equal(t, before, b.dump(everything...))

	require.NoError(t, b.Close(b.ctx, record.CloseInput{OperationInput: in, Event: "delete", Released: made}))
	for _, err := range atOnce(4, func(int) error { return b.Bury(b.ctx, in) }) {
		require.NoError(t, err)
	}
	row := b.row(in)
	require.Equal(t, compute.VMDeleted, row.VMState)
	require.NotNil(t, row.DeletedAt)
	require.NotNil(t, row.TerminatedAt)
	require.Empty(t, row.CurrentOperation)
	require.Equal(t, compute.OperationSucceeded, b.op(in).State)
	require.Equal(t, "claims:\n\n", b.dump("claims"))
	require.NotContains(t, b.dump("server_disks", "server_system_metadata"), secret.String())
}

// An image that was announced for an operation which never began, or was terminated, is
// removed later; nothing else is: a server may run on it.
func TestAnImageWithoutItsOperationWaits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, end := range map[string]func(durable.OperationInput) error{
		"succeeded": func(in durable.OperationInput) error {
			return b.Settle(b.ctx, record.SettleInput{OperationInput: in, State: compute.OperationSucceeded, VMState: compute.VMActive})
		},
		"failed": func(in durable.OperationInput) error {
			return b.Settle(b.ctx, record.SettleInput{OperationInput: in, State: compute.OperationFailed, VMState: compute.VMError})
		},
		"never began": func(in durable.OperationInput) error {
			_, err := b.Pool.Exec(b.ctx, "UPDATE servers SET current_operation = '' WHERE id = $1", in.Server)
			require.NoError(t, err)
			begun, err := b.Begin(b.ctx, in)
			require.True(t, begun.Superseded)
			return err
		},
	} {
		in := b.server(compute.OpCreate)
		begun, made, another := thing(in, compute.ThingImage, name+" a"), thing(in, compute.ThingImage, name+" b"), thing(in, compute.ThingImage, name+" c")
		another.Operation = compute.NewOperationID()
		domain := thing(in, compute.ThingDomain, name)
		things := []compute.Thing{begun, made, another, domain}
		require.NoError(t, b.Open(b.ctx, record.OpenInput{OperationInput: in, Event: "e", Things: things}))
		require.NoError(t, b.Close(b.ctx, record.CloseInput{OperationInput: in, Event: "e", Present: []compute.Thing{made}}))
		require.NoError(t, end(in), name)
		require.ElementsMatch(t, []compute.ThingState{
			compute.ThingWaiting, compute.ThingPresent, compute.ThingIntended, compute.ThingIntended,
		}, b.states(in.Server), name)
		waiting := b.waiting().Things
		require.Len(t, waiting, 1, name)
		require.Equal(t, begun.ID, waiting[0].ID)
		require.NotEmpty(t, waiting[0].Refused)
		require.NoError(t, b.Reaped(b.ctx, record.ReapedInput{Released: waiting}))
	}
}
