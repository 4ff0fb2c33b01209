package record

import (
	"context"

	"strongroom/activities/ledger"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
)

// Open opens a step: its event for the trail, and a ledger row for each thing that it is
// about to make.
type Open struct {
	Event  string          `json:"event"`
	Host   *durable.Host   `json:"host,omitempty"`
	Things []compute.Thing `json:"things,omitempty"`
}

// Close closes a step: what it made is there; what it removed is gone or, where it could
// not be removed yet, waits (compute.Thing.Waits).
type Close struct {
	Event    string          `json:"event"`
	Host     *durable.Host   `json:"host,omitempty"` // as Open had it
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

func openStep(ctx context.Context, q *schema.Queries, op compute.OperationID, o *Open) error {
	if o == nil {
		return nil
	}
	if err := ledger.Open(ctx, q, o.Things); err != nil {
		return err
	}
	event := schema.StartEventParams{OperationID: op, Event: o.Event}
	if o.Host != nil {
		event.HostID, event.Host = &o.Host.ID, &o.Host.Name
	}
	return q.StartEvent(ctx, event)
}

func closeStep(ctx context.Context, q *schema.Queries, op compute.OperationID, c *Close) error {
	if c == nil {
		return nil
	}
	if err := ledger.Present(ctx, q, c.Present); err != nil {
		return err
	}
	if err := ledger.Release(ctx, q, c.Released); err != nil {
		return err
	}
	if err := ledger.Wait(ctx, q, c.Waiting); err != nil {
		return err
	}
	event := schema.FinishEventParams{OperationID: op, Event: c.Event, Result: pointer(eventSuccess)}
	if c.Host != nil {
		event.HostID = &c.Host.ID
	}
	if c.Error != "" {
		event.Result, event.Details = pointer(eventError), &c.Error
	}
	return q.FinishEvent(ctx, event)
}

// closing runs write, which closes a step in its transaction. What was seen at
// the end of the step is true even if write is refused: then the step is closed alone.
func (a *Activities) closing(ctx context.Context, op compute.OperationID, c *Close, write func() error) error {
	err := write()
	if err == nil || c == nil || compute.Is(err, compute.Unavailable) {
		return err
	}
	if alone := a.transaction(ctx, func(q *schema.Queries) error { return closeStep(ctx, q, op, c) }); alone != nil {
		return alone
	}
	return err
}

// stepSummary is what the Temporal UI shows of a write between two steps.
func stepSummary(does string, c *Close, o *Open) string {
	if c != nil {
		does += ", close " + c.Event
	}
	if o != nil {
		does += ", open " + o.Event
	}
	return does
}
