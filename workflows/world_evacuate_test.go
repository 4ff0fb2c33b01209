package workflows_test

import (
	"context"
	"maps"
	"strings"

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
	for op := range w.claims {
		if op != in.Operation {
			delete(w.claims, op)
		}
	}
	for key, t := range w.ledger {
		switch {
		case t.Place != in.From.String():
		case t.Kind == compute.ThingRunningDomain, !w.down[in.From]:
			delete(w.ledger, key)
		default:
			w.ledger[key] = t.Waits(compute.BlockedByHost, "it was left")
		}
	}
	if !w.down[in.From] {
		w.erase(in.From)
	}
}

// erase is what becomes of a host that was evacuated and is not down: it comes back with empty
// disks.
func (w *world) erase(host compute.HostID) {
	here := func(key string) bool { return strings.HasPrefix(key, host.String()+" ") }
	for _, has := range []map[string]bool{w.files, w.tpms, w.uses, w.lent} {
		maps.DeleteFunc(has, func(key string, _ bool) bool { return here(key) })
	}
	maps.DeleteFunc(w.states, func(key, _ string) bool { return here(key) })
	maps.DeleteFunc(w.domains, func(key string, _ compute.PowerState) bool { return here(key) })
	maps.DeleteFunc(w.locks, func(key string, _ []compute.SecretID) bool { return here(key) })
}
