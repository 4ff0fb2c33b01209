package record

import (
	"context"

	"strongroom/compute"
	"strongroom/schema"
)

// WaitingResult is what waits for a credential or a host and is to be tried now, and the
// credentials that passing requests offered.
type WaitingResult struct {
	Things []compute.Thing      `json:"things,omitempty"`
	Offers []compute.Credential `json:"offers,omitempty"`
}

// WaitingInput asks for all of them.
type WaitingInput struct{}

// Waiting is the activity record.Waiting.
func (a *Activities) Waiting(ctx context.Context, _ WaitingInput) (WaitingResult, error) {
	var out WaitingResult
	err := a.tx(ctx, func(q *schema.Queries) error {
		// The offers first: one that comes in between is for the next time.
		offers, err := q.Offers(ctx)
		if err != nil {
			return err
		}
		for _, o := range offers {
			out.Offers = append(out.Offers, compute.Credential{ID: o.ID, ProjectID: o.ProjectID, UserID: o.UserID})
		}
		rows, err := q.WaitingThings(ctx)
		for _, row := range rows {
			out.Things = append(out.Things, Thing(row))
		}
		return err
	})
	return out, err
}

// ReapedInput is what became of things that waited, and the offers that were used up.
type ReapedInput struct {
	Released []compute.Thing      `json:"released,omitempty"`
	Waiting  []compute.Thing      `json:"waiting,omitempty"`
	Offers   []compute.Credential `json:"offers,omitempty"`
}

// Reaped is the activity record.Reaped.
func (a *Activities) Reaped(ctx context.Context, in ReapedInput) error {
	return a.tx(ctx, func(q *schema.Queries) error {
		if err := release(ctx, q, in.Released); err != nil {
			return err
		}
		if err := wait(ctx, q, in.Waiting); err != nil {
			return err
		}
		for _, o := range in.Offers {
			if err := q.WipeOffer(ctx, o.ID); err != nil {
				return err
			}
		}
		return nil
	})
}
