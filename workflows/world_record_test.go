package workflows_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"

	opact "strongroom/activities/operation"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// registry is what the test environment and a worker have in common.
type registry interface {
	RegisterActivityWithOptions(any, activity.RegisterOptions)
}

func (w *world) registerRecord(r registry) {
	add := func(name string, f any) { r.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name}) }
	add(record.Begin, act(w, record.Begin, w.begin))
	add(record.Task, act(w, record.Task, func(_ context.Context, in record.TaskInput) (none, error) {
		return none{}, w.fenced(in.OperationInput, func() { w.row.server.TaskState = in.Task })
	}))
	add(record.Claim, act(w, record.Claim, w.claim))
	add(record.Unclaim, act(w, record.Unclaim, func(_ context.Context, in durable.OperationInput) (none, error) {
		w.leaned("the claim")
		delete(w.claims, in.Operation)
		_ = w.fenced(in, func() { w.row.server.Host = nil })
		return none{}, nil
	}))
	add(record.SaveSecrets, act(w, record.SaveSecrets, w.saveSecrets))
	add(record.ClearSecrets, act(w, record.ClearSecrets, func(_ context.Context, in durable.OperationInput) (none, error) {
		_ = w.fenced(in, w.clearSecrets)
		return none{}, nil
	}))
	add(record.SaveOptions, act(w, record.SaveOptions, func(_ context.Context, in record.OptionsInput) (none, error) {
		return none{}, w.fenced(in.OperationInput, func() {
			i := slices.IndexFunc(w.row.server.Disks, func(d compute.Disk) bool { return d.ID == in.Disk })
			w.row.server.Disks[i].EncryptionOptions = in.Options
		})
	}))
	add(record.Rotate, act(w, record.Rotate, w.rotate))
	add(record.Open, act(w, record.Open, w.open))
	add(record.Close, act(w, record.Close, w.close))
	add(record.Things, act(w, record.Things, func(context.Context, compute.ServerID) ([]compute.Thing, error) {
		var out []compute.Thing
		for _, t := range w.ledger {
			out = append(out, t)
		}
		return out, nil
	}))
	add(record.Give, act(w, record.Give, func(_ context.Context, in record.GiveInput) (none, error) {
		w.give(in.Things)
		return none{}, nil
	}))
	add(record.Given, act(w, record.Given, func(context.Context, compute.ServerID) ([]compute.Thing, error) {
		return slices.Clone(w.given), nil
	}))
	add(record.Settle, act(w, record.Settle, w.settle))
	add(record.Rebuild, act(w, record.Rebuild, w.rebuild))
	add(record.Bury, act(w, record.Bury, w.bury))
	add(record.Ledger, act(w, record.Ledger, w.book))
	add(record.SaveTrust, act(w, record.SaveTrust, func(_ context.Context, in record.TrustInput) (none, error) {
		return none{}, w.fenced(in.OperationInput, func() { w.delegated = in.Trust })
	}))
	add(record.ForgetTrust, act(w, record.ForgetTrust, func(context.Context, compute.Credential) (none, error) {
		w.delegated = ""
		return none{}, nil
	}))
	add(record.Waiting, act(w, record.Waiting, func(context.Context, record.WaitingInput) (record.WaitingResult, error) {
		out := record.WaitingResult{Offers: w.offers}
		keys := slices.ContainsFunc(slices.Collect(maps.Values(w.ledger)), func(t compute.Thing) bool { return t.Kind == compute.ThingKeySecret })
		for _, t := range w.ledger {
			if t.State == compute.ThingWaiting && !(t.Kind == compute.ThingTrust && keys) {
				out.Things = append(out.Things, t)
			}
		}
		return out, nil
	}))
	add(record.Reaped, act(w, record.Reaped, func(_ context.Context, in record.ReapedInput) (none, error) {
		w.offers = nil
		w.release(in.Released)
		w.wait(in.Waiting)
		return none{}, nil
	}))
	add(record.Unrescue, act(w, record.Unrescue, func(_ context.Context, in durable.OperationInput) (none, error) {
		return none{}, w.fenced(in, func() { w.row.server = w.row.server.Unrescued() })
	}))
	note := act(w, opact.CancelRunning, func(context.Context, compute.ServerID) (none, error) { return none{}, nil })
	add(opact.CancelRunning, func(ctx context.Context, server compute.ServerID) error {
		if err := w.cancelRunning(ctx, server); err != nil {
			return err
		}
		_, err := note(ctx, server)
		return err
	})
}

type none struct{}

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
	out := record.BeginResult{Credential: op.Credential, Server: w.row.server}
	out.Server.Disks = slices.Clone(out.Server.Disks)
	if op.Kind == compute.OpReboot {
		if err := json.Unmarshal(op.Arguments, &out.Reboot); err != nil {
			return out, err
		}
	}
	if op.Kind == compute.OpCreateImage || op.Kind == compute.OpCreateBackup {
		if err := json.Unmarshal(op.Arguments, &out.Snapshot); err != nil {
			return out, err
		}
	}
	if op.Kind == compute.OpRebuild {
		if err := json.Unmarshal(op.Arguments, &out.Rebuild); err != nil {
			return out, err
		}
	}
	if op.Kind == compute.OpRotateKeys {
		if err := json.Unmarshal(op.Arguments, &out.Rotate); err != nil {
			return out, err
		}
	}
	if op.Kind == compute.OpRescue {
		if err := json.Unmarshal(op.Arguments, &out.Rescue); err != nil {
			return out, err
		}
	}
	return out, nil
}

func (w *world) rebuild(_ context.Context, in record.RebuildInput) (none, error) {
	return none{}, w.fenced(in.OperationInput, func() {
		s := &w.row.server
		s.Image, s.Disks, s.TPM = in.Image, in.Disks, in.TPM
	})
}

func (w *world) claim(_ context.Context, in record.ClaimInput) (record.ClaimResult, error) {
	if !w.holds(in.OperationInput) {
		return record.ClaimResult{}, record.Superseded()
	}
	for _, h := range w.hosts {
		if !slices.Contains(in.Not, h) {
			w.claims[in.Operation], w.row.server.Host = h, &h
			return record.ClaimResult{Host: h, Name: "host-" + h.String()[:4]}, nil
		}
	}
	return record.ClaimResult{}, compute.Errorf(compute.NoHost, compute.NoValidHost)
}

func (w *world) saveSecrets(_ context.Context, in record.SecretsInput) (none, error) {
	return none{}, w.fenced(in.OperationInput, func() {
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
	})
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

func (w *world) open(_ context.Context, in record.OpenInput) (none, error) {
	if !in.Undo && !w.holds(in.OperationInput) {
		return none{}, record.Superseded()
	}
	for _, t := range in.Things {
		key := compute.Sighting{Kind: t.Kind, Place: t.Place, Name: t.Name}
		if _, known := w.ledger[key]; !known {
			t.State = compute.ThingIntended
			w.ledger[key] = t
		}
	}
	w.events[string(in.Operation)+" "+in.Event] = ""
	return none{}, nil
}

func (w *world) close(_ context.Context, in record.CloseInput) (none, error) {
	for _, t := range in.Present {
		key := compute.Sighting{Kind: t.Kind, Place: t.Place, Name: t.Name}
		if known, ok := w.ledger[key]; ok {
			known.State, known.Reference = compute.ThingPresent, t.Reference
			w.ledger[key] = known
		}
	}
	w.release(in.Released)
	w.wait(in.Waiting)
	w.events[string(in.Operation)+" "+in.Event] = "done: " + in.Error
	return none{}, nil
}

func (w *world) release(things []compute.Thing) {
	for _, t := range things {
		w.released = append(w.released, t)
		delete(w.ledger, compute.Sighting{Kind: t.Kind, Place: t.Place, Name: t.Name})
	}
}

// give makes things their owner's.
func (w *world) give(things []compute.Thing) {
	for _, t := range things {
		if !w.owned[t.Name] {
			w.owned[t.Name] = true
			w.given = append(w.given, t)
		}
	}
	w.release(things)
}

func (w *world) wait(things []compute.Thing) {
	for _, t := range things {
		t.State = compute.ThingWaiting
		w.ledger[compute.Sighting{Kind: t.Kind, Place: t.Place, Name: t.Name}] = t
	}
}

func (w *world) settle(_ context.Context, in record.SettleInput) (none, error) {
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
	s.VMState, s.TaskState, s.PowerState = in.VMState, compute.TaskNone, in.Power
	if in.Rescue != nil {
		*s = s.RescuedWith(*in.Rescue)
	}
	w.give(in.Given)
	w.row.current, w.row.fault, w.row.launched = "", in.Fault, w.row.launched || in.Launched
	w.end(in.Operation, in.State, in.Message)
	return none{}, nil
}

func (w *world) bury(_ context.Context, in durable.OperationInput) (none, error) {
	if w.operations[in.Operation].State.Settled() {
		return none{}, nil
	}
	if !w.holds(in) {
		return none{}, record.Superseded()
	}
	if slices.ContainsFunc(slices.Collect(maps.Values(w.ledger)), func(t compute.Thing) bool { return t.State != compute.ThingWaiting }) {
		return none{}, compute.Errorf(compute.Conflict, "things are left")
	}
	w.clearSecrets()
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
	for key, t := range w.ledger {
		if t.Operation == id && t.Kind == compute.ThingImage && t.State == compute.ThingIntended {
			t.State, t.Refused = compute.ThingWaiting, "forsaken"
			w.ledger[key] = t
		}
	}
	for key, result := range w.events {
		if result == "" {
			w.events[key] = "done"
		}
	}
}

func (w *world) book(_ context.Context, in record.LedgerInput) (record.Book, error) {
	out := record.Book{At: time.Now(), Objects: []compute.Access{{Project: project}}}
	if in.Since != nil {
		out.Gone = w.released
	}
	for _, h := range w.hosts {
		out.Hosts = append(out.Hosts, record.AuditHost{ID: h, Name: h.String()[:4], Up: true})
	}
	for _, t := range w.ledger {
		out.Things = append(out.Things, compute.LedgerEntry{Thing: t, ServerDeleted: w.row.deleted, Busy: w.row.current != ""})
	}
	return out, nil
}
