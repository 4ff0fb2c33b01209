package ledger

import (
	"context"

	"strongroom/compute"
	"strongroom/schema"
)

// Open writes things down before they are made.
func Open(ctx context.Context, q *schema.Queries, things []compute.Thing) error {
	return each(things, func(t compute.Thing) error { return q.IntendThing(ctx, schema.Intention(t)) })
}

// Present says that things exist.
func Present(ctx context.Context, q *schema.Queries, things []compute.Thing) error {
	return each(things, func(t compute.Thing) error {
		return q.PresentThing(ctx, schema.PresentThingParams{Kind: t.Kind, Place: t.Place, Name: t.Name, Reference: t.Reference})
	})
}

// Release closes the rows of things that were seen to be gone.
func Release(ctx context.Context, q *schema.Queries, things []compute.Thing) error {
	return each(things, func(t compute.Thing) error {
		return q.ReleaseThing(ctx, schema.ReleaseThingParams{Kind: t.Kind, Place: t.Place, Name: t.Name})
	})
}

// Wait says that things are to go and cannot yet. Each has what it waits for.
func Wait(ctx context.Context, q *schema.Queries, things []compute.Thing) error {
	return each(things, func(t compute.Thing) error {
		if t.BlockedBy == "" {
			return compute.Errorf(compute.Invalid, "%s %s waits for nothing", t.Kind, t.Name)
		}
		return q.WaitThing(ctx, schema.WaitThingParams{
			Kind: t.Kind, Place: t.Place, Name: t.Name, BlockedBy: t.BlockedBy, Reason: t.Reason, Late: compute.LateEffectWindow.Seconds(),
		})
	})
}

// HandOver says that things are their user's: no undo and no delete removes them.
func HandOver(ctx context.Context, q *schema.Queries, things []compute.Thing) error {
	return each(things, func(t compute.Thing) error {
		return q.HandOverThing(ctx, schema.HandOverThingParams{Kind: t.Kind, Place: t.Place, Name: t.Name})
	})
}

func each(things []compute.Thing, do func(compute.Thing) error) error {
	for _, t := range things {
		if err := do(t); err != nil {
			return err
		}
	}
	return nil
}
