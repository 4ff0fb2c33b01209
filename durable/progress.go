package durable

import (
	"context"
	"errors"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/converter"

	"strongroom/compute"
)

// longestPhase bounds what a host may say of itself to users.
const longestPhase = 32

// Progress is how far the long work of op is, as the activities that are at work for it told
// with their last heartbeats: those of one phase together. found is false where none told.
// It is for people to look at: a heartbeat's MAC is not looked at here.
func (s Starter) Progress(ctx context.Context, op compute.Operation) (p compute.Progress, found bool, err error) {
	d, err := s.Client.DescribeWorkflowExecution(ctx, WorkflowID(op.On(), op.Kind), "")
	var missing *serviceerror.NotFound
	if errors.As(err, &missing) {
		return p, false, nil
	}
	if err != nil {
		return p, false, compute.Errorf(compute.Unavailable, "describing %s: %w", op.ID, err)
	}
	if owner(d.GetWorkflowExecutionInfo()) != op.ID {
		return p, false, nil
	}
	for _, pending := range d.GetPendingActivities() {
		details := pending.GetHeartbeatDetails().GetPayloads()
		var at compute.Progress
		if len(details) == 0 || converter.GetDefaultDataConverter().FromPayload(details[0], &at) != nil || at.Phase == "" || len(at.Phase) > longestPhase || at.Done < 0 || at.Total < 0 {
			continue
		}
		switch {
		case at.Phase == p.Phase:
			p.Done, p.Total = p.Done+at.Done, p.Total+at.Total
		case !found || at.Total > p.Total:
			p = at
		}
		found = true
	}
	return p, found, nil
}
