package record_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// TestAStepMayRunTwiceAndAtOnce: a thing has one open row, whatever happens.
func TestAStepMayRunTwiceAndAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in := b.server(compute.OpCreate)
	made := []compute.Thing{thing(in, compute.ThingKeySecret, "a"), thing(in, compute.ThingKeySecret, "b")}
	open := record.Open{Event: "create_secrets", Things: made}
	for _, err := range atOnce(8, func(int) error { return b.open(in, open) }) {
		require.NoError(t, err)
	}
	require.Equal(t, []compute.ThingState{compute.ThingIntended, compute.ThingIntended}, b.states(in.Server))

	end := record.Close{Event: "create_secrets", Present: made}
	for _, err := range atOnce(8, func(int) error { return b.close(in, end) }) {
		require.NoError(t, err)
	}
	require.Equal(t, []compute.ThingState{compute.ThingPresent, compute.ThingPresent}, b.states(in.Server))
	require.NoError(t, b.open(in, open))
	require.Equal(t, []compute.ThingState{compute.ThingPresent, compute.ThingPresent}, b.states(in.Server), "what is there stays there")

	undo := record.Close{Event: "create_secrets", Released: made[:1]}
	for _, err := range atOnce(8, func(int) error { return b.close(in, undo) }) {
		require.NoError(t, err)
	}
	things := b.things(in.Server)
	require.Len(t, things, 1)
	require.Equal(t, "b", things[0].Name)
	require.Equal(t, owner, things[0].Credential)

	// The operation makes it again, as an undo does, and removes it again.
	for _, err := range atOnce(8, func(int) error { return b.open(in, open) }) {
		require.NoError(t, err)
	}
	require.ElementsMatch(t, []compute.ThingState{compute.ThingIntended, compute.ThingPresent}, b.states(in.Server))
	require.NoError(t, b.close(in, undo))

	// The next operation makes the same thing again: a row of its own.
	next := b.supersede(in, compute.OpStart, nil)
	again := thing(next, compute.ThingKeySecret, "a")
	require.NoError(t, b.open(next, record.Open{Event: "e", Things: []compute.Thing{again}}))
	require.Len(t, b.states(in.Server), 2)
	require.Equal(t, 2, b.CountRows("SELECT count(*) FROM ledger WHERE name = 'a'"), "what was released stays on the ledger")
	_, err := b.Advance(b.ctx, record.AdvanceInput{OperationInput: in, Open: &open, Unfenced: true}) // by an operation that has lost its server
	require.NoError(t, err, "and beside it the first one's needs none")
	require.Len(t, b.states(in.Server), 2)
}

// TestTheTrailShowsTheLastTry: an event that is opened again shows no old end.
func TestTheTrailShowsTheLastTry(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in := b.server(compute.OpCreate)
	host := &durable.Host{ID: b.Host("h1", 8, 8192), Name: "h1"}
	event := func() (result, details, name *string) {
		require.NoError(t, b.Pool.QueryRow(b.ctx, "SELECT result, details, host FROM operation_events").Scan(&result, &details, &name))
		return
	}
	require.NoError(t, b.open(in, record.Open{Event: "cache_image", Host: host}))
	require.NoError(t, b.close(in, record.Close{Event: "cache_image", Host: host, Error: "it was silent"}))
	result, details, name := event()
	require.Equal(t, []string{"Error", "it was silent", "h1"}, []string{*result, *details, *name})
	require.NoError(t, b.open(in, record.Open{Event: "cache_image", Host: host}))
	result, details, _ = event()
	require.Nil(t, result)
	require.Nil(t, details)
	require.NoError(t, b.close(in, record.Close{Event: "cache_image", Host: host}))
	result, _, _ = event()
	require.Equal(t, "Success", *result)
}

// B3: an operation may do the same on two hosts at once, and each has its own end.
func TestB3TheSameStepOnTwoHostsHasTwoEnds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in := b.server(compute.OpCreate)
	from, to := &durable.Host{ID: b.Host("h1", 8, 8192), Name: "h1"}, &durable.Host{ID: b.Host("h2", 8, 8192), Name: "h2"}
	for range 2 {
		for _, host := range []*durable.Host{from, to} {
			require.NoError(t, b.open(in, record.Open{Event: "connect", Host: host}))
		}
	}
	require.NoError(t, b.close(in, record.Close{Event: "connect", Host: to, Error: "no"}))
	result := func(host *durable.Host) (result *string) {
		require.NoError(t, b.Pool.QueryRow(b.ctx, "SELECT result FROM operation_events WHERE host_id = $1", host.ID).Scan(&result))
		return result
	}
	require.Nil(t, result(from))
	require.Equal(t, "Error", *result(to))
	require.NoError(t, b.open(in, record.Open{Event: "connect"}))
	require.NoError(t, b.close(in, record.Close{Event: "connect"}))
	require.Nil(t, result(from), "a step without a host is another one")
	require.Equal(t, 1, b.CountRows("SELECT count(*) FROM operation_events WHERE host_id IS NULL AND result = 'Success'"))
	require.NoError(t, b.close(in, record.Close{Event: "connect", Host: from}))
	require.Equal(t, "Success", *result(from))
	require.Equal(t, "Error", *result(to))
}

// C7: what lies between two steps is one write.
func TestAdvanceWritesAllOrNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in := b.server(compute.OpCreate)
	host := durable.Host{ID: b.Host("h1", 8, 8192), Name: "h1"}
	made, next := thing(in, compute.ThingKeySecret, "a"), thing(in, compute.ThingDomain, "b")
	require.NoError(t, b.open(in, record.Open{Event: "create_secrets", Things: []compute.Thing{made}}))
	secret, task := compute.SecretID{UUID: uuid.New()}, compute.TaskSpawning
	advance := record.AdvanceInput{
		OperationInput: in,
		Close:          &record.Close{Event: "create_secrets", Present: []compute.Thing{made}},
		Secrets:        &record.Secrets{Disks: map[string]compute.SecretID{b.disk(in).String(): secret}, TPM: &secret},
		Options:        []record.Option{{Disk: b.disk(in), Format: compute.FormatLUKS, Options: map[string]string{"a": "b"}}},
		Trust:          &record.Trust{Delegated: compute.DelegatedCredential(in.Server, "p1", "u1"), Trust: "t-1"},
		Task:           &task,
		Open:           &record.Open{Event: "start_domain", Host: &host, Things: []compute.Thing{next}},
	}
	require.Equal(t, "close create_secrets, save ids of secrets, save encryption options, save the trust, set task spawning, open start_domain",
		record.Advance.Summary(advance))

	// The last part fails: nothing of it is written but what was seen.
	before := b.Dump("servers", "server_disks", "server_system_metadata", "credentials")
	b.Exec("ALTER TABLE operation_events ADD CONSTRAINT no CHECK (event <> 'start_domain')")
	_, err := b.Advance(b.ctx, advance)
	require.ErrorContains(t, err, "no")
	require.Equal(t, before, b.Dump("servers", "server_disks", "server_system_metadata", "credentials"))
	require.Equal(t, []compute.ThingState{compute.ThingPresent}, b.states(in.Server))
	b.Exec("ALTER TABLE operation_events DROP CONSTRAINT no")

	for range 2 {
		got, err := b.Advance(b.ctx, advance)
		require.NoError(t, err)
		require.False(t, got.HostDown)
	}
	require.Equal(t, []compute.ThingState{compute.ThingPresent, compute.ThingIntended}, b.states(in.Server))
	require.Equal(t, compute.TaskSpawning, b.row(in).TaskState)
	require.Equal(t, 1, b.CountRows("SELECT count(*) FROM server_disks WHERE encryption_secret_uuid = $1 AND encryption_options = '{\"a\":\"b\"}'", secret))
	require.Equal(t, 1, b.CountRows("SELECT count(*) FROM server_system_metadata WHERE value = $1", secret.String()))
	require.Equal(t, 1, b.CountRows("SELECT count(*) FROM credentials WHERE trust_id = 't-1'"))
	require.Equal(t, 1, b.CountRows("SELECT count(*) FROM operation_events WHERE finished_at IS NULL AND event = 'start_domain'"))
}

// What was seen is written whoever has the server; the rest is not.
func TestAdvanceOfALostOperation(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in := b.server(compute.OpCreate)
	made, next := thing(in, compute.ThingKeySecret, "a"), thing(in, compute.ThingDomain, "b")
	gone, waits := thing(in, compute.ThingKeySecret, "c"), thing(in, compute.ThingKeySecret, "d")
	require.NoError(t, b.open(in, record.Open{Event: "e", Things: []compute.Thing{made, gone, waits}}))
	b.supersede(in, compute.OpDelete, nil)
	task := compute.TaskSpawning
	advance := record.AdvanceInput{
		OperationInput: in, Task: &task, Open: &record.Open{Event: "f", Things: []compute.Thing{next}},
		Close: &record.Close{
			Event: "e", Present: []compute.Thing{made}, Released: []compute.Thing{gone},
			Waiting: []compute.Thing{waits.Waits(compute.BlockedByCredential, "nobody may")},
		},
	}
	before := b.Dump("servers")
	_, err := b.Advance(b.ctx, advance)
	require.True(t, record.IsSuperseded(err), "%v", err)
	require.Equal(t, before, b.Dump("servers"))
	things := b.things(in.Server)
	require.Len(t, things, 2)
	require.ElementsMatch(t, []compute.ThingState{compute.ThingPresent, compute.ThingWaiting}, b.states(in.Server))
	require.Equal(t, 1, b.CountRows("SELECT count(*) FROM ledger WHERE name = 'd' AND blocked_by = 'credential' AND reason = 'nobody may'"))
	require.Equal(t, 1, b.CountRows("SELECT count(*) FROM operation_events WHERE event = 'e' AND result = 'Success'"))
	require.Zero(t, b.CountRows("SELECT count(*) FROM operation_events WHERE event = 'f'"))

	require.NoError(t, b.close(in, *advance.Close), "a close alone has nothing to refuse")
	advance.Unfenced = true
	_, err = b.Advance(b.ctx, advance)
	require.NoError(t, err, "an undo goes on")
	require.Len(t, b.things(in.Server), 3)
	require.Equal(t, before, b.Dump("servers"), "but the server is another operation's")
}

// A host that cannot be counted on is told before work is put on its queue.
func TestAdvanceTellsOfAHostThatIsDown(t *testing.T) {
	t.Parallel()
	down, stale := record.AdvanceResult{HostDown: true}, record.AdvanceResult{HostStale: true}
	for name, v := range map[string]struct {
		change string
		told   record.AdvanceResult
	}{
		"up":          {"SELECT 1", record.AdvanceResult{}},
		"forced down": {"UPDATE hosts SET forced_down = true", down},
		"given up":    {"UPDATE hosts SET forgotten_at = now()", down},
		"unknown":     {"DELETE FROM hosts", down},
		"silent":      {"UPDATE hosts SET last_seen = now() - interval '60 seconds'", stale},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			in := b.server(compute.OpCreate)
			host := durable.Host{ID: b.Host("h1", 8, 8192), Name: "h1"}
			b.Exec(v.change)
			got, err := b.Advance(b.ctx, record.AdvanceInput{OperationInput: in, Open: &record.Open{Event: "e", Host: &host}})
			require.NoError(t, err)
			require.Equal(t, v.told, got)
		})
	}
}

// What waits says what for.
func TestAThingThatWaitsForNothingIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in := b.server(compute.OpCreate)
	made := thing(in, compute.ThingKeySecret, "a")
	require.NoError(t, b.open(in, record.Open{Event: "e", Things: []compute.Thing{made}}))
	err := b.close(in, record.Close{Event: "e", Waiting: []compute.Thing{made}})
	require.True(t, compute.Is(err, compute.Invalid), "%v", err)
}
