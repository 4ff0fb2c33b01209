package worker

import (
	"context"

	"strongroom/compute"
	"strongroom/schema"
)

// SyncPower records the power state of servers that changed without an operation: a guest
// that shut itself down, or that went with its host, shows as SHUTOFF, and one that QEMU or
// somebody at the host paused as PAUSED, until it is resumed there. It never starts or
// stops anything, and leaves out servers with a running operation.
func (h Host) SyncPower(ctx context.Context) error {
	q := schema.New(h.Pool)
	rows, err := q.ServersAtRest(ctx, &h.ID)
	if err != nil || len(rows) == 0 {
		return err
	}
	// The hypervisor is asked after the record: a server that an operation took
	// or gave back in between has another updated_at and is left alone.
	found, err := h.PowerStates(ctx)
	if err != nil {
		return err
	}
	for _, row := range rows {
		vm, power := compute.Found(row.VMState, found[row.ID])
		if vm == row.VMState && power == row.PowerState {
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
