package ledger_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"strongroom/activities/ledger"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// A host that will not come back is given up with what waits for it, and is a host again
// when it does.
func TestForget(t *testing.T) {
	t.Parallel()
	b := setup(t)
	host := b.Host("h1", 8, 8192)
	other := b.Host("h2", 8, 8192)
	owner := b.idle()
	server := compute.ServerID{UUID: owner.ID}
	b.waits(compute.BlockedByHost, thing(owner, compute.ThingDiskFile, host.String(), "disk"))
	b.waits(compute.BlockedByHost, thing(owner, compute.ThingDiskFile, other.String(), "disk elsewhere"))
	b.waits(compute.BlockedByThings, thing(owner, compute.ThingKeySecret, compute.PlaceKeyManager, "key"))
	b.Exec("INSERT INTO claims (server_id, host_id, operation_id, vcpus, memory_mb, disk_gb) VALUES ($1, $2, 'req-1', 1, 1, 1)", server, host)
	refused := func(why string) {
		t.Helper()
		before := b.Dump("hosts", "ledger", "claims")
		_, err := ledger.Forget(b.Ctx, b.DB, host)
		require.True(t, compute.Is(err, compute.Conflict), "%v", err)
		require.ErrorContains(t, err, why)
		_, asked := ledger.Forgettable(b.Ctx, b.DB, host)
		require.Equal(t, err, asked)
		require.Equal(t, before, b.Dump("hosts", "ledger", "claims"))
	}
	refused("stop its worker")
	b.Exec("UPDATE hosts SET last_seen = now() - interval '1 day' WHERE id = $1", host)
	b.Exec("UPDATE operations SET kind = 'live-migration', state = 'running' WHERE server_id = $1", server)
	b.Exec(`INSERT INTO migrations (uuid, operation_id, server_id, type, status, source, destination, destination_id, old_flavor, new_flavor, project_id, user_id)
		SELECT gen_random_uuid(), id, server_id, 'live-migration', 'running', 'h2', 'h1', $2, 'f', 'f', 'p1', 'u1' FROM operations WHERE server_id = $1`, server, host)
	refused("1 live migrations that have not ended: once it is fenced force it down")
	b.Exec("UPDATE operations SET state = 'failed' WHERE server_id = $1", server)
	refused("1 servers")
	b.Exec("UPDATE servers SET deleted_at = now(), host_id = $1", host)
	here := thing(owner, compute.ThingDomain, host.String(), "domain")
	b.present(here)
	refused("1 things")
	b.release(here)

	before := b.Dump("hosts", "ledger", "claims")
	would, err := ledger.Forgettable(b.Ctx, b.DB, host)
	require.NoError(t, err)
	require.Equal(t, []string{"disk"}, names(would))
	require.Equal(t, before, b.Dump("hosts", "ledger", "claims"), "to ask changes nothing")

	for i := range 2 {
		got, err := ledger.Forget(b.Ctx, b.DB, host)
		require.NoError(t, err)
		if i == 0 {
			require.Equal(t, []string{"disk"}, names(got))
			require.Equal(t, "why", got[0].Reason)
			require.Equal(t, "h1", got[0].HostName)
		} else {
			require.Empty(t, got)
		}
	}
	require.Equal(t, 1, b.CountRows("SELECT count(*) FROM ledger WHERE name = 'disk' AND state = 'released' AND released_at IS NOT NULL AND reason = 'why'"))
	require.Zero(t, b.CountRows("SELECT count(*) FROM claims"))
	forgotten := func() int { return b.CountRows("SELECT count(*) FROM hosts WHERE forgotten_at IS NOT NULL") }
	require.Equal(t, 1, forgotten())
	audit, err := b.StartAudit(b.Ctx, ledger.StartAuditInput{})
	require.NoError(t, err)
	require.Len(t, audit.Hosts, 1, "nobody asks it")

	rows, err := b.Q.SeeHost(b.Ctx, host)
	require.NoError(t, err)
	require.Zero(t, rows, "it must say anew what it is")
	b.Report(host, "h1", 8, 8192)
	require.Zero(t, forgotten())
}

// TPM-39: the state of a vTPM that the host was still to put back, on storage that others share, is another one's to put back: the
// server's own one, if it can. Where nobody shares the storage it is let go with the rest.
func TestForgetPassesOnWhatIsToBePutBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		shares []string // the hosts that share the storage of the first
		owns   string   // the server's own host
		to     string
	}{
		"to its own host":              {[]string{"h2", "h3", "h4"}, "h3", "h3"},
		"to one that is not forgotten": {[]string{"h2", "h4"}, "h3", "h4"},
		"to nobody":                    {[]string{"h2"}, "h3", ""},
	} {
		b := setup(t)
		ids := map[string]compute.HostID{}
		for _, host := range []string{"h1", "h2", "h3", "h4"} {
			ids[host] = b.Host(host, 8, 8192)
			b.Exec("UPDATE hosts SET tpm_storage = 'other-' || name WHERE id = $1", ids[host])
		}
		for _, host := range append(c.shares, "h1") {
			b.Exec("UPDATE hosts SET tpm_storage = 'one' WHERE id = $1", ids[host])
		}
		b.Exec("UPDATE hosts SET forgotten_at = now() WHERE name = 'h2'")
		b.Exec("UPDATE hosts SET last_seen = now() - interval '1 day' WHERE name = 'h1'")
		owner := b.idle()
		b.Exec("UPDATE servers SET host_id = $2 WHERE id = $1", owner.ID, ids[c.owns])
		kept := thing(owner, compute.ThingTPMState, ids["h1"].String(), owner.ID.String()+".0123abcd")
		kept.Reference = compute.KeptUndecided
		b.waits(compute.BlockedByHost, kept, thing(owner, compute.ThingDiskFile, ids["h1"].String(), "disk"))
		gone := []string{"disk"}
		if c.to == "" {
			gone = append(gone, kept.Name)
		}
		would, err := ledger.Forgettable(b.Ctx, b.DB, ids["h1"])
		require.NoError(t, err, name)
		require.ElementsMatch(t, gone, names(would), name)
		got, err := ledger.Forget(b.Ctx, b.DB, ids["h1"])
		require.NoError(t, err, name)
		require.ElementsMatch(t, gone, names(got), name)
		if c.to == "" {
			continue
		}
		require.Equal(t, 1, b.CountRows("SELECT count(*) FROM ledger WHERE kind = 'tpm_state' AND state = 'waiting' AND reference = 'undecided' AND host_id = $1", ids[c.to]), name)
		require.Equal(t, []string{kept.Name}, b.due(), name)
	}
}

// The keys of the volume with a host's own state go with the host: nobody reads it into whose hands the disk falls. An operation
// that is at work on it writes down no more keys, and they go when it has ended. So it is with a host that died before it ever
// reported itself.
func TestForgetGivesUpTheVolume(t *testing.T) {
	t.Parallel()
	for name, reported := range map[string]bool{"a host": true, "a host that never reported itself": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			host := durable.Host{ID: compute.HostID{UUID: uuid.New()}, Name: "h1"}
			if reported {
				host.ID = b.Host(host.Name, 8, 8192)
				b.Exec("UPDATE hosts SET last_seen = now() - interval '1 day'")
			}
			records := &record.Activities{Pool: b.DB}
			opens, _, err := record.AskVolume(b.Ctx, b.DB, host, compute.OpSecureVolumeOpen, "/dev/v")
			require.NoError(t, err)
			in := durable.OperationInput{Operation: opens.ID, Subject: opens.Subject}
			_, err = records.BeginVolume(b.Ctx, in)
			require.NoError(t, err)
			key := thing(opens.Subject, compute.ThingKeySecret, compute.PlaceKeyManager, "key")
			mapping := thing(opens.Subject, compute.ThingVolumeMapping, host.ID.String(), opens.Subject.ID.String())
			b.present(key, mapping)
			id := compute.SecretID{UUID: uuid.New()}
			keys := record.SetVolumeInput{OperationInput: in, Keys: &record.VolumeKeys{Secret: &id}}
			require.NoError(t, records.SetVolume(b.Ctx, keys))
			if reported {
				audit, err := b.StartAudit(b.Ctx, ledger.StartAuditInput{})
				require.NoError(t, err)
				require.False(t, audit.Hosts[0].NoVolume, "it is asked for it")
			}

			found, err := ledger.FindForgettable(b.Ctx, b.DB, "h1")
			require.NoError(t, err)
			require.Equal(t, host, found)
			for range 2 {
				if _, err = ledger.Forget(b.Ctx, b.DB, host.ID); !reported && err != nil {
					require.Equal(t, compute.NotFound, compute.KindOf(err), "%v", err)
					continue
				}
				require.NoError(t, err)
			}
			_, err = record.LookAtVolume(b.Ctx, b.DB, "h1")
			require.Equal(t, compute.NotFound, compute.KindOf(err), "%v", err)
			require.Equal(t, 1, b.CountRows("SELECT count(*) FROM ledger WHERE name = 'key' AND state = 'waiting' AND reason = 'its host was forgotten'"))
			require.Equal(t, 1, b.CountRows("SELECT count(*) FROM ledger WHERE kind = 'volume_mapping' AND state = 'released'"))
			require.True(t, record.IsSuperseded(records.SetVolume(b.Ctx, keys)))
			require.NoError(t, records.SetVolume(b.Ctx, record.SetVolumeInput{OperationInput: in, Unopened: true}), "there is nothing to write")
			require.Empty(t, b.due(), "the operation may still use it")
			require.NoError(t, records.Settle(b.Ctx, record.SettleInput{OperationInput: in, State: compute.OperationCancelled}))
			require.Equal(t, []string{"key"}, b.due())
		})
	}
}

func TestForgetAHostThatIsNone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := ledger.Forget(b.Ctx, b.DB, compute.HostID{UUID: uuid.New()})
	require.True(t, compute.Is(err, compute.NotFound), "%v", err)
	for _, find := range []func(context.Context, *pgxpool.Pool, string) (durable.Host, error){ledger.FindHost, ledger.FindForgettable} {
		_, err = find(b.Ctx, b.DB, "h1")
		require.True(t, compute.Is(err, compute.NotFound), "%v", err)
	}
}

// A host is found by its name and by its uuid, and by its name first.
func TestFindHost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h1 := b.Host("h1", 8, 8192)
	oddly := b.Host(h1.String(), 8, 8192)
	for name, want := range map[string]compute.HostID{"h1": h1, oddly.String(): oddly, h1.String(): oddly} {
		got, err := ledger.FindHost(b.Ctx, b.DB, name)
		require.NoError(t, err)
		require.Equal(t, want, got.ID, name)
	}
}

// A project that is forgotten takes its quotas along, and nobody else's.
func TestAForgottenProjectHasNoQuotas(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Exec("INSERT INTO project_quotas (project_id, resource, most) VALUES ('gone', 'cores', 1), ('there', 'cores', 1)")
	_, err := ledger.ForgettableOf(b.Ctx, b.DB, "gone")
	require.NoError(t, err)
	require.Equal(t, 2, b.CountRows("SELECT count(*) FROM project_quotas"), "to ask changes nothing")
	_, err = ledger.ForgetProject(b.Ctx, b.DB, "gone")
	require.NoError(t, err)
	require.Zero(t, b.CountRows("SELECT count(*) FROM project_quotas WHERE project_id = 'gone'"))
	require.Equal(t, 1, b.CountRows("SELECT count(*) FROM project_quotas"))
}

// A host that is forgotten is in no aggregate any more, also when it is back.
func TestAForgottenHostLeavesItsAggregates(t *testing.T) {
	t.Parallel()
	b := setup(t)
	host := b.Host("h1", 8, 8192)
	b.Exec("INSERT INTO aggregates (uuid, name, metadata) VALUES (gen_random_uuid(), 'a', '{\"availability_zone\": \"east\"}'), (gen_random_uuid(), 'b', '{}')")
	b.Exec("INSERT INTO aggregate_hosts (aggregate_number, host_id) SELECT number, $1 FROM aggregates", host)
	b.Exec("INSERT INTO aggregate_hosts (aggregate_number, host_id) SELECT number, $1 FROM aggregates", b.Host("h2", 8, 8192))
	b.Exec("UPDATE hosts SET last_seen = now() - interval '1 day' WHERE id = $1", host)
	_, err := ledger.Forgettable(b.Ctx, b.DB, host)
	require.NoError(t, err)
	require.Equal(t, 4, b.CountRows("SELECT count(*) FROM aggregate_hosts"), "to ask changes nothing")
	_, err = ledger.Forget(b.Ctx, b.DB, host)
	require.NoError(t, err)
	require.Equal(t, 2, b.CountRows("SELECT count(*) FROM aggregate_hosts"))
	require.Zero(t, b.CountRows("SELECT count(*) FROM aggregate_hosts WHERE host_id = $1", host))
	b.Report(host, "h1", 8, 8192)
	require.Equal(t, 1, b.CountRows("SELECT count(*) FROM host_zones WHERE host_id = $1 AND zone = 'az-h1'", host))
}
