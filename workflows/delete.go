package workflows

import (
	"go.temporal.io/sdk/workflow"

	opact "strongroom/activities/operation"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// Delete removes a server and everything that it has in the world. It always
// wins: a running operation is cancelled and undone first. It is told by the
// ledger, so it clears what any operation left, and it does not end before all
// of it was seen to be gone, or waits where Reap finds it. Keys go last, after the disks
// (EE-27, TPM-31).
func Delete(ctx workflow.Context, in durable.OperationInput) error {
	o, err := begin(ctx, in)
	if o == nil {
		return err
	}
	// Nothing cancels a delete: half a server helps nobody.
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	var end error
	_ = durable.Persist(ctx, func(ctx workflow.Context) error {
		end = (&deletion{o}).run(ctx)
		switch {
		case end == nil:
		case record.IsSuperseded(end):
			// Another delete has the server; what is gone already stays gone.
			end = o.fail(ctx, end, record.SettleInput{})
		case workflow.GetInfo(ctx).GetContinueAsNewSuggested():
			// The ledger tells all, so a history that grew long is no loss.
			end = workflow.NewContinueAsNewError(ctx, durable.WorkflowType(compute.OpDelete), in)
		default:
			return end
		}
		return nil
	})
	return end
}

type deletion struct{ *operation }

// run tears down what it can, in order. It fails when something is left, and
// may run again.
func (d *deletion) run(ctx workflow.Context) error {
	if err := d.cancelRunning(ctx); err != nil {
		return err
	}
	var things []compute.Thing
	if err := recorded(ctx, record.Things, d.Server, &things); err != nil {
		return err
	}
	for _, kind := range compute.TeardownOrder {
		if err := d.tearDown(ctx, kind, things, false); err != nil {
			return err
		}
	}
	return recorded(ctx, record.Bury, d.OperationInput, nil)
}

func (d *deletion) cancelRunning(ctx workflow.Context) error {
	control := durable.ControlUndo(ctx)
	return workflow.ExecuteActivity(control, opact.CancelRunning, d.Server).Get(ctx, nil)
}
