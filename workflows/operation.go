package workflows

import (
	"cmp"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// operation is what every workflow of this package shares: who asked, which
// server, what was done so far and how to undo it.
type operation struct {
	durable.OperationInput
	asked    record.BeginResult
	server   compute.Server
	hostName string
	saga     durable.Saga
	waits    bool // a key of the server waits for a credential
}

// story is one operation told in steps. run ends with a commit; when it fails,
// its steps are undone and the server is left as outcome says.
type story interface {
	run(workflow.Context) error
	outcome(*compute.Error) record.SettleInput
}

// operate lets an operation in, tells its story, and settles it either way. An
// operation that lost its server before it began ends quietly.
func operate(ctx workflow.Context, in durable.OperationInput, tell func(*operation) story) error {
	o, err := begin(ctx, in)
	if o == nil {
		return err
	}
	s := tell(o)
	if err = s.run(ctx); err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = ctx.Err() // what a step says once it is cancelled is how it was cut off
	}
	o.saga.Unwind(ctx)
	return o.fail(ctx, err, s.outcome(durable.FromTemporal(err)))
}

func begin(ctx workflow.Context, in durable.OperationInput) (*operation, error) {
	var b record.BeginResult
	if err := recorded(ctx, record.Begin, in, &b); err != nil {
		// Unsettled, the sweeper would start it again and again.
		o := &operation{OperationInput: in}
		return nil, o.fail(ctx, err, record.SettleInput{VMState: compute.VMError, Fault: faultOf(ctx, durable.FromTemporal(err))})
	}
	if b.Superseded {
		return nil, nil
	}
	return &operation{OperationInput: in, asked: b, server: b.Server, hostName: b.HostName}, nil
}

// recorded runs a local activity on the record. A cancel does not reach it: a
// write that was cut off might still happen, after the undo that answers it.
func recorded(ctx workflow.Context, name string, in, out any) error {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	return workflow.ExecuteLocalActivity(durable.Record(ctx), name, in).Get(ctx, out)
}

// commit is the one point from which the operation's effect stands.
func (o *operation) commit(ctx workflow.Context, end record.SettleInput) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	end.OperationInput, end.State = o.OperationInput, compute.OperationSucceeded
	if err := o.settle(ctx, end); err != nil {
		return err
	}
	o.saga.Commit()
	return nil
}

// decide is the point from which an operation's effect stands where it must still
// clear up before it lets its server go. Nothing is undone from here, and no cancel
// reaches the context that comes back. name is the activity that puts it on record;
// nor does a cancel end the asking for it, since it may be there already.
func (o *operation) decide(ctx workflow.Context, name string, in any) (workflow.Context, error) {
	if err := ctx.Err(); err != nil {
		return ctx, err
	}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	if err := insist(ctx, name, in); err != nil {
		return ctx, err
	}
	o.saga.Commit()
	return ctx, nil
}

func (o *operation) settle(ctx workflow.Context, end record.SettleInput) error {
	return insist(ctx, record.Settle, end)
}

// insist asks until the record says that something is written or the server lost:
// an answer that got lost may have been a yes, and to undo on a guess would take
// away what is on record. Only a cancel of ctx ends the asking.
func insist(ctx workflow.Context, name string, in any) error {
	var lost error
	err := durable.Persist(ctx, func(ctx workflow.Context) error {
		err := recorded(ctx, name, in, nil)
		if record.IsSuperseded(err) {
			lost = err
			return nil
		}
		return err
	})
	return cmp.Or(lost, err)
}

// fail settles an operation that was undone. The workflow's own error is the
// original one, so that the operation's row in Temporal shows it.
func (o *operation) fail(ctx workflow.Context, cause error, end record.SettleInput) error {
	end.OperationInput = o.OperationInput
	end.State, end.Message = compute.OperationFailed, durable.FromTemporal(cause).Message
	if temporal.IsCanceledError(cause) || record.IsSuperseded(cause) {
		end.State, end.Message = compute.OperationCancelled, "cancelled"
	}
	if err := o.settle(ctx, end); err != nil {
		workflow.GetLogger(ctx).Error("left to the sweeper", "operation", o.Operation, "error", err)
	}
	return cause
}

// host is where a server that was active once is.
func (o *operation) host() (compute.HostID, error) {
	if o.server.Host == nil {
		return compute.HostID{}, compute.Errorf(compute.Conflict, "server %s is on no host", o.Server)
	}
	return *o.server.Host, nil
}

func (o *operation) task(ctx workflow.Context, task compute.TaskState) error {
	return recorded(ctx, record.Task, record.TaskInput{OperationInput: o.OperationInput, Task: task}, nil)
}

// thing names something on the operation's server that is about to be made.
func (o *operation) thing(kind compute.ThingKind, place, name string) compute.Thing {
	op := compute.Operation{ID: o.Operation, ServerID: o.Server, Credential: o.asked.Credential}
	return op.Thing(kind, place, name)
}

// file names a file in the server's folder on a host.
func (o *operation) file(host compute.HostID, name string) compute.Thing {
	return o.thing(compute.ThingDiskFile, host.String(), o.Server.String()+"/"+name)
}

// unchanged settles the server as it was when the operation began.
func (o *operation) unchanged() record.SettleInput {
	return record.SettleInput{VMState: o.server.VMState, Power: o.server.PowerState}
}

// keys are the credentials for the server's keys in this operation.
func (o *operation) keys() compute.Keyring { return o.server.Keyring(o.asked.Credential) }

// faultOf is the fault that the API shows for an error.
func faultOf(ctx workflow.Context, err *compute.Error) *compute.Fault {
	code := map[compute.Kind]int{compute.Invalid: 400, compute.Forbidden: 403, compute.NotFound: 404, compute.Conflict: 409}[err.Kind]
	if code == 0 {
		code = 500
	}
	return &compute.Fault{Code: code, Message: err.Message, Created: workflow.Now(ctx).UTC()}
}
