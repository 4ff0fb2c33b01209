package workflows_test

import (
	"context"

	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// registerEvacuate registers what an evacuate writes.
func (w *world) registerEvacuate(r registry) {
	register(w, r, record.LeaveHost, func(_ context.Context, in record.LeaveHostInput) (none, error) {
		return none{}, w.fencedOrElse(in.OperationInput, func() error {
			if !w.fencedOff[in.From] {
				return compute.Errorf(compute.Conflict, "Compute service of %s is still in use.", in.From)
			}
			return nil
		})
	})
	register(w, r, record.Evacuate, func(_ context.Context, in record.EvacuateInput) (none, error) {
		w.close(in.OperationInput, in.Close)
		if host := w.row.server.Host; host != nil && *host == *in.To.Host { // decided before
			return none{}, nil
		}
		return none{}, w.fenced(in.OperationInput, func() { w.evacuate(in) })
	})
}

func (w *world) fencedOrElse(in durable.OperationInput, do func() error) (err error) {
	if lost := w.fenced(in, func() { err = do() }); lost != nil {
		return lost
	}
	return err
}

func (w *world) evacuate(in record.EvacuateInput) {
	s := &w.row.server
	state, task, power := s.VMState, s.TaskState, s.PowerState
	*s = in.To
	s.VMState, s.TaskState, s.PowerState = state, task, power
	w.decideKept()
	if in.SharedTPM {
		w.passTPM(in.From, *in.To.Host)
	}
	if in.SharedDisks {
		w.passDisks(in.From, *in.To.Host)
	}
	for op := range w.claims {
		if op != in.Operation {
			delete(w.claims, op)
		}
	}
	for key, t := range w.ledger {
		switch {
		case t.Place != in.From.String():
		case t.Kind == compute.ThingRunningDomain:
			delete(w.ledger, key)
		default:
			w.ledger[key] = t.Waits(compute.BlockedByHost, "it was left")
		}
	}
}
