package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	opact "strongroom/activities/operation"
)

// JanitorName is the registered name of Janitor, and its workflow id.
const JanitorName = "janitor"

// janitorWatch is how long the janitor watches before it starts a new run.
const janitorWatch = time.Hour

// janitorPause is how long the janitor waits after something went wrong.
const janitorPause = 10 * time.Second

// Janitor repairs what no running operation can: it starts operations that were accepted
// and never started, settles those whose execution is gone, and removes things that wait
// on the ledger. One activity (operation.Watch) runs until something can be removed, so
// that the history grows only then (A9).
func Janitor(ctx workflow.Context) error {
	got, err := opact.Watch.Run(ctx, opact.WatchInput{Limit: janitorWatch})
	if err == nil && got.Due {
		err = (&reaper{began: workflow.Now(ctx)}).run(ctx)
	}
	if err != nil {
		workflow.GetLogger(ctx).Error("the janitor will try again", "error", err)
		if err := workflow.Sleep(ctx, janitorPause); err != nil {
			return err
		}
	}
	return workflow.NewContinueAsNewError(ctx, JanitorName)
}
