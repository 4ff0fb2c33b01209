package workflows

import (
	"go.temporal.io/sdk/workflow"

	opact "strongroom/activities/operation"
	"strongroom/durable"
)

// SweepName is the registered name of Sweep.
const SweepName = "sweep"

// Sweep repairs operations that were committed and never started, or whose
// execution is gone. A schedule runs it.
func Sweep(ctx workflow.Context) (opact.SweepResult, error) {
	var out opact.SweepResult
	err := workflow.ExecuteActivity(durable.Control(ctx), opact.Sweep).Get(ctx, &out)
	return out, err
}
