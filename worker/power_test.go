package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/schema"
	"strongroom/schema/schematest"
	"strongroom/worker"
	"strongroom/worker/gateway"
)

// What the hypervisor shows of servers at rest is written down, and of no others. A guest that runs again may change what its vTPM had at its last backup.
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
		{compute.VMSuspended, compute.PowerShutdown, "", compute.PowerNone, compute.VMSuspended, compute.PowerShutdown},
		{compute.VMSuspended, compute.PowerShutdown, "", compute.PowerRunning, compute.VMActive, compute.PowerRunning},
		{compute.VMRescued, compute.PowerRunning, "", compute.PowerPaused, compute.VMRescued, compute.PowerPaused},
		{compute.VMRescued, compute.PowerRunning, "", compute.PowerNone, compute.VMRescued, compute.PowerShutdown},
		{compute.VMError, compute.PowerPaused, "", compute.PowerRunning, compute.VMError, compute.PowerPaused},
	} {
		b.Exec("UPDATE servers SET host_id = $2, vm_state = $3, power_state = $4, current_operation = $5, tpm_backup = '{\"final\": true}' WHERE id = $1",
			server, h.ID, c.vm, c.power, c.at)
		found[server] = c.found
		require.NoError(t, h.SyncPower(t.Context(), false))
		row, err := schema.LoadServer(b.Ctx, b.Q, server)
		require.NoError(t, err)
		require.Equal(t, c.becomes, row.VMState, "%+v", c)
		require.Equal(t, c.shows, row.PowerState, "%+v", c)
		isChanged := c.becomes != c.vm || c.shows != c.power
		require.Equal(t, !isChanged || c.becomes == compute.VMStopped, row.TPMBackup.Final, "%+v", c)
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
	require.NoError(t, h.SyncPower(t.Context(), false))
	row, err := schema.LoadServer(b.Ctx, b.Q, server)
	require.NoError(t, err)
	require.Equal(t, compute.VMActive, row.VMState)
}

// TPM-15: guests that ran when their host went down are to be started again when it is back
// from a boot, and only then: not after one that switched itself off, nor where the operator
// does not want it.
func TestGuestsThatWentWithTheirHost(t *testing.T) {
	t.Parallel()
	b := schematest.NewFixture(t)
	h := worker.Host{ID: b.Host("a", 8, 8192)}
	h.Gateway = gateway.Records{Pool: b.DB, Host: h.ID, Logger: slog.New(slog.DiscardHandler)}
	found := map[compute.ServerID]compute.PowerState{}
	h.PowerStates = func(context.Context) (map[compute.ServerID]compute.PowerState, error) { return found, nil }
	server := b.Server(compute.OpCreate).ServerID
	boot := func(id string, resume bool) {
		b.Exec("UPDATE hosts SET boot_id = $2, resume_guests = $3 WHERE id = $1", h.ID, id, resume)
	}
	ran := func(was compute.VMState) {
		b.Exec("UPDATE servers SET host_id = $2, vm_state = $3, power_state = 1, current_operation = '', resume_at = NULL, started_by_operation = true WHERE id = $1", server, h.ID, was)
	}
	for i, c := range []struct {
		boot    string
		resume  bool
		was     compute.VMState
		resumed bool
	}{
		{"", true, compute.VMActive, false},    // a worker of an older version
		{"one", true, compute.VMActive, false}, // the first that is heard of boots
		{"one", true, compute.VMActive, false}, // the guest alone went off
		{"two", true, compute.VMActive, true},  // the host was down
		{"two", true, compute.VMActive, false}, // the guest alone, again
		{"three", false, compute.VMActive, false},
		{"four", true, compute.VMPaused, false},
		{"five", true, compute.VMRescued, false},
		{"six", true, compute.VMActive, true},
	} {
		boot(c.boot, c.resume)
		ran(c.was)
		require.NoError(t, h.SyncPower(t.Context(), true))
		n := b.CountRows("SELECT count(*) FROM servers WHERE resume_at IS NOT NULL")
		require.Equal(t, c.resumed, n == 1, "%d: %+v", i, c)
	}

	// A boot is noted also where it changed nothing: what goes off later did not go with it.
	boot("seven", true)
	ran(compute.VMActive)
	found[server] = compute.PowerRunning
	require.NoError(t, h.SyncPower(t.Context(), true))
	delete(found, server)
	require.NoError(t, h.SyncPower(t.Context(), false))
	require.Zero(t, b.CountRows("SELECT count(*) FROM servers WHERE resume_at IS NOT NULL"))
}

// H1: a host that an attacker has starts none of its servers that are off, whatever it reports: it would
// get their keys. One that an operation set running, and that went off with it, is started again.
func TestH1AHostsReportsStartNothing(t *testing.T) {
	t.Parallel()
	b := schematest.NewFixture(t)
	h := worker.Host{ID: b.Host("a", 8, 8192)}
	h.Gateway = gateway.Records{Pool: b.DB, Host: h.ID, Logger: slog.New(slog.DiscardHandler)}
	found := map[compute.ServerID]compute.PowerState{}
	h.PowerStates = func(context.Context) (map[compute.ServerID]compute.PowerState, error) { return found, nil }
	server := b.Server(compute.OpCreate).ServerID
	b.Exec("UPDATE servers SET host_id = $2, current_operation = '' WHERE id = $1", server, h.ID)
	settle := func(is compute.VMState) {
		t.Helper()
		b.Exec("UPDATE servers SET current_operation = 'req-1' WHERE id = $1", server)
		rows, err := b.Q.SettleServer(b.Ctx, schema.SettleServerParams{ID: server, OperationID: "req-1", VMState: is})
		require.NoError(t, err)
		require.EqualValues(t, 1, rows)
	}
	boots := 0
	restart := func() {
		boots++
		b.Exec("UPDATE hosts SET boot_id = $2, resume_guests = true WHERE id = $1", h.ID, fmt.Sprint("boot-", boots))
	}
	reports := func(power compute.PowerState) {
		t.Helper()
		found[server] = power
		require.NoError(t, h.SyncPower(t.Context(), false))
	}
	starts := func() int { return b.CountRows("SELECT count(*) FROM servers WHERE resume_at IS NOT NULL") }
	restart()
	settle(compute.VMStopped)
	reports(compute.PowerNone)
	for range 2 {
		reports(compute.PowerRunning) // which it does not
		restart()
		reports(compute.PowerNone)
		require.Zero(t, starts())
	}
	reports(compute.PowerRunning)
	settle(compute.VMActive) // of an operation that started nothing, as a createImage
	restart()
	reports(compute.PowerNone)
	require.Zero(t, starts())

	settle(compute.VMActive) // of a start
	reports(compute.PowerRunning)
	restart()
	reports(compute.PowerNone)
	require.Equal(t, 1, starts())

	settle(compute.VMActive)
	reports(compute.PowerNone) // its guest switched itself off
	reports(compute.PowerRunning)
	restart()
	reports(compute.PowerNone)
	require.Zero(t, starts())
}
