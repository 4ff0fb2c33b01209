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

	plain := b.do(t, admin, "GET", "/os-services", "", at("2.97"))
	require.NotContains(t, plain.keys("services", 0), "drain")
	require.Equal(t, "disabled", plain.get("services", 0, "status"))
	require.Equal(t, "draining ("+string(op.ID)+")", plain.get("services", 0, "disabled_reason"))
	more := b.do(t, admin, "GET", "/os-services", "", at("2.97, strongroom 1.0"))
	require.Equal(t, map[string]any{
		"operation_id": string(op.ID), "state": "accepted", "moving": 0.0, "moved": 0.0, "left": 1.0, "failed": 0.0,
	}, more.get("services", 0, "drain"))
	require.Nil(t, more.get("services", 1, "drain"))
	b.do(t, member, "GET", "/os-services", "", at("2.97, strongroom 1.0")).fails(403, "forbidden", "Policy doesn't allow os_compute_api:os-services:list to be performed.")
}
