package workflows

import (
	"slices"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/ledger"
	opact "strongroom/activities/operation"
	"strongroom/compute"
)

const (
	// reapRound is how often the reaper looks after operations, records what was removed
	// and asks what else is due, while removals are under way.
	reapRound = 10 * time.Second
	// stopWithin is how long the removal of a thing that is named by its server alone may lie
	// in its queue.
	stopWithin = 2 * time.Second
	// mostUnderWay keeps the pending activities of one run below what Temporal allows.
	mostUnderWay = 1000
)

// reaper removes what waits on the ledger and is due, all of it side by side. A removal may
// take as long as its activity: it holds up neither the others, nor what becomes due
// meanwhile, nor the operations that are to be started.
type reaper struct {
	began    time.Time
	underWay []uuid.UUID     // things that were taken up and are not recorded yet: they still show as due
	ended    []compute.Thing // those of them whose removal has ended, as they are to be recorded
}

func (r *reaper) run(ctx workflow.Context) error {
	for {
		offers, err := r.startDue(ctx)
		if err != nil {
			return err
		}
		over, err := workflow.AwaitWithTimeout(ctx, reapRound, func() bool { return len(r.underWay) == len(r.ended) })
		if err != nil {
			return err
		}
		if err := r.record(ctx, offers); err != nil || over {
			return err
		}
		if err := opact.Sweep.BestEffort().Do(ctx, opact.SweepInput{}); err != nil {
			workflow.GetLogger(ctx).Warn("operations could not be looked at", "error", err)
		}
	}
}

// startDue starts to remove what is due and gives the credentials that passing requests
// offered. A thing that waits for a credential is tried with those, with its owner's trust,
// and with strongroom's own role in the project; a thing that waits for its host, once the
// host is up. A run that is long enough takes up nothing more, so that it ends.
func (r *reaper) startDue(ctx workflow.Context) ([]compute.Credential, error) {
	info := workflow.GetInfo(ctx)
	if len(r.underWay) >= mostUnderWay || info.GetContinueAsNewSuggested() || workflow.Now(ctx).Sub(r.began) > janitorWatch {
		return nil, nil
	}
	due, err := ledger.Due.Run(ctx, ledger.DueInput{UnderWay: r.underWay})
	for _, t := range due.Things {
		r.start(ctx, t, due.Offers)
	}
	return due.Offers, err
}

func (r *reaper) start(ctx workflow.Context, t compute.Thing, offers []compute.Credential) {
	call := startReaping(ctx, t, offers)
	r.underWay = append(r.underWay, t.ID)
	workflow.Go(ctx, func(ctx workflow.Context) {
		end, _ := call.await(ctx)
		r.ended = append(r.ended, end)
	})
}

// startReaping starts one attempt, or a few at a cloud service: the ledger says when the next one is due. It may take as long as the activity.
func startReaping(ctx workflow.Context, t compute.Thing, offers []compute.Credential) removalCall {
	remove, err := removerOf(t)
	if err != nil {
		return removalCall{thing: t, err: err}
	}
	if t.OnHost() {
		remove = remove.Once()
	} else {
		remove = remove.ForAWhile()
	}
	if compute.NamedByServer(t.Kind) {
		// Another operation may make it again at any time: what is not taken at once is asked
		// for again, by what the ledger says then.
		remove = remove.TakenWithin(stopWithin)
	}
	return removalCall{thing: t, call: remove.Start(ctx, removalOf(t, offers))}
}

// record records what has ended.
func (r *reaper) record(ctx workflow.Context, offers []compute.Credential) error {
	end := ledger.ReapedInput{Offers: offers}
	for _, t := range r.ended {
		r.underWay = slices.DeleteFunc(r.underWay, func(id uuid.UUID) bool { return id == t.ID })
		if t.State == compute.ThingWaiting {
			end.Waiting = append(end.Waiting, t)
		} else {
			end.Released = append(end.Released, t)
		}
	}
	if r.ended = nil; len(end.Waiting)+len(end.Released)+len(offers) == 0 {
		return nil
	}
	for _, part := range reapedParts(end) {
		if err := ledger.Reaped.Do(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// reapedAtOnce bounds what one call records, so that its input stays far below the limit of
// a payload.
const reapedAtOnce = 200

// reapedParts divides what is to be recorded; the offers come last, since one is kept while
// something is due that it may be good for.
func reapedParts(all ledger.ReapedInput) []ledger.ReapedInput {
	if len(all.Released)+len(all.Waiting) <= reapedAtOnce {
		return []ledger.ReapedInput{all}
	}
	var parts []ledger.ReapedInput
	for things := range slices.Chunk(all.Released, reapedAtOnce) {
		parts = append(parts, ledger.ReapedInput{Released: things})
	}
	for things := range slices.Chunk(all.Waiting, reapedAtOnce) {
		parts = append(parts, ledger.ReapedInput{Waiting: things})
	}
	return append(parts, ledger.ReapedInput{Offers: all.Offers})
}
