package workflows

import (
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/drain"
	"strongroom/compute"
	"strongroom/durable"
)

// Drain moves all servers away from a host, a few at a time: each by an operation of its own, as
// a request would. It undoes nothing: cancelled, it lets the moves that are under way end, and
// begins no other.
func Drain(ctx workflow.Context, in durable.OperationInput) error {
	// It is cancelled by what the record says, which outlives the request.
	running, _ := workflow.NewDisconnectedContext(ctx)
	begun, err := drain.Begin.Run(running, in)
	if err != nil || begun.Superseded {
		return err
	}
	if err := durable.DescribeHosts(running, begun.Host.Name); err != nil {
		workflow.GetLogger(ctx).Warn("the host is not shown", "error", err)
	}
	if err := watchDrain(ctx, in); err != nil {
		if ctx.Err() == nil {
			return err
		}
		if err := durable.RetryForever(running, func(running workflow.Context) error { return drain.Cancel.Do(running, in) }); err != nil {
			return err
		}
		if err := watchDrain(running, in); err != nil {
			return err
		}
	}
	var end drain.EndResult
	if err := durable.RetryForever(running, func(running workflow.Context) (err error) {
		end, err = drain.End.Run(running, in)
		return err
	}); err != nil {
		return err
	}
	if end.State == compute.OperationSucceeded {
		return nil
	}
	return compute.Errorf(compute.Conflict, "host %s: %s", begun.Host.Name, end.Message)
}

// watchDrain has moves begun and followed until the drain is done or ctx is cancelled.
func watchDrain(ctx workflow.Context, in durable.OperationInput) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		got, err := drain.Watch.Run(ctx, drain.WatchInput{OperationInput: in})
		if err != nil || got.Done {
			return err
		}
	}
}
