package record

import (
	"context"

	"github.com/google/uuid"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
)

// OpenInput opens a step: its event for the trail, and a ledger row for each
// thing that it is about to make.
type OpenInput struct {
	durable.OperationInput
	Event  string          `json:"event"`
	Host   *compute.HostID `json:"host,omitempty"`
	Name   string          `json:"host_name,omitempty"`
	Things []compute.Thing `json:"things,omitempty"`
	Undo   bool            `json:"undo,omitempty"` // the step takes back what the operation made
}

// Open is the activity record.Open. Only an undo may be opened by an operation
// that has lost its server.
func (a *Activities) Open(ctx context.Context, in OpenInput) error {
	open := func(q *schema.Queries) error { return open(ctx, q, in) }
	if in.Undo {
		return a.tx(ctx, open)
	}
	return a.fencedTx(ctx, in.OperationInput, open)
}

func open(ctx context.Context, q *schema.Queries, in OpenInput) error {
	for _, t := range in.Things {
		if err := q.IntendThing(ctx, schema.Intention(t)); err != nil {
			return err
		}
	}
	event := schema.StartEventParams{OperationID: in.Operation, Event: in.Event, HostID: in.Host}
	if in.Name != "" {
		event.Host = &in.Name
	}
	return q.StartEvent(ctx, event)
}

// CloseInput closes a step: what it made is there, what it took away is gone or,
// where nobody's credential could take it away, waiting for one.
type CloseInput struct {
	durable.OperationInput
	Event    string          `json:"event"`
	Error    string          `json:"error,omitempty"`
	Present  []compute.Thing `json:"present,omitempty"`
	Released []compute.Thing `json:"released,omitempty"`
	Waiting  []compute.Thing `json:"waiting,omitempty"`
}

// Results of an event, as os-instance-actions has them.
const (
	eventSuccess = "Success"
	eventError   = "Error"
)

// Close is the activity record.Close. It is not fenced: it tells what was seen,
// and that is true whoever has the server.
func (a *Activities) Close(ctx context.Context, in CloseInput) error {
	return a.tx(ctx, func(q *schema.Queries) error {
		for _, t := range in.Present {
			if err := q.PresentThing(ctx, schema.PresentThingParams{Kind: t.Kind, Place: t.Place, Name: t.Name, Reference: t.Reference}); err != nil {
				return err
			}
		}
		if err := release(ctx, q, in.Released); err != nil {
			return err
		}
		if err := wait(ctx, q, in.Waiting); err != nil {
			return err
		}
		event := schema.FinishEventParams{OperationID: in.Operation, Event: in.Event, Result: pointer(eventSuccess)}
		if in.Error != "" {
			event.Result, event.Details = pointer(eventError), &in.Error
		}
		return q.FinishEvent(ctx, event)
	})
}

func release(ctx context.Context, q *schema.Queries, things []compute.Thing) error {
	for _, t := range things {
		if err := q.ReleaseThing(ctx, schema.ReleaseThingParams{Kind: t.Kind, Place: t.Place, Name: t.Name}); err != nil {
			return err
		}
	}
	return nil
}

func wait(ctx context.Context, q *schema.Queries, things []compute.Thing) error {
	for _, t := range things {
		if err := q.WaitThing(ctx, schema.WaitThingParams{Kind: t.Kind, Place: t.Place, Name: t.Name, Refused: t.Refused}); err != nil {
			return err
		}
	}
	return nil
}

// Things is the activity record.Things: what a server still has in the world.
func (a *Activities) Things(ctx context.Context, server compute.ServerID) ([]compute.Thing, error) {
	var out []compute.Thing
	err := a.tx(ctx, func(q *schema.Queries) error {
		rows, err := q.ServerThings(ctx, server)
		for _, row := range rows {
			out = append(out, Thing(row))
		}
		return err
	})
	return out, err
}

// Thing gives a ledger row as the field knows it.
func Thing(row schema.Ledger) compute.Thing {
	t := compute.Thing{
		ID: row.ID, Kind: row.Kind, Place: row.Place, Name: row.Name, Reference: row.Reference, Server: row.ServerID,
		Operation: row.OperationID, State: row.State,
		Credential: compute.Credential{ID: row.CredentialID, ProjectID: row.ProjectID, UserID: row.UserID},
	}
	if row.Refused != nil {
		t.Refused = *row.Refused
	}
	return t
}

func pointer[T any](v T) *T { return &v }

func parseDisk(text string) (compute.DiskID, error) {
	id, err := uuid.Parse(text)
	if err != nil {
		return compute.DiskID{}, compute.Errorf(compute.Invalid, "%q is no disk id", text)
	}
	return compute.DiskID{UUID: id}, nil
}
