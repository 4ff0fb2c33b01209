package workflows

import (
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/ledger"
	opact "strongroom/activities/operation"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// Delete removes a server and everything that it has in the world. It always
// wins: a running operation is cancelled and undone first. It works through the
// ledger, so it removes what any operation left, and it ends when all of that is gone or
// waits on the ledger for the janitor: a host that does not answer does not delay it. Keys go last, after the disks (EE-27, TPM-31, TPM-33).
func Delete(ctx workflow.Context, in durable.OperationInput) error {
	o, err := begin(ctx, in)
	if o == nil {
		return err
	}
	// Nothing cancels a delete: half a server helps nobody.
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	ctx = durable.WithUndo(ctx)
	var end error
	_ = durable.RetryForever(ctx, func(ctx workflow.Context) error {
		end = (&deletion{o}).run(ctx)
		switch {
		case end == nil:
		case record.IsSuperseded(end):
			// Another delete has the server; what is gone already stays gone.
			end = o.fail(ctx, end, record.SettleInput{})
		case workflow.GetInfo(ctx).GetContinueAsNewSuggested():
			// A new run reads from the ledger what is left.
			end = workflow.NewContinueAsNewError(ctx, workflow.GetInfo(ctx).WorkflowType.Name, in)
		default:
			return end
		}
		return nil
	})
	return end
}

type deletion struct{ *operation }

// run removes what it can, in order. It may run again.
func (d *deletion) run(ctx workflow.Context) error {
	if err := opact.CancelRunning.Do(ctx, d.Server); err != nil {
		return err
	}
	has, err := ledger.Things.Run(ctx, compute.ServerOwner(d.Server))
	if err != nil {
		return err
	}
	d.waiting, d.silent, d.lost = nil, nil, nil
	if err := eachPlace(ctx, has, d.tearDown); err != nil {
		return err
	}
	return record.FinishDelete.Do(ctx, record.FinishDeleteInput{OperationInput: d.OperationInput, Close: d.closing()})
}

// tearDown removes the server's things on a host, or in the cloud.
func (d *deletion) tearDown(ctx workflow.Context, host *durable.Host, things []compute.Thing) error {
	s := step{event: "delete_from_cloud", host: host}
	if host != nil {
		s.event = "delete_from_host"
	}
	return d.runAfterCommit(ctx, s, func(ctx workflow.Context, hostDown bool, end *record.Close) error {
		if hostDown && !d.isSilent(host.ID) {
			// The request's credential is good for the keys now, and gone when the janitor comes.
			d.lost = append(d.lost, host.ID)
		}
		d.remove(ctx, removals{things: things, hostDown: hostDown}, end)
		return nil
	})
}
