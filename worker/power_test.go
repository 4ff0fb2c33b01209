package worker_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/schema"
	"strongroom/schema/schematest"
	"strongroom/worker"
	"strongroom/worker/gateway"
)

// What the hypervisor shows of servers at rest is written down, and of no others.
func TestSyncPower(t *testing.T) {
	t.Parallel()
	b := schematest.NewFixture(t)
	found := map[compute.ServerID]compute.PowerState{}
	h := worker.Host{ID: b.Host("a", 8, 8192)}
	h.Gateway = gateway.Records{Pool: b.DB, Host: h.ID, Logger: slog.New(slog.DiscardHandler)}
	h.PowerStates = func(context.Context) (map[compute.ServerID]compute.PowerState, error) { return found, nil }
	server := b.Server(compute.OpCreate).ServerID
	for _, c := range []struct {
		vm      compute.VMState
		power   compute.PowerState
		at      compute.OperationID // the operation at work
		found   compute.PowerState
		becomes compute.VMState
		shows   compute.PowerState
	}{
		{compute.VMActive, compute.PowerRunning, "", compute.PowerPaused, compute.VMPaused, compute.PowerPaused},
		{compute.VMPaused, compute.PowerPaused, "", compute.PowerPaused, compute.VMPaused, compute.PowerPaused},
		{compute.VMPaused, compute.PowerPaused, "", compute.PowerRunning, compute.VMActive, compute.PowerRunning},
		{compute.VMPaused, compute.PowerPaused, "", compute.PowerNone, compute.VMStopped, compute.PowerShutdown},
		{compute.VMPaused, compute.PowerPaused, "req-unpause", compute.PowerRunning, compute.VMPaused, compute.PowerPaused},
		{compute.VMActive, compute.PowerRunning, "req-pause", compute.PowerPaused, compute.VMActive, compute.PowerRunning},
		{compute.VMActive, compute.PowerRunning, "", compute.PowerNone, compute.VMStopped, compute.PowerShutdown},
		{compute.VMActive, compute.PowerPaused, "", compute.PowerRunning, compute.VMActive, compute.PowerRunning},
		{compute.VMStopped, compute.PowerShutdown, "", compute.PowerRunning, compute.VMActive, compute.PowerRunning},
		{compute.VMStopped, compute.PowerShutdown, "", compute.PowerPaused, compute.VMPaused, compute.PowerPaused},
		{compute.VMRescued, compute.PowerRunning, "", compute.PowerPaused, compute.VMRescued, compute.PowerPaused},
		{compute.VMRescued, compute.PowerRunning, "", compute.PowerNone, compute.VMRescued, compute.PowerShutdown},
		{compute.VMError, compute.PowerPaused, "", compute.PowerRunning, compute.VMError, compute.PowerPaused},
	} {
		b.Exec("UPDATE servers SET host_id = $2, vm_state = $3, power_state = $4, current_operation = $5 WHERE id = $1",
			server, h.ID, c.vm, c.power, c.at)
		found[server] = c.found
		require.NoError(t, h.SyncPower(t.Context()))
		row, err := schema.LoadServer(b.Ctx, b.Q, server)
		require.NoError(t, err)
		require.Equal(t, c.becomes, row.VMState, "%+v", c)
		require.Equal(t, c.shows, row.PowerState, "%+v", c)
	}
}

// A server that an operation took and gave back while the hypervisor was asked shows
// what the operation made of it.
func TestSyncPowerComesTooLate(t *testing.T) {
	t.Parallel()
	b := schematest.NewFixture(t)
	h := worker.Host{ID: b.Host("a", 8, 8192)}
	h.Gateway = gateway.Records{Pool: b.DB, Host: h.ID, Logger: slog.New(slog.DiscardHandler)}
	server := b.Server(compute.OpCreate).ServerID
	b.Exec("UPDATE servers SET host_id = $2, vm_state = 'active', power_state = 1, current_operation = '' WHERE id = $1", server, h.ID)
	h.PowerStates = func(context.Context) (map[compute.ServerID]compute.PowerState, error) {
		b.Exec("UPDATE servers SET updated_at = now() + interval '1 second' WHERE id = $1", server)
		return map[compute.ServerID]compute.PowerState{server: compute.PowerPaused}, nil
	}
	require.NoError(t, h.SyncPower(t.Context()))
	row, err := schema.LoadServer(b.Ctx, b.Q, server)
	require.NoError(t, err)
	require.Equal(t, compute.VMActive, row.VMState)
}
