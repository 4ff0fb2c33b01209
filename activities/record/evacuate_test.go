package record_test

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"strongroom/activities/ledger"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
	"strongroom/worker/gateway"
)

// An evacuate leaves a host that is silent and forced down, or whose watchdog had its time, and no other one. From then on that
// host is told not to run the server, until it has nothing of it any more, or the operation failed. The
// decision may be made twice, also when another operation has the server.
func TestEvacuate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	from, to := b.Host("a", 4, 4096), b.Host("b", 4, 4096)
	first := b.server(compute.OpCreate)
	b.Exec("UPDATE servers SET host_id = $2, vm_state = 'active' WHERE id = $1", first.Server, from)
	claim := func(host any, op compute.OperationID) {
		b.Exec("INSERT INTO claims (server_id, host_id, operation_id, vcpus, memory_mb, disk_gb) VALUES ($1, $2, $3, 1, 1, 1)", first.Server, host, op)
	}
	claim(from, first.Operation)
	made := compute.Operation{ID: first.Operation, ServerID: first.Server, Credential: compute.Credential{ProjectID: "p1", UserID: "u1"}}
	var has []compute.Thing
	for _, kind := range []compute.ThingKind{compute.ThingDomain, compute.ThingRunningDomain} {
		has = append(has, made.Thing(kind, from.String(), compute.InstanceName(first.Server)))
	}
	_, err := b.Advance(b.ctx, record.AdvanceInput{OperationInput: first, Open: &record.Open{Event: "start_domain", Things: has}})
	require.NoError(t, err)
	states := func() (out []string) {
		rows, err := b.Pool.Query(b.ctx, "SELECT kind || ' ' || state || ' ' || blocked_by FROM ledger WHERE owner_id = $1 AND host_id = $2 ORDER BY kind", first.Server, from)
		require.NoError(t, err)
		defer rows.Close()
		for rows.Next() {
			var text string
			require.NoError(t, rows.Scan(&text))
			out = append(out, text)
		}
		return out
	}
	status := func() string {
		rows, err := b.q.ListMigrations(b.ctx, schema.ListMigrationsParams{Most: 1})
		require.NoError(t, err)
		require.Equal(t, []string{"evacuation", "a", "b"}, []string{rows[0].Type, rows[0].Source, rows[0].Destination})
		return rows[0].Status
	}
	told := func() (out []compute.ServerID) {
		servers, err := gateway.Records{Pool: b.Pool, Host: from, Logger: slog.New(slog.DiscardHandler)}.Evacuated(b.ctx)
		require.NoError(t, err)
		for _, s := range servers {
			require.WithinDuration(t, time.Now(), s.Since, time.Minute)
			out = append(out, s.Server)
		}
		return out
	}
	accepted := func() record.LeaveHostInput {
		in := b.supersede(first, compute.OpEvacuate, compute.EvacuateArguments{})
		b.Exec("UPDATE operations SET state = 'running' WHERE id = $1", in.Operation)
		_, err := b.Advance(b.ctx, record.AdvanceInput{OperationInput: in, Migration: &record.Migration{Type: record.EvacuationType, To: to, Flavor: "f"}})
		require.NoError(t, err)
		require.Equal(t, "accepted", status())
		return record.LeaveHostInput{OperationInput: in, From: from}
	}

	in := accepted()
	for _, is := range []string{
		"forced_down = false, last_seen = now()", "forced_down = true, last_seen = now()", "forced_down = false, last_seen = now() - interval '1 hour'",
		"fence_after = 60, last_seen = now() - interval '115 seconds'", "fence_after = 3600, last_seen = now() - interval '1 hour'",
	} {
		b.Exec("UPDATE hosts SET " + is + " WHERE name = 'a'")
		require.Equal(t, compute.Conflict, compute.KindOf(b.LeaveHost(b.ctx, in)), is)
		require.Empty(t, told())
	}
	b.Exec("UPDATE hosts SET fence_after = 60, last_seen = now() - interval '121 seconds' WHERE name = 'a'")
	require.NoError(t, b.LeaveHost(b.ctx, in), "its watchdog has stopped its guests")
	b.Exec("UPDATE hosts SET forced_down = true, fence_after = 0, last_seen = now() - interval '1 hour' WHERE name = 'a'")
	require.NoError(t, b.LeaveHost(b.ctx, in))
	require.Equal(t, "pre-migrating", status())
	require.Equal(t, []compute.ServerID{first.Server}, told())
	failed := compute.Operation{ID: in.Operation, ServerID: in.Server, Credential: made.Credential}
	there := []compute.Thing{failed.Thing(compute.ThingRunningDomain, to.String(), compute.InstanceName(in.Server))}
	_, err = b.Advance(b.ctx, record.AdvanceInput{OperationInput: in.OperationInput, Open: &record.Open{Event: "start_domain", Things: there}})
	require.NoError(t, err)
	there[0] = there[0].Waits(compute.BlockedByHost, "its host does not answer")
	_, err = b.Advance(b.ctx, record.AdvanceInput{OperationInput: in.OperationInput, Close: &record.Close{Event: "start_domain", Waiting: there}})
	require.NoError(t, err)
	require.NoError(t, b.Settle(b.ctx, record.SettleInput{OperationInput: in.OperationInput, State: compute.OperationFailed, VMState: compute.VMActive}))
	require.Equal(t, "failed", status())
	require.Equal(t, []compute.ServerID{first.Server}, told(), "the new host may still run it")
	require.True(t, compute.Is(schema.RunsHere(b.ctx, b.q, first.Server), compute.Conflict))
	require.NoError(t, (&ledger.Activities{Pool: b.Pool}).Reaped(b.ctx, ledger.ReapedInput{Released: there}))
	require.Empty(t, told())
	require.NoError(t, schema.RunsHere(b.ctx, b.q, first.Server))

	in = accepted()
	for range 2 {
		require.NoError(t, b.LeaveHost(b.ctx, in))
	}
	claim(to, in.Operation)
	will, err := schema.LoadServer(b.ctx, b.q, in.Server)
	require.NoError(t, err)
	will.Host, will.TPM = &to, &compute.TPM{Version: compute.TPM20, Model: compute.TPMCRB, Secret: &compute.SecretID{UUID: uuid.New()}}
	decide := record.EvacuateInput{OperationInput: in.OperationInput, From: from, To: will.WithNewTPM(true).WithUnbooted(true)}
	for range 2 {
		require.NoError(t, b.Evacuate(b.ctx, decide))
	}
	is, err := schema.LoadServer(b.ctx, b.q, in.Server)
	require.NoError(t, err)
	require.Equal(t, to, *is.Host)
	require.True(t, is.HasNewTPM() && is.Unbooted())
	require.Equal(t, "done", status())
	require.Equal(t, []compute.ServerID{first.Server}, told())
	require.Equal(t, []string{"domain waiting host", "running_domain released "}, states())
	claims := 0
	require.NoError(t, b.Pool.QueryRow(b.ctx, "SELECT count(*) FROM claims WHERE server_id = $1 AND host_id <> $2", in.Server, to).Scan(&claims))
	require.Zero(t, claims)
	next := b.supersede(in.OperationInput, compute.OpStart, struct{}{})
	require.NoError(t, b.Evacuate(b.ctx, decide), "it is decided, whoever has the server")
	require.NoError(t, b.Settle(b.ctx, record.SettleInput{
		OperationInput: next, State: compute.OperationSucceeded, VMState: compute.VMPaused, Power: compute.PowerPaused, // by QEMU
	}))
	is, err = schema.LoadServer(b.ctx, b.q, in.Server)
	require.NoError(t, err)
	require.False(t, is.HasNewTPM() || is.Unbooted(), "it was started")

	b.Exec("UPDATE hosts SET name = 'c' WHERE name = 'a'")
	require.Equal(t, []compute.ServerID{first.Server}, told(), "whatever its name is by now")
	has[0].State = compute.ThingWaiting
	require.NoError(t, (&ledger.Activities{Pool: b.Pool}).Reaped(b.ctx, ledger.ReapedInput{Released: has[:1]}))
	require.Equal(t, "completed", status())
	require.Empty(t, told())
}

// Files on storage that both hosts share are the new host's from the decision on, those that wait to be removed, too: nothing of them waits for
// the host that was left.
func TestEvacuatePassesFilesOnSharedStorage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	from, to := b.Host("a", 4, 4096), b.Host("b", 4, 4096)
	first := b.server(compute.OpCreate)
	b.Exec("UPDATE servers SET host_id = $2, vm_state = 'active' WHERE id = $1", first.Server, from)
	made := compute.Operation{ID: first.Operation, ServerID: first.Server, Credential: compute.Credential{ProjectID: "p1", UserID: "u1"}}
	var has []compute.Thing
	for _, name := range []string{"disk", "console.log", "disk.left"} {
		has = append(has, made.Thing(compute.ThingDiskFile, from.String(), first.Server.String()+"/"+name))
	}
	slot := made.Thing(compute.ThingKeySlot, from.String(), compute.OldKeySlots(first.Server, "disk", first.Operation))
	all := append(slices.Clone(has), slot, made.Thing(compute.ThingDomain, from.String(), compute.InstanceName(first.Server)))
	_, err := b.Advance(b.ctx, record.AdvanceInput{OperationInput: first, Open: &record.Open{Event: "x", Things: all}})
	require.NoError(t, err)
	waiting := []compute.Thing{has[2].Waits(compute.BlockedByHost, "it is down"), slot.Waits(compute.BlockedByHost, "it is down")}
	_, err = b.Advance(b.ctx, record.AdvanceInput{OperationInput: first, Close: &record.Close{Event: "x", Present: []compute.Thing{has[0], has[1], all[4]}, Waiting: waiting}})
	require.NoError(t, err)
	in := b.supersede(first, compute.OpEvacuate, compute.EvacuateArguments{})
	will, err := schema.LoadServer(b.ctx, b.q, in.Server)
	require.NoError(t, err)
	will.Host = &to
	for range 2 {
		require.NoError(t, b.Evacuate(b.ctx, record.EvacuateInput{OperationInput: in, From: from, To: will, SharedDisks: true}))
	}
	rows, err := b.Pool.Query(b.ctx, "SELECT kind || ' ' || state || ' ' || (host_id = $2)::text FROM ledger WHERE owner_id = $1 ORDER BY kind, name", first.Server, to)
	require.NoError(t, err)
	is, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"disk_file present true", "disk_file present true", "disk_file waiting true", "key_slot waiting true", "domain waiting false"}, is)
}

// A server that is deleted when it was evacuated leaves no evacuation that is not completed, once its old
// host has nothing of it any more.
func TestADeleteCompletesEvacuations(t *testing.T) {
	t.Parallel()
	for name, waits := range map[string]bool{"nothing is there": false, "its host is down": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			from, to := b.Host("a", 4, 4096), b.Host("b", 4, 4096)
			first := b.server(compute.OpCreate)
			b.Exec("UPDATE servers SET host_id = $2 WHERE id = $1", first.Server, from)
			in := b.supersede(first, compute.OpEvacuate, compute.EvacuateArguments{})
			_, err := b.Advance(b.ctx, record.AdvanceInput{OperationInput: in, Migration: &record.Migration{Type: record.EvacuationType, To: to, Flavor: "f"}})
			require.NoError(t, err)
			b.Exec("UPDATE migrations SET status = 'done'")
			made := compute.Operation{ID: first.Operation, ServerID: first.Server, Credential: compute.Credential{ProjectID: "p1", UserID: "u1"}}
			left := made.Thing(compute.ThingDiskFile, from.String(), first.Server.String()+"/disk").Waits(compute.BlockedByHost, "it is down")
			last := b.supersede(in, compute.OpDelete, struct{}{})
			_, err = b.Advance(b.ctx, record.AdvanceInput{OperationInput: last, Open: &record.Open{Event: "remove", Things: []compute.Thing{left}}})
			require.NoError(t, err)
			end := record.Close{Event: "remove"}
			if waits {
				end.Waiting = []compute.Thing{left}
			} else {
				end.Released = []compute.Thing{left}
			}
			require.NoError(t, b.FinishDelete(b.ctx, record.FinishDeleteInput{OperationInput: last, Close: &end}))
			status := func() (is string) {
				require.NoError(t, b.Pool.QueryRow(b.ctx, "SELECT status FROM migrations").Scan(&is))
				return is
			}
			if waits {
				require.Equal(t, "done", status())
				require.NoError(t, (&ledger.Activities{Pool: b.Pool}).Reaped(b.ctx, ledger.ReapedInput{Released: []compute.Thing{left}}))
			}
			require.Equal(t, "completed", status())
		})
	}
}

// A server whose new host goes down too goes to a third one. Both hosts that it left are told so, each until it has nothing of it any
// more, whichever comes back first; the third one runs it by right.
func TestEvacuateFromOneHostAfterTheOther(t *testing.T) {
	t.Parallel()
	for _, order := range [][]string{{"a", "b"}, {"b", "a"}} {
		t.Run(order[0]+" returns first", func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			hosts := map[string]compute.HostID{}
			for _, name := range []string{"a", "b", "c"} {
				hosts[name] = b.Host(name, 4, 4096)
			}
			b.Exec("UPDATE hosts SET forced_down = true, last_seen = now() - interval '1 hour'")
			told := func() (out []string) {
				for _, name := range []string{"a", "b", "c"} {
					of, err := gateway.Records{Pool: b.Pool, Host: hosts[name], Logger: slog.New(slog.DiscardHandler)}.Evacuated(b.ctx)
					require.NoError(t, err)
					if len(of) > 0 {
						out = append(out, name)
					}
				}
				return out
			}
			op := b.server(compute.OpCreate)
			b.Exec("UPDATE servers SET host_id = $2, vm_state = 'active' WHERE id = $1", op.Server, hosts["a"])
			domains := map[string]compute.Thing{}
			starts := func(in durable.OperationInput, host string) {
				made := compute.Operation{ID: in.Operation, ServerID: in.Server, Credential: compute.Credential{ProjectID: "p1", UserID: "u1"}}
				domains[host] = made.Thing(compute.ThingDomain, hosts[host].String(), compute.InstanceName(in.Server))
				_, err := b.Advance(b.ctx, record.AdvanceInput{OperationInput: in, Open: &record.Open{Event: "start_domain", Things: []compute.Thing{domains[host]}}})
				require.NoError(t, err)
				_, err = b.Advance(b.ctx, record.AdvanceInput{OperationInput: in, Close: &record.Close{Event: "start_domain", Present: []compute.Thing{domains[host]}}})
				require.NoError(t, err)
			}
			starts(op, "a")
			for _, way := range [][2]string{{"a", "b"}, {"b", "c"}} {
				from, to := hosts[way[0]], hosts[way[1]]
				op = b.supersede(op, compute.OpEvacuate, compute.EvacuateArguments{})
				b.Exec("UPDATE operations SET state = 'running' WHERE id = $1", op.Operation)
				_, err := b.Advance(b.ctx, record.AdvanceInput{OperationInput: op, Migration: &record.Migration{Type: record.EvacuationType, To: to, Flavor: "f"}})
				require.NoError(t, err)
				require.NoError(t, b.LeaveHost(b.ctx, record.LeaveHostInput{OperationInput: op, From: from}))
				b.Exec("INSERT INTO claims (server_id, host_id, operation_id, vcpus, memory_mb, disk_gb) VALUES ($1, $2, $3, 1, 1, 1)", op.Server, to, op.Operation)
				starts(op, way[1])
				will, err := schema.LoadServer(b.ctx, b.q, op.Server)
				require.NoError(t, err)
				will.Host = &to
				require.NoError(t, b.Evacuate(b.ctx, record.EvacuateInput{OperationInput: op, From: from, To: will}))
				require.NoError(t, b.Settle(b.ctx, record.SettleInput{OperationInput: op, State: compute.OperationSucceeded, VMState: compute.VMActive}))
			}
			require.Equal(t, []string{"a", "b"}, told())
			for i, name := range order {
				left := domains[name]
				left.State = compute.ThingWaiting
				require.NoError(t, (&ledger.Activities{Pool: b.Pool}).Reaped(b.ctx, ledger.ReapedInput{Released: []compute.Thing{left}}))
				require.Equal(t, order[i+1:], append([]string{}, told()...))
			}
			is, err := schema.LoadServer(b.ctx, b.q, op.Server)
			require.NoError(t, err)
			require.Equal(t, hosts["c"], *is.Host)
		})
	}
}
