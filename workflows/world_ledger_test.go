package workflows_test

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"strongroom/activities/ledger"
	opact "strongroom/activities/operation"
	"strongroom/compute"
)

func (w *world) registerLedger(r registry) {
	register(w, r, ledger.Things, func(context.Context, compute.Owner) ([]compute.Thing, error) { return w.listed(), nil })
	register(w, r, ledger.HandedOver, func(context.Context, compute.Owner) ([]compute.Thing, error) {
		return slices.Clone(w.handedOver), nil
	})
	register(w, r, ledger.TakeKey, func(_ context.Context, in ledger.TakeKeyInput) (ledger.TakeKeyResult, error) {
		for _, id := range w.used {
			if id.String() == in.Key.Reference {
				return ledger.TakeKeyResult{}, nil
			}
		}
		return ledger.TakeKeyResult{Taken: true}, nil
	})
	register(w, r, ledger.Due, func(_ context.Context, in ledger.DueInput) (ledger.DueResult, error) {
		notNow := func(t compute.Thing) bool {
			return slices.Contains(in.UnderWay, t.ID) || slices.Contains(w.later, t.ID)
		}
		return ledger.DueResult{Things: slices.DeleteFunc(w.due(), notNow), Offers: w.offers}, nil
	})
	register(w, r, ledger.Reaped, func(_ context.Context, in ledger.ReapedInput) (none, error) {
		w.offers = nil
		w.release(w.stillWaiting(in.Released))
		for _, t := range w.stillWaiting(in.Waiting) {
			w.wait([]compute.Thing{t})
			w.later = append(w.later, t.ID)
		}
		return none{}, nil
	})
	register(w, r, opact.Sweep, func(context.Context, opact.SweepInput) (none, error) { return none{}, nil })
	register(w, r, opact.Watch, func(context.Context, opact.WatchInput) (opact.WatchResult, error) {
		w.later = nil
		return opact.WatchResult{Due: len(w.due()) > 0}, nil
	})
}

// listed lists the ledger in a stable order.
func (w *world) listed() []compute.Thing {
	return slices.SortedFunc(maps.Values(w.ledger), func(a, b compute.Thing) int {
		return cmp.Or(cmp.Compare(a.Place, b.Place), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
}

// due lists what waits and may be tried now.
func (w *world) due() []compute.Thing {
	var out []compute.Thing
	for _, t := range w.listed() {
		host, onHost := t.Host()
		holdsBack := func(other compute.Thing) bool { return t.MustWaitFor(other) && !w.givenUp(other.Place) }
		if t.State == compute.ThingWaiting && !(onHost && w.down[host]) && w.row.current == "" && !slices.ContainsFunc(w.listed(), holdsBack) {
			out = append(out, t)
		}
	}
	return out
}

// stillWaiting gives those of some things that wait to be removed still.
func (w *world) stillWaiting(things []compute.Thing) []compute.Thing {
	return slices.DeleteFunc(slices.Clone(things), func(t compute.Thing) bool {
		known := w.ledger[compute.Sighting{Kind: t.Kind, Place: t.Place, Name: t.Name}]
		return known.State != compute.ThingWaiting || known.Operation != t.Operation
	})
}

// compareLedger finds the differences between the ledger and the world at the places that
// were looked at, as the audit does in the database. The result is sorted.
func compareLedger(rows []compute.LedgerEntry, things []compute.Sighting, looked map[string]bool) []compute.Finding {
	known := map[compute.Sighting]bool{}
	var out []compute.Finding
	for _, e := range rows {
		s := compute.Sighting{Kind: e.Kind, Place: e.Place, Name: e.Name}
		known[s] = true
		if verdict := e.Judge(slices.Contains(things, s), looked[e.Place]); verdict != "" {
			out = append(out, e.Finding(verdict))
		}
	}
	for _, s := range things {
		if !known[s] {
			out = append(out, compute.Finding{Kind: s.Kind, Place: s.Place, Name: s.Name, What: compute.Unowned})
		}
	}
	slices.SortFunc(out, compute.ByPlace)
	return out
}
