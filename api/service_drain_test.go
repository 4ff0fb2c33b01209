package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/drain"
	"strongroom/compute"
	"strongroom/durable"
)

// os-services tells that a host is drained, in Nova's words, and with strongroom 1.0 how far that is.
func TestServicesTellDrains(t *testing.T) {
	t.Parallel()
	b := setup(t)
	host := newHost(t, b, "host-a", "nova")
	server := newServer(t, b, host, "one")
	newHost(t, b, "host-b", "nova")
	op, begun, err := drain.Ask(t.Context(), b.pool, durable.Host{ID: host, Name: "host-a"}, compute.DrainArguments{Concurrency: 1})
	require.NoError(t, err)
	require.True(t, begun)
	_, err = b.pool.Exec(t.Context(), "INSERT INTO drained_servers (operation_id, server_id, state) VALUES ($1, $2, 'left')", op.ID, server)
	require.NoError(t, err)

	_, err = b.pool.Exec(t.Context(), `INSERT INTO ledger (id, kind, place, name, owner_kind, owner_id, operation_id, credential_id, project_id, user_id, state, blocked_by, try_at)
		VALUES (gen_random_uuid(), 'disk_file', $1, 'x/disk', 'server', $2, 'req-before', gen_random_uuid(), 'p', 'u', 'waiting', 'host', now())`, host.String(), server)
	require.NoError(t, err)
	_, err = b.pool.Exec(t.Context(), "UPDATE hosts SET fence_after = 180 WHERE id = $1", host)
	require.NoError(t, err)
	plain := b.do(t, admin, "GET", "/os-services", "", at("2.97"))
	require.NotContains(t, plain.keys("services", 0), "drain")
	require.NotContains(t, plain.keys("services", 0), "fence_after")
	require.Equal(t, "disabled", plain.get("services", 0, "status"))
	require.Equal(t, "draining ("+string(op.ID)+")", plain.get("services", 0, "disabled_reason"))
	more := b.do(t, admin, "GET", "/os-services", "", at("2.97, strongroom 1.0"))
	require.Equal(t, map[string]any{
		"operation_id": string(op.ID), "state": "accepted", "moving": 0.0, "moved": 0.0, "left": 1.0, "failed": 0.0, "to_remove": 1.0,
	}, more.get("services", 0, "drain"))
	require.Nil(t, more.get("services", 1, "drain"))
	require.InDelta(t, 180, more.get("services", 0, "fence_after"), 0)
	require.InDelta(t, 0, more.get("services", 1, "fence_after"), 0)
	b.do(t, member, "GET", "/os-services", "", at("2.97, strongroom 1.0")).fails(403, "forbidden", "Policy doesn't allow os_compute_api:os-services:list to be performed.")
}

// A host that is being drained is not enabled by os-services, whatever the version; it is once that drain
// has ended. Its other switches work.
func TestADrainedHostIsNotEnabled(t *testing.T) {
	t.Parallel()
	b := setup(t)
	host := newHost(t, b, "host-a", "nova")
	op, _, err := drain.Ask(t.Context(), b.pool, durable.Host{ID: host, Name: "host-a"}, compute.DrainArguments{Concurrency: 1})
	require.NoError(t, err)
	service := "/os-services/" + host.String()
	old := `{"host": "host-a", "binary": "nova-compute"}`
	why := "host host-a is being drained (" + string(op.ID) + "): cancel that first, with strongroom host drain host-a --cancel"
	b.do(t, admin, "PUT", service, `{"status": "enabled"}`, at("2.53")).fails(409, "conflictingRequest", why)
	b.do(t, admin, "PUT", service, `{"status": "enabled", "forced_down": true}`, at("2.97")).fails(409, "conflictingRequest", why)
	b.do(t, admin, "PUT", "/os-services/enable", old, at("2.1")).fails(409, "conflictingRequest", why)
	require.Equal(t, false, b.do(t, admin, "GET", "/os-services", "", at("2.97")).get("services", 0, "forced_down"))
	require.Equal(t, 200, b.do(t, admin, "PUT", service, `{"forced_down": true}`, at("2.97")).code)
	require.Equal(t, 200, b.do(t, admin, "PUT", service, `{"status": "disabled", "disabled_reason": "mine"}`, at("2.97")).code)
	_, err = b.pool.Exec(t.Context(), "UPDATE operations SET state = 'cancelled' WHERE id = $1", op.ID)
	require.NoError(t, err)
	require.Equal(t, 200, b.do(t, admin, "PUT", service, `{"status": "enabled"}`, at("2.97")).code)
	require.Equal(t, "enabled", b.do(t, admin, "GET", "/os-services", "", at("2.97")).get("services", 0, "status"))
}
