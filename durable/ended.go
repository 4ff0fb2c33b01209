package durable

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"

	"strongroom/compute"
)

// endedStep is how often an execution is looked for that has not started yet.
const endedStep = 100 * time.Millisecond

// Ended waits until op's workflow has ended. failure says why it failed; nil: it did not. Unavailable: ctx ended
// before that was known, or the execution can be found no more.
func (s Starter) Ended(ctx context.Context, op compute.Operation) (failure *compute.Error, err error) {
	id := WorkflowID(op.On(), op.Kind)
	for {
		info, err := s.describe(ctx, id)
		if err == nil && info != nil && owner(info) == op.ID {
			err = s.Client.GetWorkflow(ctx, id, info.GetExecution().GetRunId()).Get(ctx, nil)
			var failed *temporal.WorkflowExecutionError
			switch {
			case err == nil:
				return nil, nil
			case errors.As(err, &failed) && temporal.IsCanceledError(err):
				return compute.Errorf(compute.Conflict, "the operation was cancelled"), nil
			case errors.As(err, &failed):
				cause := FromTemporal(err)
				return compute.Told(cause.Kind, compute.Public(cause), compute.Public(cause)), nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, compute.Errorf(compute.Unavailable, "waiting for the end of %s: %w", op.ID, errors.Join(err, ctx.Err()))
		case <-time.After(endedStep):
		}
	}
}
