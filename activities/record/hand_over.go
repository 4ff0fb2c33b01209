package record

import (
	"context"

	"strongroom/activities/ledger"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
)

// HandOver makes things the user's before their operation ends.
var HandOver = durable.Activity[HandOverInput, durable.None]{
	Name: "record.HandOver", Queue: durable.RecordQueue,
	Summary: func(in HandOverInput) string { return stepSummary("hand over to the user", in.Close, in.Open) },
}

// HandOverInput names things that become the user's.
type HandOverInput struct {
	durable.OperationInput
	Things []compute.Thing `json:"things"`
	Close  *Close          `json:"close,omitempty"`
	Open   *Open           `json:"open,omitempty"`
}

// HandOver is the activity record.HandOver: from here on no undo and no delete of the
// server removes the things. It is not fenced: a finished image is the user's also if
// another operation has taken over the server, and a delete waits for this operation
// before it reads what is left.
func (a *Activities) HandOver(ctx context.Context, in HandOverInput) error {
	return a.closing(ctx, in.Operation, in.Close, func() error {
		return a.transaction(ctx, func(q *schema.Queries) error {
			if err := closeStep(ctx, q, in.Operation, in.Close); err != nil {
				return err
			}
			if err := ledger.HandOver(ctx, q, in.Things); err != nil {
				return err
			}
			if err := ledger.RecordKeys(ctx, q, in.Things); err != nil {
				return err
			}
			return openStep(ctx, q, in.Operation, in.Open)
		})
	})
}
