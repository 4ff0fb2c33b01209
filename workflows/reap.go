package workflows

import (
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/record"
	"strongroom/durable"
)

// ReapName is the registered name of Reap.
const ReapName = "reap"

// ReapResult counts what became of what waited.
type ReapResult struct {
	Removed int `json:"removed"`
	Waiting int `json:"waiting"`
}

// Reap tries again to remove what waits. That is what waits for a credential: with
// what passing requests of its project offered, with its owner's trust, and with the
// role that the operator gave strongroom there; and what a host has that an operation
// gave up, until the host is back. A schedule runs it.
func Reap(ctx workflow.Context) (ReapResult, error) {
	var waiting record.WaitingResult
	if err := recorded(ctx, record.Waiting, record.WaitingInput{}, &waiting); err != nil {
		return ReapResult{}, err
	}
	if len(waiting.Things)+len(waiting.Offers) == 0 {
		return ReapResult{}, nil
	}
	end := record.ReapedInput{Offers: waiting.Offers}
	cloud := durable.Peek(ctx, durable.CloudQueue)
	calls := make([]workflow.Future, len(waiting.Things))
	for i, t := range waiting.Things {
		if host, ok := t.Host(); ok {
			calls[i] = removeFromHost(durable.Peek(ctx, durable.HostQueue(host)), t)
			continue
		}
		calls[i] = remove(cloud, t, t.Removers(waiting.Offers...))
	}
	for i, c := range calls {
		switch t, err := settleRemoval(ctx, waiting.Things[i], c); {
		case err != nil && !isOfCloud(t): // its host is still away
			t.Refused = durable.FromTemporal(err).Message
			end.Waiting = append(end.Waiting, t)
		case err != nil: // it cannot be told now
		case t.Refused != "":
			end.Waiting = append(end.Waiting, t)
		default:
			end.Released = append(end.Released, t)
		}
	}
	if err := recorded(ctx, record.Reaped, end, nil); err != nil {
		return ReapResult{}, err
	}
	return ReapResult{Removed: len(end.Released), Waiting: len(waiting.Things) - len(end.Released)}, nil
}
