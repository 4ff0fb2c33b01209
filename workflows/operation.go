package workflows

import (
	"cmp"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/ledger"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// operation is the state that every operation's workflow has: what it was asked, its
// server, what it has made so far, and the undos of that.
type operation struct {
	durable.OperationInput
	asked  record.BeginResult
	began  int            // answers until then (durable.Answered)
	server compute.Server // as it was when the operation began
	saga   durable.Saga
	trail  trail
	// unwritten is what is still to be written about the last step. It is written in one
	// transaction with the opening of the next one (C7).
	unwritten record.AdvanceInput
	made      []compute.Thing // what it made, or may have made, and what is not removed yet
	waiting   []compute.Thing // what could not be removed and waits on the ledger
	// silent are hosts that did not take, or not end, what an undo or a clean-up asked for:
	// nothing more is tried there, for each try would take as long.
	silent []compute.HostID
	// lost are hosts that an operator says are down, or that are forgotten: no key waits for what is
	// there (TPM-33). Only a delete knows them; else the janitor sees to that.
	lost []compute.HostID
	// guestRan: it may have started the guest, which may have changed the state of the vTPM since.
	guestRan bool
	// away are the cloud services of which the same is true, by compute.Thing's Place.
	away []string
}

// body is what one operation does. run ends with a commit; when it fails, its steps
// are undone and the server is left as outcome says.
type body interface {
	run(workflow.Context) error
	outcome(workflow.Context, *compute.Error) record.SettleInput
}

// operate begins an operation, runs its body, and settles it either way. An
// operation that lost its server before it began ends quietly.
func operate(ctx workflow.Context, in durable.OperationInput, newBody func(*operation) body) error {
	o, err := begin(ctx, in)
	if o == nil {
		return err
	}
	b := newBody(o)
	if err := o.fits(ctx); err != nil {
		b = refused{o, err}
	}
	return o.carryOut(ctx, b)
}

// carryOut runs the body of an operation that has begun, and settles the operation either way.
func (o *operation) carryOut(ctx workflow.Context, b body) error {
	err := b.run(ctx)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = ctx.Err() // what a step says once it is cancelled is how it was cut off
	}
	o.undo(ctx)
	return o.fail(ctx, err, b.outcome(ctx, durable.FromTemporal(err)))
}

func begin(ctx workflow.Context, in durable.OperationInput) (*operation, error) {
	b, err := record.Begin.Run(ctx, in)
	if err != nil {
		// Unsettled, it would be started again and again by the janitor.
		o := &operation{OperationInput: in}
		return nil, o.fail(ctx, err, record.SettleInput{VMState: compute.VMError, Fault: faultOf(ctx, durable.FromTemporal(err))})
	}
	if b.Superseded {
		return nil, nil
	}
	o := &operation{OperationInput: in, asked: b, server: b.Server, began: durable.Answered(ctx)}
	o.describe(ctx)
	return o, nil
}

// fits fails where the server's record does not go through Temporal (K15), and in a workflow of another kind than the operation's. All operations on a server
// have one workflow id, so that the input of each starts the others, which strongroom does
// not do (C1).
func (o *operation) fits(ctx workflow.Context) error {
	if o.asked.TooLarge != "" {
		return compute.Errorf(compute.Invalid, "%s", o.asked.TooLarge)
	}
	if is := workflow.GetInfo(ctx).WorkflowType.Name; is != durable.WorkflowType(o.asked.Kind) {
		return compute.Errorf(compute.Forbidden, "operation %s is a %s and no %s", o.Operation, o.asked.Kind, is)
	}
	return nil
}

// describe lets the operation be found by its server's name, project and host.
func (o *operation) describe(ctx workflow.Context) {
	var hosts []string
	if o.asked.Host != nil {
		hosts = append(hosts, o.asked.Host.Name)
	}
	if err := durable.DescribeServer(ctx, o.server.Name, o.server.ProjectID, hosts...); err != nil {
		workflow.GetLogger(ctx).Warn("the server is not shown", "error", err)
	}
}

// undo undoes the steps taken so far.
func (o *operation) undo(ctx workflow.Context) {
	o.trail.undoing(ctx)
	o.unwritten = record.AdvanceInput{Close: o.unwritten.Close} // the rest is undone
	o.saga.Unwind(ctx)
}

// advance writes what the last step left unwritten and what the next one needs, in one
// transaction.
func (o *operation) advance(ctx workflow.Context, open *record.Open, task compute.TaskState) (record.AdvanceResult, error) {
	in := o.unwritten
	in.OperationInput, in.Open = o.OperationInput, open
	if task != compute.TaskNone {
		in.Task = &task
	}
	got, err := record.Advance.Run(ctx, in)
	if err == nil || record.IsSuperseded(err) { // how the last step ended is written either way
		o.unwritten = record.AdvanceInput{}
	}
	return got, err
}

// closing gives the end of the last step, for whoever writes next.
func (o *operation) closing() *record.Close {
	end := o.unwritten.Close
	o.unwritten.Close = nil
	return end
}

// commit settles the operation as succeeded. After it nothing is undone.
func (o *operation) commit(ctx workflow.Context, end record.SettleInput) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	end.OperationInput, end.State, end.Close, end.GuestRan = o.OperationInput, compute.OperationSucceeded, o.closing(), o.guestRan
	if err := recordUntilAnswered(ctx, record.Settle, end); err != nil {
		return err
	}
	o.saga.Commit()
	return nil
}

// endBegin ends the workflow task in which the operation began, if no other one is under way yet. A task whose worker dies is tried again from its
// beginning: record.Begin would give the server as it is by then, with what the operation has decided meanwhile (N2).
func (o *operation) endBegin(ctx workflow.Context) error {
	if durable.Answered(ctx) > o.began {
		return nil
	}
	return workflow.Sleep(ctx, time.Millisecond)
}

// passPointOfNoReturn records the decision of an operation that still has to remove things
// before it ends: after it nothing is undone, and the returned context is never cancelled.
// A cancel does not stop the attempts to record it either, since an attempt without an
// answer may have been written. in is told the end of the last step, once it is certain that
// the decision is asked for: an undo writes it otherwise.
func passPointOfNoReturn[In any](
	ctx workflow.Context, o *operation, decide durable.Activity[In, durable.None], in func(last *record.Close) In,
) (workflow.Context, error) {
	if err := o.endBegin(ctx); err != nil {
		return ctx, err
	}
	if err := ctx.Err(); err != nil {
		return ctx, err
	}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	if err := recordUntilAnswered(ctx, decide, in(o.closing())); err != nil {
		return ctx, err
	}
	o.saga.Commit()
	return ctx, nil
}

// recordUntilAnswered retries a write until it has succeeded or another operation has taken
// over the server. An attempt without an answer may have been written: to undo then would
// remove what is on record. Only a cancel of ctx ends the retries.
func recordUntilAnswered[In any](ctx workflow.Context, write durable.Activity[In, durable.None], in In) error {
	var lost error
	err := durable.RetryForever(ctx, func(ctx workflow.Context) error {
		err := write.Do(ctx, in)
		if record.IsSuperseded(err) {
			lost = err
			return nil
		}
		return err
	})
	return cmp.Or(lost, err)
}

// things reads what the server has, after the point of no return: until the record answers.
func (o *operation) things(ctx workflow.Context) (has []compute.Thing, err error) {
	err = durable.RetryForever(ctx, func(ctx workflow.Context) (err error) {
		has, err = ledger.Things.Run(ctx, compute.ServerOwner(o.Server))
		return err
	})
	return has, err
}

// fail settles an operation that was undone. The workflow's own error is the
// original one, so that the operation's row in Temporal shows it.
func (o *operation) fail(ctx workflow.Context, cause error, end record.SettleInput) error {
	end.OperationInput, end.Close, end.GuestRan = o.OperationInput, o.closing(), o.guestRan
	end.State, end.Message = compute.OperationFailed, cmp.Or(end.Message, compute.Public(durable.FromTemporal(cause)))
	if temporal.IsCanceledError(cause) || record.IsSuperseded(cause) {
		end.State, end.Message = compute.OperationCancelled, "cancelled"
	} else if end.VMState == compute.VMError && end.Fault == nil { // it was in ERROR before: the fault is the newest failure, as in Nova
		end.Fault = faultOf(ctx, durable.FromTemporal(cause))
	}
	if err := recordUntilAnswered(ctx, record.Settle, end); err != nil {
		workflow.GetLogger(ctx).Error("left to the janitor", "operation", o.Operation, "error", err)
	}
	return cause
}

// host gives the host that the server is on.
func (o *operation) host() (durable.Host, error) {
	if o.asked.Host == nil {
		return durable.Host{}, compute.Errorf(compute.Conflict, "server %s is on no host", o.Server)
	}
	return *o.asked.Host, nil
}

// thing names something that is about to be made for what the operation works on.
func (o *operation) thing(kind compute.ThingKind, place, name string) compute.Thing {
	op := compute.Operation{ID: o.Operation, ServerID: o.Server, Subject: o.Subject, Credential: o.asked.Credential}
	return op.Thing(kind, place, name)
}

// onHost is thing for what is on a host.
func (o *operation) onHost(kind compute.ThingKind, host durable.Host, name string) compute.Thing {
	t := o.thing(kind, host.ID.String(), name)
	t.HostName = host.Name
	return t
}

// fellSilent notes that a host did not answer.
func (o *operation) fellSilent(host compute.HostID) {
	if !o.isSilent(host) {
		o.silent = append(o.silent, host)
	}
}

// stayedAway notes that a thing could not be removed in time, where it is.
func (o *operation) stayedAway(t compute.Thing) {
	if host, onHost := t.Host(); onHost {
		o.fellSilent(host)
	} else if !slices.Contains(o.away, t.Place) {
		o.away = append(o.away, t.Place)
	}
}

func (o *operation) isSilent(host compute.HostID) bool { return slices.Contains(o.silent, host) }

// file names a file in the server's folder on a host.
func (o *operation) file(host durable.Host, name string) compute.Thing {
	return o.onHost(compute.ThingDiskFile, host, o.Server.String()+"/"+name)
}

// unchanged settles the server as it was when the operation began.
func (o *operation) unchanged() record.SettleInput {
	return record.SettleInput{VMState: o.server.VMState, Power: o.server.PowerState}
}

// keys are the credentials for the server's keys in this operation.
func (o *operation) keys() compute.Keyring { return o.server.Keyring(o.asked.Credential) }

// faultOf is the fault that the API shows for an error. The trail and the logs have the whole
// error.
func faultOf(ctx workflow.Context, err *compute.Error) *compute.Fault {
	code := map[compute.Kind]int{compute.Invalid: 400, compute.Forbidden: 403, compute.NotFound: 404, compute.Conflict: 409, compute.Superseded: 409}[err.Kind]
	if code == 0 {
		code = 500
	}
	return &compute.Fault{Code: code, Message: compute.Public(err), Created: workflow.Now(ctx).UTC()}
}
