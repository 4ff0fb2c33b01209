package record_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/placement"
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
	require.NoError(t, b.open(in, record.Open{Event: "left open"}))
	end := record.SettleInput{OperationInput: in, State: compute.OperationSucceeded, VMState: compute.VMActive, Power: compute.PowerRunning, Launched: true}
	require.NoError(t, b.Settle(b.ctx, end))
	row := b.row(in)
	require.Equal(t, compute.VMActive, row.VMState)
	require.Equal(t, compute.PowerRunning, row.PowerState)
	require.Empty(t, row.TaskState)
	require.Empty(t, row.CurrentOperation)
	require.NotNil(t, row.LaunchedAt)
	require.Nil(t, row.Fault)

	before := b.Dump(everything...)
	require.NoError(t, b.Settle(b.ctx, end), "twice")
	require.NoError(t, b.Settle(b.ctx, record.SettleInput{OperationInput: in, State: compute.OperationFailed, VMState: compute.VMError}), "an end is an end")
	require.NoError(t, b.FinishDelete(b.ctx, record.FinishDeleteInput{OperationInput: in}))
	require.Equal(t, before, b.Dump(everything...))
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

func TestFinishDelete(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Host("h1", 8, 8192)
	spawn := b.server(compute.OpCreate)
	_, err := b.placement.Claim(b.ctx, placement.ClaimInput{OperationInput: spawn, Plan: plan})
	require.NoError(t, err)
	secret := compute.SecretID{UUID: uuid.New()}
	require.NoError(t, b.saveSecrets(spawn, record.Secrets{Disks: map[string]compute.SecretID{b.disk(spawn).String(): secret}, TPM: &secret}))
	made := []compute.Thing{thing(spawn, compute.ThingKeySecret, "s")}
	require.NoError(t, b.open(spawn, record.Open{Event: "e", Things: made}))
	in := b.supersede(spawn, compute.OpDelete, nil)
	b.Exec("INSERT INTO secret_sums (server_id, secret_id, sealed) VALUES ($1, $2, '')", spawn.Server, secret)

	before := b.Dump(everything...)
	require.True(t, compute.Is(b.FinishDelete(b.ctx, record.FinishDeleteInput{OperationInput: in}), compute.Conflict), "not while something is left")
	require.Equal(t, before, b.Dump(everything...))

	require.NoError(t, b.close(in, record.Close{Event: "delete", Released: made}))
	for _, err := range atOnce(4, func(int) error { return b.FinishDelete(b.ctx, record.FinishDeleteInput{OperationInput: in}) }) {
		require.NoError(t, err)
	}
	row := b.row(in)
	require.Equal(t, compute.VMDeleted, row.VMState)
	require.NotNil(t, row.DeletedAt)
	require.NotNil(t, row.TerminatedAt)
	require.Empty(t, row.CurrentOperation)
	require.Equal(t, compute.OperationSucceeded, b.op(in).State)
	require.Equal(t, "claims:\n\n", b.Dump("claims"))
	require.NotContains(t, b.Dump("server_disks", "server_system_metadata", "secret_sums"), secret.String())
}

// The close of the last step is in the end's transaction, and is written also where the
// end is refused (C7).
func TestTheLastStepClosesWithTheEnd(t *testing.T) {
	t.Parallel()
	b := setup(t)
	begin := func(in durable.OperationInput, name string) (compute.Thing, *record.Close) {
		made := thing(in, compute.ThingKeySecret, name)
		require.NoError(t, b.open(in, record.Open{Event: name, Things: []compute.Thing{made}}))
		return made, &record.Close{Event: name, Present: []compute.Thing{made}}
	}
	results := func(event string) int {
		return b.CountRows("SELECT count(*) FROM operation_events WHERE event = $1 AND result = 'Success'", event)
	}
	in := b.server(compute.OpCreate)
	_, end := begin(in, "a")
	require.NoError(t, b.Settle(b.ctx, record.SettleInput{
		OperationInput: in, Close: end, State: compute.OperationFailed, VMState: compute.VMError,
	}))
	require.Equal(t, 1, results("a"), "though the operation failed")
	require.Equal(t, []compute.ThingState{compute.ThingPresent}, b.states(in.Server))

	in = b.server(compute.OpCreate)
	_, end = begin(in, "b")
	b.supersede(in, compute.OpDelete, nil)
	err := b.Settle(b.ctx, record.SettleInput{OperationInput: in, Close: end, State: compute.OperationSucceeded, VMState: compute.VMActive})
	require.True(t, record.IsSuperseded(err), "%v", err)
	require.Equal(t, 1, results("b"))
	require.Equal(t, []compute.ThingState{compute.ThingPresent}, b.states(in.Server))
	require.Equal(t, compute.OperationAccepted, b.op(in).State, "it is still to be undone")

	in = b.server(compute.OpDelete)
	_, end = begin(in, "c")
	err = b.FinishDelete(b.ctx, record.FinishDeleteInput{OperationInput: in, Close: end})
	require.True(t, compute.Is(err, compute.Conflict), "%v", err)
	require.Equal(t, 1, results("c"))
	require.Nil(t, b.row(in).DeletedAt)
	end.Present, end.Released = nil, end.Present
	require.NoError(t, b.FinishDelete(b.ctx, record.FinishDeleteInput{OperationInput: in, Close: end}))
	require.NotNil(t, b.row(in).DeletedAt)
	require.Empty(t, b.things(in.Server))
}

// B6: an operation that works on a host, or on anything but a server, begins, writes and ends
// as any other.
func TestB6AnOperationOnAVolumeBeginsAndEnds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	volume := compute.Owner{Kind: compute.OwnerVolume, ID: uuid.New()}
	for _, kind := range []compute.OperationKind{compute.OpStop, compute.OpReboot} {
		op := compute.Operation{ID: compute.NewOperationID(), Kind: kind, Subject: volume}
		b.Operation(op, compute.RebootArguments{Hard: true})
		in := input(op)
		begun, err := b.Begin(b.ctx, in)
		require.NoError(t, err)
		require.False(t, begun.Superseded)
		require.Equal(t, owner, begun.Credential)
		require.Zero(t, begun.Server)
		require.Nil(t, begun.Host)
		require.Equal(t, volume, b.op(in).Operation().On())

		made := thing(in, compute.ThingKeySecret, string(kind))
		made.Owner = volume
		require.NoError(t, b.open(in, record.Open{Event: "e", Things: []compute.Thing{made}}))
		require.NoError(t, b.Settle(b.ctx, record.SettleInput{
			OperationInput: in, Close: &record.Close{Event: "e", Released: []compute.Thing{made}}, State: compute.OperationSucceeded,
		}))
		require.Equal(t, compute.OperationSucceeded, b.op(in).State)
		require.NoError(t, b.Settle(b.ctx, record.SettleInput{OperationInput: in, State: compute.OperationFailed}), "an end is an end")
		require.Equal(t, compute.OperationSucceeded, b.op(in).State)
		require.True(t, record.IsSuperseded(b.open(in, record.Open{Event: "f"})), "what is over writes nothing")
		begun, err = b.Begin(b.ctx, in)
		require.NoError(t, err)
		require.True(t, begun.Superseded)
	}
}

// An end whose answer was lost is written again when another operation has made again what it released.
func TestAnEndWrittenAgainReleasesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	volume := compute.Owner{Kind: compute.OwnerVolume, ID: uuid.New()}
	begin := func(kind compute.OperationKind) (in durable.OperationInput, mount []compute.Thing) {
		op := compute.Operation{ID: compute.NewOperationID(), Kind: kind, Subject: volume}
		b.Operation(op, compute.RebootArguments{})
		in = input(op)
		_, err := b.Begin(b.ctx, in)
		require.NoError(t, err)
		made := compute.Thing{Kind: compute.ThingVolumeMount, Place: "host", Name: volume.ID.String(), Owner: volume}
		require.NoError(t, b.open(in, record.Open{Event: "e", Things: []compute.Thing{made}}))
		return in, []compute.Thing{made}
	}
	present := func() int {
		return b.CountRows("SELECT count(*) FROM ledger WHERE name = $1 AND state = 'present'", volume.ID.String())
	}
	for _, state := range []compute.OperationState{compute.OperationSucceeded, compute.OperationFailed} {
		in, mount := begin(compute.OpStop)
		end := record.SettleInput{OperationInput: in, Close: &record.Close{Event: "e", Released: mount}, State: state}
		require.NoError(t, b.Settle(b.ctx, end))
		require.Zero(t, present())
		again, mount := begin(compute.OpReboot)
		require.NoError(t, b.Settle(b.ctx, record.SettleInput{
			OperationInput: again, Close: &record.Close{Event: "e", Present: mount}, State: compute.OperationSucceeded,
		}))
		require.Equal(t, 1, present())
		require.NoError(t, b.Settle(b.ctx, end))
		require.Equal(t, 1, present())
	}
}

// TestLowUserDataGoWithTheServer: they may hold passwords, and nobody can read them any more.
func TestLowUserDataGoWithTheServer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	spawn := b.server(compute.OpCreate)
	_, err := b.DB.Exec(b.ctx, `UPDATE servers SET user_data = 'c2VjcmV0' WHERE id = $1`, spawn.Server)
	require.NoError(t, err)
	in := b.supersede(spawn, compute.OpDelete, nil)
	require.NotNil(t, b.row(in).UserData)
	require.NoError(t, b.FinishDelete(b.ctx, record.FinishDeleteInput{OperationInput: in}))
	require.Nil(t, b.row(in).UserData)
}
