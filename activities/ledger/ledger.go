// Package ledger keeps a row for each thing that strongroom makes outside its database:
// its owner, its place, and what its removal waits for. Its activities are local ones of the
// control worker.
//
// Its writes are not fenced: they state what was seen to exist or to be gone, which is
// true whichever operation has the server.
package ledger

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
	"strongroom/schema/fence"
)

// What an owner has.
var (
	// Things are those that an owner has in the world, the oldest first. What was handed
	// over to a user is not among them.
	Things = durable.Activity[compute.Owner, []compute.Thing]{
		Name: "ledger.Things", Queue: durable.RecordQueue,
		Summary: func(o compute.Owner) string { return "list what " + o.String() + " has" },
	}
	// HandedOver are those that operations on an owner made for its user and that, as far
	// as is known, are still there.
	HandedOver = durable.Activity[compute.Owner, []compute.Thing]{
		Name: "ledger.HandedOver", Queue: durable.RecordQueue,
		Summary: func(o compute.Owner) string { return "list what " + o.String() + " made for its user" },
	}
)

// Activities are the local activities on the ledger.
type Activities struct{ Pool *pgxpool.Pool }

// Register registers the activities under their names.
func (a *Activities) Register(r durable.Registry) {
	Things.Register(r, a.Things)
	HandedOver.Register(r, a.HandedOver)
	TakeKey.Register(r, a.TakeKey)
	Due.Register(r, a.Due)
	Reaped.Register(r, durable.NoResult(a.Reaped))
	Count.Register(r, a.Count)
	StartAudit.Register(r, a.StartAudit)
	Projects.Register(r, a.Projects)
	Names.Register(r, a.Names)
	LeftIn.Register(r, a.LeftIn)
	NoteSeen.Register(r, a.NoteSeen)
	NoteLooked.Register(r, durable.NoResult(a.NoteLooked))
	Differences.Register(r, a.Differences)
	EndAudit.Register(r, durable.NoResult(a.EndAudit))
}

// Things is the activity ledger.Things.
func (a *Activities) Things(ctx context.Context, owner compute.Owner) ([]compute.Thing, error) {
	var out []compute.Thing
	err := fence.Transaction(ctx, a.Pool, func(q *schema.Queries) error {
		rows, err := q.ThingsOf(ctx, schema.ThingsOfParams{OwnerKind: owner.Kind, OwnerID: owner.ID})
		for _, row := range rows {
			out = append(out, row.Ledger.Thing(row.HostName))
		}
		return err
	})
	return out, err
}

// HandedOver is the activity ledger.HandedOver.
func (a *Activities) HandedOver(ctx context.Context, owner compute.Owner) ([]compute.Thing, error) {
	var out []compute.Thing
	err := fence.Transaction(ctx, a.Pool, func(q *schema.Queries) error {
		rows, err := q.HandedOverThings(ctx, schema.HandedOverThingsParams{OwnerKind: owner.Kind, OwnerID: owner.ID})
		for _, row := range rows {
			out = append(out, row.Thing(""))
		}
		return err
	})
	return out, err
}
