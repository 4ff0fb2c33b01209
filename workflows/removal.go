package workflows

import (
	"cmp"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// removals are things that an operation removes at one place or at several, as an undo,
// a delete, or after its point of no return.
type removals struct {
	things   []compute.Thing
	hostDown bool            // their host is down: things on it are not tried and wait for it
	late     []compute.Thing // the call that was to make them got no answer, and may still make them
}

// isLate reports whether a cloud service may still make a thing.
func (r removals) isLate(t compute.Thing) bool {
	return !t.OnHost() && slices.ContainsFunc(r.late, func(l compute.Thing) bool { return l.ID == t.ID })
}

// reasonLate is the reason of a thing that may still be made.
const reasonLate = "its making got no answer"

// reasonHostDown is the reason of a thing that waits for its host.
const reasonHostDown = "its host does not answer"

// reasonAway is the reason of a thing in a cloud service that did not answer a moment ago.
const reasonAway = "its service does not answer"

// reasonNotUndone is the error of a step whose own undo was not tried.
const reasonNotUndone = "not undone: " + reasonHostDown

// removeAfter runs a step's own undo and then removes things. If the undo fails for good,
// the things wait on the ledger.
func (o *operation) removeAfter(ctx workflow.Context, s *step, r removals, end *record.Close) {
	if s.undo != nil && r.hostDown {
		end.Error = reasonNotUndone // what the undo would have done is on no ledger
	} else if s.undo != nil {
		if err := o.tryUndo(ctx, s.host, s.undo); err != nil {
			end.Error = durable.FromTemporal(err).Message
			for _, t := range r.things {
				if t.OnHost() && durable.IsHostAway(err) {
					t = t.Waits(compute.BlockedByHost, reasonHostDown)
				} else {
					t = t.Waits(compute.BlockedByError, end.Error)
				}
				o.wait(end, t)
			}
			return
		}
	}
	o.remove(ctx, r, end)
}

// How often a step's own undo is tried: where it fails at once, undoAttempts take most of
// an hour, and a delete waits for it. What hardly any retry mends (isFinal) is believed after
// some five minutes (H9).
const (
	undoAttempts  = 12
	finalAttempts = 7
)

// isFinal reports whether a call failed in a way that the same call will fail in again.
func isFinal(err error) bool {
	switch durable.FromTemporal(err).Kind {
	case compute.Invalid, compute.NotFound, compute.Forbidden, compute.Corrupt, compute.Superseded:
		return true
	case compute.Conflict, compute.NoHost, compute.Unavailable:
	}
	return false
}

// tryUndo retries an undo until it succeeds, times out (its host or service is away), or
// has failed often enough.
func (o *operation) tryUndo(ctx workflow.Context, host *durable.Host, undo func(workflow.Context) error) (err error) {
	attempt := 0
	_ = durable.RetryForever(ctx, func(ctx workflow.Context) error {
		attempt++
		if err = undo(ctx); err == nil || durable.IsTimeout(err) || attempt == undoAttempts || attempt >= finalAttempts && isFinal(err) {
			return nil
		}
		return err
	})
	if host != nil && durable.IsTimeout(err) {
		o.fellSilent(host.ID)
	}
	return err
}

// withDependents adds to things those that the operation made, must be gone before them
// (compute.GoneFirst), and whose own undo comes later: an image goes before its key, though
// it was made first.
func (o *operation) withDependents(things []compute.Thing) []compute.Thing {
	out := slices.Clone(things)
	for _, m := range o.made {
		dependsOn := func(t compute.Thing) bool { return t.MustWaitFor(m.Waits("", "")) }
		same := func(t compute.Thing) bool { return t.ID == m.ID }
		if slices.ContainsFunc(things, dependsOn) && !slices.ContainsFunc(out, same) && !slices.ContainsFunc(o.waiting, same) {
			out = append(out, m)
		}
	}
	return out
}

// remove tries to remove each thing, in compute.TeardownOrder, and notes in end which are
// released and which wait. A thing that has to wait is not a failure.
func (o *operation) remove(ctx workflow.Context, r removals, end *record.Close) {
	for _, kind := range compute.TeardownOrder {
		var calls []removalCall
		for _, t := range r.things {
			switch {
			case t.Kind != kind:
			case t.BlockedBy == compute.BlockedByTime:
				o.waiting = append(o.waiting, t) // it may still be made: the janitor removes it then (A8)
			case t.OnHost() && (r.hostDown || o.isSilentAt(t)):
				reason := reasonHostDown
				if o.isLost(t) {
					reason = compute.HostGivenUp
				}
				o.wait(end, t.Waits(compute.BlockedByHost, reason))
			case !t.OnHost() && slices.Contains(o.away, t.Place):
				o.wait(end, t.Waits(compute.BlockedByError, reasonAway))
			case r.isLate(t) && o.mustWait(t):
				o.wait(end, t.Waits(compute.BlockedByTime, reasonLate))
			case o.mustWait(t):
				o.wait(end, t.Waits(compute.BlockedByThings, "what must go first is still there"))
			default:
				calls = append(calls, o.startRemoval(ctx, t))
			}
		}
		for _, c := range calls {
			t, timedOut := c.await(ctx)
			if r.isLate(t) && t.State != compute.ThingWaiting {
				t = t.Waits(compute.BlockedByTime, reasonLate)
			}
			if t.State == compute.ThingWaiting {
				o.wait(end, t)
				if timedOut {
					o.stayedAway(t)
				}
			} else {
				end.Released = append(end.Released, t)
				o.made = slices.DeleteFunc(o.made, func(m compute.Thing) bool { return m.ID == t.ID })
			}
		}
	}
}

// mustWait reports whether something waits that must go before a thing.
func (o *operation) mustWait(t compute.Thing) bool {
	return slices.ContainsFunc(o.waiting, func(first compute.Thing) bool {
		return t.MustWaitFor(first) && !o.isLost(first)
	})
}

// isLost reports whether a thing is on a host that an operator has given up.
func (o *operation) isLost(t compute.Thing) bool {
	host, onHost := t.Host()
	return onHost && slices.Contains(o.lost, host)
}

// isSilentAt reports whether the host of a thing did not answer.
func (o *operation) isSilentAt(t compute.Thing) bool {
	host, onHost := t.Host()
	return onHost && o.isSilent(host)
}

func (o *operation) wait(end *record.Close, t compute.Thing) {
	o.waiting = append(o.waiting, t)
	end.Waiting = append(end.Waiting, t)
	if end.Error == "" && t.BlockedBy != compute.BlockedByTime {
		end.Error = t.Reason
	}
}

// removalCall is the removal of one thing under way.
type removalCall struct {
	thing compute.Thing
	call  durable.Future[durable.None]
	err   error // it could not be started
}

// startRemoval starts the removal of a thing. The credential that asked for it is tried
// before those that the ledger knows (Thing.Removers).
func (o *operation) startRemoval(ctx workflow.Context, t compute.Thing) removalCall {
	t.Since = time.Time{} // whoever has the server removes all of that name, however it came there
	remove, err := removerOf(t)
	if err != nil {
		return removalCall{thing: t, err: err}
	}
	in := removalOf(t, []compute.Credential{o.asked.Credential})
	in.Began = o.asked.Began
	return removalCall{thing: t, call: remove.Start(ctx, in)}
}

func removalOf(t compute.Thing, asked []compute.Credential) compute.Removal {
	in := compute.Removal{Thing: t}
	if !t.OnHost() {
		in.Credentials = t.Removers(asked...)
	}
	return in
}

// ended waits for the end of a removal, and gives why it failed.
func (c removalCall) ended(ctx workflow.Context) error {
	if c.err != nil {
		return c.err
	}
	return c.call.Get(ctx, nil)
}

// await waits for the end of a removal. The thing comes back waiting when it could not
// be removed: for its host where that takes no work or dies at it, after an error also where
// the removal takes too long. timedOut says that each further try there may take as long.
func (c removalCall) await(ctx workflow.Context) (t compute.Thing, timedOut bool) {
	t, err := c.thing, c.ended(ctx)
	t.State, t.BlockedBy, t.Reason = compute.ThingReleased, "", ""
	if err == nil && t.Kind == compute.ThingTrust {
		err = forgetTrust(ctx, t)
	}
	if err == nil {
		return t, false
	}
	why, timedOut := durable.FromTemporal(err), durable.IsTimeout(err)
	switch {
	case t.OnHost() && durable.IsHostAway(err):
		return t.Waits(compute.BlockedByHost, reasonHostDown), timedOut
	case !t.OnHost() && why.Kind == compute.Forbidden:
		return t.Waits(compute.BlockedByCredential, why.Message), timedOut
	}
	return t.Waits(compute.BlockedByError, why.Message), timedOut
}

func forgetTrust(ctx workflow.Context, t compute.Thing) error {
	server, ok := t.Server()
	if !ok {
		return nil
	}
	return record.ForgetTrust.Do(ctx, compute.DelegatedCredential(server, t.Credential.ProjectID, t.Credential.UserID))
}

// removeAfterCommit removes things that the server does not use since the operation's point
// of no return, also when another operation has taken over the server: no other operation
// knows that they are unused. What cannot be removed now waits on the ledger.
func (o *operation) removeAfterCommit(ctx workflow.Context, event string, things []compute.Thing) error {
	ctx = durable.WithUndo(ctx)
	return eachPlace(ctx, things, func(ctx workflow.Context, host *durable.Host, here []compute.Thing) error {
		return o.runAfterCommit(ctx, step{event: event, host: host}, func(ctx workflow.Context, hostDown bool, end *record.Close) error {
			o.remove(ctx, removals{things: here, hostDown: hostDown}, end)
			return nil
		})
	})
}

// eachPlace runs do for the things on each host, side by side, and then for those in the
// cloud, with no host: keys go after what they open. It gives the first error.
func eachPlace(ctx workflow.Context, things []compute.Thing, do func(workflow.Context, *durable.Host, []compute.Thing) error) error {
	var hosts []durable.Host
	on := map[compute.HostID][]compute.Thing{}
	var cloud []compute.Thing
	for _, t := range things {
		id, onHost := t.Host()
		if !onHost {
			cloud = append(cloud, t)
			continue
		}
		if on[id] == nil {
			hosts = append(hosts, durable.Host{ID: id, Name: t.HostName})
		}
		on[id] = append(on[id], t)
	}
	var first error
	all := workflow.NewWaitGroup(ctx)
	for _, host := range hosts {
		all.Add(1)
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer all.Done()
			err := do(ctx, &host, on[host.ID])
			first = cmp.Or(first, err) // after the call: another place may have failed meanwhile
		})
	}
	all.Wait(ctx)
	if first != nil || len(cloud) == 0 {
		return first
	}
	return do(ctx, nil, cloud)
}
