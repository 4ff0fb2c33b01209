package record

import (
	"context"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
)

// GiveInput names things that become the user's before their operation ends.
type GiveInput struct {
	durable.OperationInput
	Things []compute.Thing `json:"things"`
}

// Give is the activity record.Give: from here on no undo and no delete of the
// server takes the things back. It is not fenced: what is whole is the user's, whoever
// has the server, and a delete waits for the operation before it looks what is left.
func (a *Activities) Give(ctx context.Context, in GiveInput) error {
	return a.tx(ctx, func(q *schema.Queries) error { return give(ctx, q, in.Things) })
}

func give(ctx context.Context, q *schema.Queries, things []compute.Thing) error {
	for _, t := range things {
		if err := q.GiveThing(ctx, schema.GiveThingParams{Kind: t.Kind, Place: t.Place, Name: t.Name}); err != nil {
			return err
		}
	}
	return nil
}

// Given is the activity record.Given: what operations on a server made for its
// user and, as far as is known, is still there.
func (a *Activities) Given(ctx context.Context, server compute.ServerID) ([]compute.Thing, error) {
	var out []compute.Thing
	err := a.tx(ctx, func(q *schema.Queries) error {
		rows, err := q.GivenThings(ctx, server)
		for _, row := range rows {
			out = append(out, Thing(row))
		}
		return err
	})
	return out, err
}
