package workflows

import (
	"go.temporal.io/sdk/workflow"

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
		return &rebuild{build: build{operation: o, was: &was}, in: *o.asked.Rebuild, old: switchover{operation: o, was: was}}
	})
}

type rebuild struct {
	build
	in  compute.Rebuild
	old switchover // from the old domain
}

func (r *rebuild) run(ctx workflow.Context) error {
	if err := r.plan(); err != nil {
		return err
	}
	for _, next := range []func(workflow.Context) error{
		r.look, r.fetch, r.delegate, r.makeSecrets, r.rebuildDisks, r.old.halt, r.start,
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
	r.old.host = r.host
	if r.server, err = r.was.RebuiltAs(r.Operation, r.in); err != nil {
		return err
	}
	return r.was.CheckRebuilder(r.server, r.asked.Credential)
}

func (r *rebuild) outcome(*compute.Error) record.SettleInput { return r.old.outcome() }

// look reads the keys that the server will need to come up again, as it was or as
// it is to be: who may not read them changes nothing (TPM-14, EE-30).
func (r *rebuild) look(ctx workflow.Context) error {
	needs := r.server.Secrets()
	if r.old.ran() {
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

// end clears up after the decision and lets the server go: stopped, if it was.
func (r *rebuild) end(ctx workflow.Context) error {
	end := record.SettleInput{VMState: compute.VMActive, Power: r.power, Launched: true}
	if r.was.VMState == compute.VMStopped {
		end = stopped()
		halt := r.shutdown(r.host, shutdownGrace)
		halt.event = "stop_new_domain"
		if err := r.onward(ctx, halt, func(ctx workflow.Context, _ *record.CloseInput) error { return halt.do(ctx) }); err != nil {
			return err
		}
	}
	if err := r.discard(ctx, func(things []compute.Thing) []compute.Thing { return r.was.Discarded(r.server, things) }); err != nil {
		return err
	}
	return r.commit(ctx, end)
}
