package workflows

import (
	"cmp"

	"go.temporal.io/sdk/workflow"

	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// imageRecord answers the update durable.ImageRecord: whether the record of the image is
// there, or why there will be none.
type imageRecord struct {
	known  bool
	answer durable.ImageRecordResult
}

// makeImage runs an operation that makes an image of a server, and answers whoever waits
// for the image's record. That it failed is told when it is settled: the server is free
// again by then.
func makeImage(ctx workflow.Context, in durable.OperationInput, action compute.Action[compute.SnapshotArguments]) error {
	made := &imageRecord{}
	// Before anything blocks: an update that comes with the first workflow task, and finds
	// no handler when that ends, is rejected.
	if err := made.serve(ctx, in.Operation); err != nil {
		return err
	}
	err := onMachineWith(ctx, in, action, func(m *machine, in compute.SnapshotArguments) body {
		return &snapshot{machine: m, in: in, record: made}
	})
	if err == nil && !made.known {
		err = record.Superseded() // it lost its server before it began: who asks later learns it from the execution's end
	}
	if err != nil {
		made.tell(durable.NoImageRecord(err))
	}
	// What has not been answered when the execution closes never is.
	closing, _ := workflow.NewDisconnectedContext(ctx)
	return cmp.Or(durable.WorkflowError(err), workflow.Await(closing, func() bool { return workflow.AllHandlersFinished(closing) }))
}

// tell answers everybody who asks from now on; the first word counts.
func (r *imageRecord) tell(answer durable.ImageRecordResult) {
	if !r.known {
		r.known, r.answer = true, answer
	}
}

func (r *imageRecord) serve(ctx workflow.Context, own compute.OperationID) error {
	return workflow.SetUpdateHandlerWithOptions(ctx, durable.ImageRecord,
		func(ctx workflow.Context, _ compute.OperationID) (durable.ImageRecordResult, error) {
			ctx, _ = workflow.NewDisconnectedContext(ctx) // a cancel, too, is answered when it is done
			err := workflow.Await(ctx, func() bool { return r.known })
			return r.answer, err
		},
		workflow.UpdateHandlerOptions{Validator: func(asked compute.OperationID) error {
			if asked != own {
				return compute.Errorf(compute.Conflict, "this is operation %s", own)
			}
			return nil
		}})
}
