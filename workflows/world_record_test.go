package workflows_test

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"go.temporal.io/sdk/activity"

	opact "strongroom/activities/operation"
	"strongroom/activities/placement"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// registry is what the test environment and a worker have in common.
type registry interface {
	RegisterActivityWithOptions(any, activity.RegisterOptions)
}

func (w *world) registerRecord(r registry) {
	register(w, r, record.Begin, w.begin)
	register(w, r, record.Advance, w.advance)
	register(w, r, placement.Claim, w.claim)
	register(w, r, placement.Unclaim, func(_ context.Context, in durable.OperationInput) (none, error) {
		if _, has := w.claims[in.Operation]; len(w.claims) == 0 || has && len(w.claims) == 1 {
			w.checkDependents("the claim")
		}
		delete(w.claims, in.Operation)
		if len(w.claims) == 0 {
			_ = w.fenced(in, func() { w.row.server.Host = nil })
		}
		return none{}, nil
	})
	register(w, r, record.ClearSecrets, func(_ context.Context, in durable.OperationInput) (none, error) {
		_ = w.fenced(in, w.clearSecrets)
		return none{}, nil
	})
	register(w, r, record.Rotate, w.rotate)
	register(w, r, record.HandOver, func(_ context.Context, in record.HandOverInput) (none, error) {
		w.close(in.OperationInput, in.Close)
		w.handOver(in.Things)
		return none{}, nil
	})
	register(w, r, record.Settle, w.settle)
	register(w, r, record.Rebuild, w.rebuild)
	w.registerShelve(r)
	w.registerEvacuate(r)
	register(w, r, record.FinishDelete, w.finishDelete)
	register(w, r, record.ForgetTrust, func(context.Context, compute.Credential) (none, error) {
		w.delegated = ""
		return none{}, nil
	})
	register(w, r, record.Unrescue, func(_ context.Context, in record.UnrescueInput) (none, error) {
		w.close(in.OperationInput, in.Close)
		return none{}, w.fenced(in.OperationInput, func() { w.row.server = w.row.server.Unrescued() })
	})
	w.registerLedger(r)
	note := act(w, opact.CancelRunning.Name, func(context.Context, compute.ServerID) (none, error) { return none{}, nil })
	opact.CancelRunning.Register(r, func(ctx context.Context, server compute.ServerID) (none, error) {
		if err := w.cancelRunning(ctx, server); err != nil {
			return none{}, err
		}
		return note(ctx, server)
	})
}

// register registers what an activity does to the world.
func register[I, O any](w *world, r registry, a durable.Activity[I, O], do func(context.Context, I) (O, error)) {
	a.Register(r, act(w, a.Name, do))
}

// registerOnHost is register for an activity on hosts.
func registerOnHost[I, O any](w *world, r registry, a durable.HostActivity[I, O], do func(context.Context, I) (O, error)) {
	a.Register(r, act(w, a.Name, func(ctx context.Context, in I) (O, error) {
		out, err := do(ctx, in)
		if w.sharedDisks {
			w.mirror(hostOf(ctx))
		}
		return out, err
	}))
}

type none = durable.None

func (w *world) holds(in durable.OperationInput) bool { return w.row.current == in.Operation }

func (w *world) fenced(in durable.OperationInput, do func()) error {
	if !w.holds(in) {
		return record.Superseded()
	}
	do()
	return nil
}

func (w *world) begin(_ context.Context, in durable.OperationInput) (record.BeginResult, error) {
	op := w.operations[in.Operation]
	if !w.holds(in) || op.State.Settled() {
		w.end(in.Operation, compute.OperationCancelled, "superseded")
		return record.BeginResult{Superseded: true}, nil
	}
	op.State = compute.OperationRunning
	out := record.BeginResult{Kind: cmp.Or(w.kind, op.Kind), Credential: op.Credential, Server: w.row.server}
	if host := w.row.server.Host; host != nil {
		out.Host = &durable.Host{ID: *host, Name: "host-" + host.String()[:4]}
		out.HostFormat = compute.Host{Default: w.formats[*host]}.DefaultFormat()
	}
	out.TooLarge = w.tooLarge
	out.Began = w.began[in.Operation]
	if out.Began.IsZero() {
		out.Began = w.now()
		w.began[in.Operation] = out.Began
	}
	out.Server.Disks = slices.Clone(out.Server.Disks)
	out.BacksUpTPM = w.backsUp && out.Server.TPM != nil
	action, err := compute.ActionOf(op.Kind)
	if err != nil {
		return out, err
	}
	if op.Kind == compute.OpDelete {
		w.decideKept()
	}
	out.Arguments, err = action.Keep(op.Arguments)
	return out, err
}

func (w *world) rebuild(_ context.Context, in record.RebuildInput) (none, error) {
	w.close(in.OperationInput, in.Close)
	return none{}, w.fenced(in.OperationInput, func() {
		s := &w.row.server
		s.Image, s.Disks, s.TPM = in.Image, in.Disks, in.TPM
		if in.TPMLost {
			w.decideKept()
		}
		if in.TPMLost && !in.TPMRestored {
			s.TPMBackup = nil
		}
		w.forgetBackup()
	})
}

func (w *world) claim(_ context.Context, in placement.ClaimInput) (placement.ClaimResult, error) {
	if !w.holds(in.OperationInput) {
		return placement.ClaimResult{}, record.Superseded()
	}
	w.tpmOf, w.disksOf = in.TPMOf, in.DisksOf
	if w.waitsPeers && len(in.Silent) > 0 && in.Only == nil {
		return placement.ClaimResult{}, compute.Errorf(compute.Conflict, "start the worker of host-%s", in.Silent[0].String()[:4])
	}
	for _, h := range w.hosts {
		if !slices.Contains(in.Not, h) && (in.Only == nil || *in.Only == h) {
			if in.Alone {
				clear(w.claims)
			}
			if delete(w.claims, in.Operation); len(w.claims) == 0 { // else it has a place
				w.row.server.Host = &h
			}
			w.claims[in.Operation] = h
			return placement.ClaimResult{
				Host: h, Name: "host-" + h.String()[:4], Format: compute.Host{Default: w.formats[h]}.DefaultFormat(), Zone: "nova",
				Disks: w.saysSharedDisks && in.DisksOf != nil,
			}, nil
		}
	}
	return placement.ClaimResult{}, compute.Errorf(compute.NoHost, compute.NoValidHost)
}

// advance is the one write between two steps.
func (w *world) advance(_ context.Context, in record.AdvanceInput) (record.AdvanceResult, error) {
	w.close(in.OperationInput, in.Close)
	if !in.Unfenced && !w.holds(in.OperationInput) {
		return record.AdvanceResult{}, record.Superseded()
	}
	if in.Task != nil {
		w.row.server.TaskState = *in.Task
	}
	if in.Secrets != nil {
		w.saveSecrets(*in.Secrets)
	}
	for _, o := range in.Options {
		i := slices.IndexFunc(w.row.server.Disks, func(d compute.Disk) bool { return d.ID == o.Disk })
		d := &w.row.server.Disks[i]
		d.Format, d.EncryptionOptions, d.Whole = o.Format, o.Options, o.Whole
	}
	if in.Networks != nil {
		w.row.server.Networks = in.Networks
	}
	if in.Trust != nil {
		w.delegated = in.Trust.Trust
	}
	w.open(in.OperationInput, in.Open)
	if in.Open == nil || in.Open.Host == nil {
		return record.AdvanceResult{}, nil
	}
	host := in.Open.Host.ID
	return record.AdvanceResult{HostDown: w.down[host], HostStale: w.stale[host]}, nil
}

func (w *world) saveSecrets(in record.Secrets) {
	for i, d := range w.row.server.Disks {
		if id, ok := in.Disks[d.ID.String()]; ok {
			w.row.server.Disks[i].Secret = &id
		}
		if id, ok := in.Sources[d.ID.String()]; ok {
			w.row.server.Disks[i].BackingSecret = &id
		}
	}
	if in.TPM != nil {
		w.row.server.TPM.Secret = in.TPM
	}
}

func (w *world) clearSecrets() {
	for i := range w.row.server.Disks {
		d := &w.row.server.Disks[i]
		d.Secret, d.BackingSecret, d.EncryptionOptions = nil, nil, nil
	}
	if w.row.server.TPM != nil {
		w.row.server.TPM.Secret = nil
	}
}

func (w *world) open(op durable.OperationInput, in *record.Open) {
	if in == nil {
		return
	}
	for _, t := range in.Things {
		key := compute.Sighting{Kind: t.Kind, Place: t.Place, Name: t.Name}
		if known, ok := w.ledger[key]; !ok || (t.Kind == compute.ThingRunningDomain || known.State == compute.ThingWaiting) && known.Operation != t.Operation {
			t.State = compute.ThingIntended
			w.ledger[key] = t
		}
	}
	w.events[eventKey(op, in.Event, in.Host)] = ""
}

func (w *world) close(op durable.OperationInput, in *record.Close) {
	if in == nil {
		return
	}
	for _, t := range in.Present {
		key := compute.Sighting{Kind: t.Kind, Place: t.Place, Name: t.Name}
		if known, ok := w.ledger[key]; ok {
			known.State, known.Reference = compute.ThingPresent, t.Reference
			w.ledger[key] = known
		}
	}
	w.release(in.Released)
	w.wait(in.Waiting)
	key := eventKey(op, in.Event, in.Host)
	if _, opened := w.events[key]; !opened {
		w.broken = append(w.broken, "a step ended that was not begun there: "+key)
	}
	w.events[key] = "done: " + in.Error
}

// eventKey names a step of an operation on a host, or on none.
func eventKey(op durable.OperationInput, event string, host *durable.Host) string {
	key := string(op.Operation) + " " + event
	if host != nil {
		key += " " + host.ID.String()
	}
	return key
}

func (w *world) release(things []compute.Thing) {
	for _, t := range things {
		w.released = append(w.released, t)
		delete(w.ledger, compute.Sighting{Kind: t.Kind, Place: t.Place, Name: t.Name})
	}
}

// handOver makes things their owner's.
func (w *world) handOver(things []compute.Thing) {
	for _, t := range things {
		if !w.owned[t.Name] {
			w.owned[t.Name] = true
			w.handedOver = append(w.handedOver, t)
		}
	}
	w.release(things)
}

func (w *world) wait(things []compute.Thing) {
	for _, t := range things {
		key := compute.Sighting{Kind: t.Kind, Place: t.Place, Name: t.Name}
		if t.State, t.Since = compute.ThingWaiting, w.ledger[key].Since; t.Since.IsZero() {
			t.Since = w.now()
		}
		w.ledger[key] = t
	}
}

func (w *world) settle(_ context.Context, in record.SettleInput) (none, error) {
	w.close(in.OperationInput, in.Close)
	if w.operations[in.Operation].State.Settled() {
		return none{}, nil
	}
	if !w.holds(in.OperationInput) {
		if in.State == compute.OperationSucceeded {
			return none{}, record.Superseded()
		}
		w.end(in.Operation, compute.OperationCancelled, "superseded")
		return none{}, nil
	}
	s := &w.row.server
	if in.Move != nil {
		w.saveMove(in.Operation, *in.Move)
	} else if in.Power == compute.PowerRunning {
		*s = s.WithUnbooted(false)
	}
	if in.Power == compute.PowerRunning {
		*s = s.WithNewTPM(false)
	}
	if s.TPMBackup != nil && (in.Power == compute.PowerRunning || in.GuestRan) {
		goesOn := *s.TPMBackup
		goesOn.Final = false
		s.TPMBackup = &goesOn
	}
	s.VMState, s.TaskState, s.PowerState = in.VMState, compute.TaskNone, in.Power
	if in.Rescue != nil {
		*s = s.RescuedWith(*in.Rescue)
	}
	if in.VMState == compute.VMShelvedOffloaded {
		s.Host = nil
		clear(w.claims)
	}
	if op := w.operations[in.Operation]; in.State != compute.OperationSucceeded && len(in.Shares) == 0 {
		in.Shares = record.Unsettled(op.Kind, op.Arguments)
	}
	w.changeShares(in.Shares)
	w.row.current, w.row.fault, w.row.launched = "", in.Fault, w.row.launched || in.Launched
	w.end(in.Operation, in.State, in.Message)
	return none{}, nil
}

func (w *world) finishDelete(_ context.Context, in record.FinishDeleteInput) (none, error) {
	w.close(in.OperationInput, in.Close)
	if w.operations[in.Operation].State.Settled() {
		return none{}, nil
	}
	if !w.holds(in.OperationInput) {
		return none{}, record.Superseded()
	}
	if slices.ContainsFunc(slices.Collect(maps.Values(w.ledger)), func(t compute.Thing) bool { return t.State != compute.ThingWaiting }) {
		return none{}, compute.Errorf(compute.Conflict, "things are left")
	}
	w.clearSecrets()
	w.clearPorts()
	clear(w.claims)
	s := &w.row.server
	s.VMState, s.TaskState, s.PowerState = compute.VMDeleted, compute.TaskNone, compute.PowerNone
	w.row.current, w.row.fault, w.row.deleted = "", nil, true
	w.end(in.Operation, compute.OperationSucceeded, "")
	return none{}, nil
}

func (w *world) end(id compute.OperationID, state compute.OperationState, message string) {
	op := w.operations[id]
	if op.State.Settled() {
		return
	}
	op.State, op.Message = state, message
	for key, result := range w.events {
		if result == "" {
			w.events[key] = leftOpen
		}
	}
}

// leftOpen is the result of a step that was still open when its operation ended.
const leftOpen = "done"
