package record

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"strongroom/compute"
	"strongroom/schema"
)

// ShareChange is what became of one of a server's shares.
type ShareChange struct {
	Share compute.ShareID    `json:"share_id"`
	Event compute.ShareEvent `json:"event,omitempty"`
	// Gone: the server has it no more.
	Gone bool `json:"gone,omitempty"`
}

// Unsettled gives what becomes of the share of an operation that ends without a word about it: one
// that could not begin, or whose execution was terminated, knows nothing of it. No share attaches or
// detaches for ever.
func Unsettled(kind compute.OperationKind, arguments []byte) []ShareChange {
	event := map[compute.OperationKind]compute.ShareEvent{compute.OpShareAttach: compute.ShareRefused, compute.OpShareDetach: compute.ShareKept}[kind]
	var in compute.ShareArguments
	if event == "" || json.Unmarshal(arguments, &in) != nil {
		return nil
	}
	return []ShareChange{{Share: in.Share, Event: event}}
}

// cutOff settles the share of an operation that has lost its server, to a reset of the server's state: by now the
// operation is undone, or never began. Where the operation that has the server is about the same share, or a delete, that
// one says what becomes of it. A delete has all of the server's shares.
func cutOff(ctx context.Context, q *schema.Queries, op schema.Operation) error {
	changes := Unsettled(op.Kind, op.Arguments)
	if len(changes) == 0 && op.Kind != compute.OpDelete || op.State.Settled() {
		return nil
	}
	server, err := q.LockServerRow(ctx, op.ServerID)
	if errors.Is(err, pgx.ErrNoRows) { // deleted, with its shares
		return nil
	}
	if err != nil {
		return err
	}
	if op.Kind == compute.OpDelete {
		rows, err := q.ServerShares(ctx, server.ID)
		if err != nil {
			return err
		}
		for _, row := range rows {
			changes = append(changes, ShareChange{Share: row.ShareID, Event: compute.ShareKept})
		}
	}
	if server.CurrentOperation != "" {
		other, err := q.GetOperation(ctx, server.CurrentOperation)
		if err != nil || other.Kind == compute.OpDelete {
			return err
		}
		if its := Unsettled(other.Kind, other.Arguments); len(its) > 0 {
			changes = slices.DeleteFunc(changes, func(c ShareChange) bool { return c.Share == its[0].Share })
		}
	}
	return changeShares(ctx, q, server.ID, changes)
}

// changeShares writes what became of a server's shares, as the status chart has it.
func changeShares(ctx context.Context, q *schema.Queries, server compute.ServerID, changes []ShareChange) error {
	if len(changes) == 0 {
		return nil
	}
	rows, err := q.ServerShares(ctx, server)
	if err != nil {
		return err
	}
	for _, row := range rows {
		for _, c := range changes {
			if c.Share != row.ShareID {
				continue
			}
			if c.Gone {
				err = q.DetachShare(ctx, schema.DetachShareParams{ServerID: server, ShareID: row.ShareID})
			} else {
				row.Status = row.Status.After(c.Event)
				_, err = q.SetShareStatus(ctx, schema.SetShareStatusParams{ServerID: server, ShareID: row.ShareID, Status: row.Status})
			}
			if err == nil && (c.Event == compute.ShareGranted || c.Event == compute.ShareMounted) {
				err = q.ShareIsSeen(ctx, schema.ShareIsSeenParams{ServerID: server, ShareID: row.ShareID})
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
