package worker

import (
	"context"

	"strongroom/compute"
	"strongroom/schema"
)

// syncPower writes down what became of servers behind strongroom's back: a
// guest that shut itself down, or a host that lost its guests, shows as
// SHUTOFF. It only follows the world, it never starts or stops anything, and a
// server with an operation at work is left alone.
func (h Host) syncPower(ctx context.Context) error {
	q := schema.New(h.Pool)
	rows, err := q.ServersAtRest(ctx, &h.ID)
	if err != nil || len(rows) == 0 {
		return err
	}
	// The hypervisor is asked after the record: a server that an operation took
	// or gave back in between has another updated_at and is left alone.
	running, err := h.Running(ctx)
	if err != nil {
		return err
	}
	for _, row := range rows {
		vm, power := compute.VMStopped, compute.PowerShutdown
		if running[row.ID] {
			vm, power = compute.VMActive, compute.PowerRunning
		}
		if row.VMState == compute.VMRescued {
			vm = row.VMState // on or off, it is what its rescue disk makes it
		}
		if vm == row.VMState && (vm != compute.VMRescued || power == row.PowerState) {
			continue
		}
		changed, err := q.SyncPower(ctx, schema.SyncPowerParams{ID: row.ID, VMState: vm, PowerState: power, Was: row.VMState, Seen: row.UpdatedAt})
		if err != nil {
			return err
		}
		if changed > 0 {
			h.Logger.InfoContext(ctx, "the server changed its power state by itself", "server", row.ID, "vm_state", vm)
		}
	}
	return nil
}
