package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
	"strongroom/schema/fence"
)

// The activities of the janitor.
var (
	// Due gives what may be removed now.
	Due = durable.Activity[DueInput, DueResult]{
		Name: "ledger.Due", Queue: durable.RecordQueue,
		Summary: func(DueInput) string { return "find waiting things that may be removed now" },
	}
	// Reaped records which were removed and which still wait.
	Reaped = durable.Activity[ReapedInput, durable.None]{
		Name: "ledger.Reaped", Queue: durable.RecordQueue,
		Summary: func(in ReapedInput) string {
			return fmt.Sprintf("record %d things removed, %d still waiting", len(in.Released), len(in.Waiting))
		},
	}
)

// Bounds of DueResult. The bound of a place keeps one with many due things from starving
// the others (A5), that of a host leaves room for what operations do there. Both count
// what is under way.
const (
	duePage     = 500
	dueBytes    = 128 << 10 // of the things in JSON: half of what Temporal warns of
	duePerPlace = 50
	duePerHost  = 12
)

// DueInput asks for what is due and not under way already.
type DueInput struct {
	UnderWay []uuid.UUID `json:"under_way,omitempty"`
}

// DueResult is what may be removed now, that which is due for the longest time first,
// and the credentials that passing requests offered.
type DueResult struct {
	Things []compute.Thing      `json:"things,omitempty"`
	Offers []compute.Credential `json:"offers,omitempty"`
}

// Due is the activity ledger.Due. It leaves out things of owners with a running operation,
// things on a host that is down, and things that must go after one that still exists
// (compute.GoneFirst).
func (a *Activities) Due(ctx context.Context, in DueInput) (DueResult, error) {
	var out DueResult
	err := fence.Transaction(ctx, a.Pool, func(q *schema.Queries) error {
		// The offers first: one that is made after this is for the next call.
		offers, err := q.Offers(ctx)
		if err != nil {
			return err
		}
		for _, o := range offers {
			out.Offers = append(out.Offers, compute.Credential{ID: o.ID, ProjectID: o.ProjectID, UserID: o.UserID})
		}
		page := due(duePage, nil)
		page.UnderWay = in.UnderWay
		rows, err := q.DueThings(ctx, page)
		if err != nil {
			return err
		}
		out.Things, err = fitting(rows)
		return err
	})
	return out, err
}

// fitting gives the first rows that fit into a page, at least one: the rest is due still.
func fitting(rows []schema.DueThingsRow) (page []compute.Thing, err error) {
	room := dueBytes
	for _, row := range rows {
		t := row.Ledger.Thing(row.HostName)
		t.Reason = compute.ShortReason(t.Reason) // an earlier version may have written it down
		text, err := json.Marshal(t)
		if err != nil {
			return nil, err
		}
		if room -= len(text) + 1; room < 0 && len(page) > 0 {
			break
		}
		page = append(page, t)
	}
	return page, nil
}

// IsDue reports whether Due would give anything.
func (a *Activities) IsDue(ctx context.Context) (bool, error) {
	q := schema.New(a.Pool)
	offered, err := q.SpareOffers(ctx)
	if err != nil || offered {
		return err == nil, fence.Unavailable(err)
	}
	rows, err := q.DueThings(ctx, due(1, nil))
	return len(rows) > 0, fence.Unavailable(err)
}

func due(most int32, project *string) schema.DueThingsParams {
	return schema.DueThingsParams{
		ProjectID: project, HostTimeout: compute.HostTimeout.Seconds(), GoneFirst: goneFirst(),
		PerPlace: duePerPlace, PerHost: duePerHost, Most: most,
	}
}

// goneFirst gives compute.GoneFirst as pairs, "<kind> <kind that goes before it>".
func goneFirst() []string {
	var out []string
	for _, kind := range compute.TeardownOrder {
		for _, before := range compute.GoneFirst(kind) {
			out = append(out, string(kind)+" "+string(before))
		}
	}
	return out
}

// ReapedInput is what became of things that were due, and the offers that they were
// tried with.
type ReapedInput struct {
	Released []compute.Thing      `json:"released,omitempty"`
	Waiting  []compute.Thing      `json:"waiting,omitempty"`
	Offers   []compute.Credential `json:"offers,omitempty"`
}

// Reaped is the activity ledger.Reaped. A thing that another operation makes again meanwhile
// is that one's: its row is left alone. An offered credential is kept while its project has
// things that were due and not on the page.
func (a *Activities) Reaped(ctx context.Context, in ReapedInput) error {
	return fence.Transaction(ctx, a.Pool, func(q *schema.Queries) error {
		released, waiting, err := stillWaiting(ctx, q, in)
		if err == nil {
			err = Release(ctx, q, released)
		}
		if err == nil {
			err = Wait(ctx, q, waiting)
		}
		if err == nil {
			err = completeEvacuations(ctx, q, released)
		}
		if err != nil {
			return err
		}
		for _, o := range in.Offers {
			left, err := q.DueThings(ctx, due(1, &o.ProjectID))
			if err != nil {
				return err
			}
			if len(left) > 0 {
				continue
			}
			if err := q.WipeOffer(ctx, o.ID); err != nil {
				return err
			}
		}
		return nil
	})
}

// stillWaiting gives those things whose rows still wait for the operation's removal that was
// tried.
func stillWaiting(ctx context.Context, q *schema.Queries, in ReapedInput) (released, waiting []compute.Thing, err error) {
	var ids []uuid.UUID
	for _, t := range slices.Concat(in.Released, in.Waiting) {
		ids = append(ids, t.ID)
	}
	rows, err := q.StillWaiting(ctx, ids)
	if err != nil {
		return nil, nil, err
	}
	moved := func(t compute.Thing) bool {
		return !slices.Contains(rows, schema.StillWaitingRow{ID: t.ID, OperationID: t.Operation})
	}
	return slices.DeleteFunc(slices.Clone(in.Released), moved), slices.DeleteFunc(slices.Clone(in.Waiting), moved), nil
}

// completeEvacuations notes that hosts have nothing any more of servers that left them.
func completeEvacuations(ctx context.Context, q *schema.Queries, released []compute.Thing) error {
	var servers []uuid.UUID
	for _, t := range released {
		if server, ok := t.Server(); ok && t.OnHost() && !slices.Contains(servers, server.UUID) {
			servers = append(servers, server.UUID)
		}
	}
	if len(servers) == 0 {
		return nil
	}
	return q.CompleteEvacuations(ctx, schema.CompleteEvacuationsParams{Servers: servers})
}
