package workflows

import (
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/domain"
	"strongroom/activities/key"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// Rebuild makes a server anew of an image, on its host: new disks with secrets of
// their own (EE-34), its vTPM kept, made or dropped (TPM-29). The new disks are made
// beside the old ones, which stay until the new domain runs. Then one transaction
// decides: whatever ends it before leaves the server as it was, and after it what
// the server was made of goes, keys last.
func Rebuild(ctx workflow.Context, in durable.OperationInput) error {
	return operate(ctx, in, func(o *operation) story {
		was := o.server
		return &rebuild{build: build{operation: o, was: &was}, in: *o.asked.Rebuild}
	})
}

type rebuild struct {
	build
	in       compute.Rebuild
	restarts int  // of the old domain that failed
	down     bool // the old domain could not be started again
}

func (r *rebuild) run(ctx workflow.Context) error {
	if err := r.plan(); err != nil {
		return err
	}
	for _, next := range []func(workflow.Context) error{
		r.look, r.fetch, r.delegate, r.makeSecrets, r.rebuildDisks, r.halt, r.start,
	} {
		if err := next(ctx); err != nil {
			return err
		}
	}
	ctx, err := r.decide(ctx, record.Rebuild, record.RebuildInput{
		OperationInput: r.OperationInput, Image: r.server.Image, Disks: r.server.Disks, TPM: r.server.TPM,
	})
	if err != nil {
		return err
	}
	return r.end(ctx)
}

// plan asks the rules once more, by what is on record now.
func (r *rebuild) plan() (err error) {
	if r.host, err = r.operation.host(); err != nil {
		return err
	}
	if r.server, err = r.was.RebuiltAs(r.Operation, r.in); err != nil {
		return err
	}
	return r.was.CheckRebuilder(r.server, r.asked.Credential)
}

// outcome leaves the server as it was.
func (r *rebuild) outcome(*compute.Error) record.SettleInput {
	end := record.SettleInput{VMState: r.was.VMState, Power: r.was.PowerState}
	if r.down {
		end.Power = compute.PowerShutdown
		if end.VMState == compute.VMActive {
			end.VMState = compute.VMStopped
		}
	}
	return end
}

// runs reports whether the server is to run when the rebuild is undone.
func (r *rebuild) runs() bool {
	return r.was.VMState == compute.VMActive || r.was.PowerState == compute.PowerRunning
}

// look reads the keys that the server will need to come up again, as it was or as
// it is to be: who may not read them changes nothing (TPM-14, EE-30).
func (r *rebuild) look(ctx workflow.Context) error {
	needs := r.server.Secrets()
	if r.runs() {
		needs = r.was.Secrets() // those that stay are among them
	}
	if len(needs) == 0 {
		return nil
	}
	return r.take(ctx, step{event: "check_secrets", do: func(ctx workflow.Context) error {
		cloud, ring := durable.Cloud(ctx), r.was.Keyring(r.asked.Credential)
		calls := make([]workflow.Future, len(needs))
		for i, id := range needs {
			in := key.LookInput{Credential: ring.Disks, Secret: id}
			if r.was.TPM != nil && r.was.TPM.Secret != nil && *r.was.TPM.Secret == id {
				in.Credential = ring.TPM
			}
			calls[i] = workflow.ExecuteActivity(cloud, key.Look, in)
		}
		return all(ctx, calls)
	}})
}

func (r *rebuild) fetch(ctx workflow.Context) error {
	if err := r.task(ctx, compute.TaskRebuildDevices); err != nil {
		return err
	}
	cached, err := r.cacheImage(r.host, durable.HostBulk)
	if err != nil {
		return err
	}
	return r.take(ctx, cached.step)
}

func (r *rebuild) rebuildDisks(ctx workflow.Context) error {
	return r.makeDisks(ctx, compute.TaskRebuildSpawning)
}

// halt shuts the old domain down, when everything is ready for the new one.
func (r *rebuild) halt(ctx workflow.Context) error {
	down := r.shutdown(r.host, shutdownGrace)
	if r.runs() {
		down.undo, down.lean = r.restart, true // after the new domain is gone
	}
	return r.take(ctx, down)
}

// mostRestarts is how often the old domain is started before it is given up: in
// some ten minutes.
const mostRestarts = 8

// restart is the undo of halt. A server that nobody's credential starts any more,
// or that does not start, is left stopped, for its owner to see to it. One that
// was lost is another operation's to start.
func (r *rebuild) restart(ctx workflow.Context) error {
	if err := r.task(ctx, compute.TaskRebuilding); err != nil {
		return lostIsFine(err)
	}
	// A guest that was told to shut down does so, now or in a moment.
	stop := domain.StopInput{Server: r.Server, GraceSeconds: shutdownGrace}
	if err := workflow.ExecuteActivity(durable.HostUndo(ctx, r.host), domain.Stop, stop).Get(ctx, nil); err != nil {
		return err
	}
	power := compute.PowerNone
	boot := r.bootAs(*r.was, r.host, &power)
	boot.event, boot.undo = "restart_domain", nil
	start, failure := boot.do, error(nil)
	boot.do = func(ctx workflow.Context) error { failure = start(ctx); return failure }
	if err := r.take(ctx, boot); failure == nil {
		return lostIsFine(err)
	}
	if err := r.forgetSecrets(ctx, r.host, *r.was); err != nil {
		return err
	}
	why := durable.FromTemporal(failure)
	if err := r.close(ctx, record.CloseInput{Event: boot.event, Error: why.Message, Released: boot.releases}); err != nil {
		return err
	}
	if r.restarts++; why.Kind == compute.Forbidden || r.restarts == mostRestarts {
		r.down = true
		return nil
	}
	return failure
}

func lostIsFine(err error) error {
	if record.IsSuperseded(err) {
		return nil
	}
	return err
}

// end clears up after the decision and lets the server go: stopped, if it was.
func (r *rebuild) end(ctx workflow.Context) error {
	end := record.SettleInput{VMState: compute.VMActive, Power: r.power, Launched: true}
	if r.was.VMState == compute.VMStopped {
		end = stopped()
		halt := r.shutdown(r.host, shutdownGrace)
		halt.event = "stop_new_domain"
		if err := r.finish(ctx, halt); err != nil {
			return err
		}
	}
	if err := r.discard(ctx, func(things []compute.Thing) []compute.Thing { return r.was.Discarded(r.server, things) }); err != nil {
		return err
	}
	return r.commit(ctx, end)
}
