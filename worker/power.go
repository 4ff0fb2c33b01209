package worker

import (
	"context"

	"strongroom/compute"
	"strongroom/worker/gateway"
)

// SyncPower says that the host runs, and records the power state of servers that changed
// without an operation: a guest that shut itself down, or that went with its host, shows
// as SHUTOFF, and one that QEMU or somebody at the host paused as PAUSED, until it is
// resumed there. It never starts or stops anything, and leaves out servers with a running
// operation. The first of a worker says so even if nothing changed: what goes off from then
// on did not go with an earlier boot of the host.
func (h Host) SyncPower(ctx context.Context, first bool) error {
	rows, err := h.Gateway.Seen(ctx)
	if err != nil || len(rows) == 0 && !first {
		return err
	}
	// The hypervisor is asked after the record: a server that an operation took
	// or gave back in between has another updated_at and is left alone.
	states, err := h.PowerStates(ctx)
	if err != nil {
		return err
	}
	var changed []gateway.FoundPower
	for _, row := range rows {
		vm, power := compute.Found(row.VMState, states[row.Server])
		if vm != row.VMState || power != row.PowerState {
			changed = append(changed, gateway.FoundPower{AtRest: row, Found: states[row.Server]})
		}
	}
	if len(changed) == 0 && !first {
		return nil
	}
	return h.Gateway.SyncPower(ctx, changed)
}
