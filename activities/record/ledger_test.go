package record_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/activities/record"
	"strongroom/compute"
)

// TestAStepMayRunTwiceAndAtOnce: a thing has one open row, whatever happens.
func TestAStepMayRunTwiceAndAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in := b.server(compute.OpCreate)
	made := []compute.Thing{thing(in, compute.ThingKeySecret, "a"), thing(in, compute.ThingKeySecret, "b")}
	open := record.OpenInput{OperationInput: in, Event: "create_secrets", Things: made}
	for _, err := range atOnce(8, func(int) error { return b.Open(b.ctx, open) }) {
		require.NoError(t, err)
	}
	require.Equal(t, []compute.ThingState{compute.ThingIntended, compute.ThingIntended}, b.states(in.Server))

	end := record.CloseInput{OperationInput: in, Event: "create_secrets", Present: made}
	for _, err := range atOnce(8, func(int) error { return b.Close(b.ctx, end) }) {
		require.NoError(t, err)
	}
	require.Equal(t, []compute.ThingState{compute.ThingPresent, compute.ThingPresent}, b.states(in.Server))
	require.NoError(t, b.Open(b.ctx, open))
	require.Equal(t, []compute.ThingState{compute.ThingPresent, compute.ThingPresent}, b.states(in.Server), "what is there stays there")

	undo := record.CloseInput{OperationInput: in, Event: "create_secrets", Released: made[:1]}
	for _, err := range atOnce(8, func(int) error { return b.Close(b.ctx, undo) }) {
		require.NoError(t, err)
	}
	things, err := b.Things(b.ctx, in.Server)
	require.NoError(t, err)
	require.Len(t, things, 1)
	require.Equal(t, "b", things[0].Name)
	require.Equal(t, owner, things[0].Credential)

	// The operation makes it again, as an undo does, and takes it away again.
	for _, err := range atOnce(8, func(int) error { return b.Open(b.ctx, open) }) {
		require.NoError(t, err)
	}
	require.ElementsMatch(t, []compute.ThingState{compute.ThingIntended, compute.ThingPresent}, b.states(in.Server))
	require.NoError(t, b.Close(b.ctx, undo))

	// The next operation makes the same thing again: a row of its own.
	next := b.supersede(in, compute.OpStart, nil)
	again := thing(next, compute.ThingKeySecret, "a")
	require.NoError(t, b.Open(b.ctx, record.OpenInput{OperationInput: next, Event: "e", Things: []compute.Thing{again}}))
	require.Len(t, b.states(in.Server), 2)
	var rows int
	require.NoError(t, b.Pool.QueryRow(b.ctx, "SELECT count(*) FROM ledger WHERE name = 'a'").Scan(&rows))
	require.Equal(t, 2, rows, "what was released stays on the books")
	open.Undo = true // by an operation that has lost its server
	require.NoError(t, b.Open(b.ctx, open), "and beside it the first one's needs none")
	require.Len(t, b.states(in.Server), 2)
}

func (b *bundle) states(server compute.ServerID) []compute.ThingState {
	b.t.Helper()
	things, err := b.Things(b.ctx, server)
	require.NoError(b.t, err)
	var out []compute.ThingState
	for _, t := range things {
		out = append(out, t.State)
	}
	return out
}

// TestTheTrailShowsTheLastTry: an event that is opened again shows no old end.
func TestTheTrailShowsTheLastTry(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in := b.server(compute.OpCreate)
	host := b.host("h1", 8, 8192)
	event := func() (result, details, name *string) {
		require.NoError(t, b.Pool.QueryRow(b.ctx, "SELECT result, details, host FROM operation_events").Scan(&result, &details, &name))
		return
	}
	require.NoError(t, b.Open(b.ctx, record.OpenInput{OperationInput: in, Event: "cache_image", Host: &host, Name: "h1"}))
	require.NoError(t, b.Close(b.ctx, record.CloseInput{OperationInput: in, Event: "cache_image", Error: "it was silent"}))
	result, details, name := event()
	require.Equal(t, []string{"Error", "it was silent", "h1"}, []string{*result, *details, *name})
	require.NoError(t, b.Open(b.ctx, record.OpenInput{OperationInput: in, Event: "cache_image"}))
	result, details, _ = event()
	require.Nil(t, result)
	require.Nil(t, details)
	require.NoError(t, b.Close(b.ctx, record.CloseInput{OperationInput: in, Event: "cache_image"}))
	result, _, _ = event()
	require.Equal(t, "Success", *result)
}

func TestTheBooksForTheAudit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.host("h1", 8, 8192)
	b.host("h2", 8, 8192)
	_, err := b.Pool.Exec(b.ctx, "UPDATE hosts SET last_seen = now() - interval '1 hour' WHERE name = 'h2'")
	require.NoError(t, err)
	in := b.server(compute.OpCreate)
	kept, dropped := thing(in, compute.ThingKeySecret, "kept"), thing(in, compute.ThingKeySecret, "dropped")
	require.NoError(t, b.Open(b.ctx, record.OpenInput{OperationInput: in, Event: "e", Things: []compute.Thing{kept, dropped}}))
	before, err := b.Ledger(b.ctx, record.LedgerInput{})
	require.NoError(t, err)
	require.Len(t, before.Things, 2)
	require.True(t, before.Things[0].Busy)
	require.False(t, before.Things[0].ServerDeleted)
	require.Empty(t, before.Gone)
	require.Equal(t, map[string]bool{"h1": true, "h2": false}, map[string]bool{before.Hosts[0].Name: before.Hosts[0].Up, before.Hosts[1].Name: before.Hosts[1].Up})
	require.WithinDuration(t, time.Now(), before.At, time.Minute)

	require.NoError(t, b.Close(b.ctx, record.CloseInput{OperationInput: in, Event: "e", Present: []compute.Thing{kept}, Released: []compute.Thing{dropped}}))
	require.NoError(t, b.Settle(b.ctx, record.SettleInput{OperationInput: in, State: compute.OperationSucceeded, VMState: compute.VMActive}))
	after, err := b.Ledger(b.ctx, record.LedgerInput{Since: &before.At})
	require.NoError(t, err)
	require.Len(t, after.Things, 1)
	require.Equal(t, compute.ThingPresent, after.Things[0].State)
	require.False(t, after.Things[0].Busy)
	require.Len(t, after.Gone, 1)
	require.Equal(t, "dropped", after.Gone[0].Name)
	late := before.At.Add(time.Hour)
	after, err = b.Ledger(b.ctx, record.LedgerInput{Since: &late})
	require.NoError(t, err)
	require.Empty(t, after.Gone)
}
