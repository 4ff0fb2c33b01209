package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// Rebuild rebuilds a server from an image, on its host: new disks with secrets of
// their own (EE-34), its vTPM kept, made or dropped (TPM-29). The new disks are made
// beside the old ones, which stay until the new domain runs. Then one transaction is the
// point of no return: an operation that ends before it leaves the server as it was; after
// it the old disks, TPM state and keys are removed, keys last.
func Rebuild(ctx workflow.Context, in durable.OperationInput) error {
	return onMachineWith(ctx, in, compute.Rebuild, func(m *machine, in compute.RebuildArguments) body {
		return &rebuild{in: in, switchover: switchover{operation: m.operation, from: m}}
	})
}

type rebuild struct {
	switchover
	in compute.RebuildArguments
}

func (r *rebuild) run(ctx workflow.Context) error {
	if err := r.plan(); err != nil {
		return err
	}
	for _, next := range []func(workflow.Context) error{
		r.delegate, r.checkSecrets, r.keepPorts, r.fetch, r.makeSecrets, r.rebuildDisks, r.halt, r.findTPM, r.start,
	} {
		if err := next(ctx); err != nil {
			return err
		}
	}
	ctx, err := passPointOfNoReturn(ctx, r.operation, record.Rebuild, func(last *record.Close) record.RebuildInput {
		return record.RebuildInput{
			OperationInput: r.OperationInput, Image: r.to.server.Image, Disks: r.to.server.Disks, TPM: r.to.server.TPM, Close: last,
			TPMLost: r.tpmLost, TPMRestored: r.tpmLost && r.to.server.Backup() != nil,
		}
	})
	if err != nil {
		return err
	}
	return r.end(ctx)
}

// plan applies the rules again, to the record of now: the api applied them to an earlier one.
func (r *rebuild) plan() error {
	was := r.from.server
	server, err := was.RebuiltAs(r.Operation, r.in, r.asked.HostFormat)
	if err != nil {
		return err
	}
	r.to = &machine{operation: r.operation, server: server, host: r.from.host}
	return was.CheckRebuilder(server, r.asked.Credential)
}

// checkSecrets reads the keys that the server will need to come up again, as it was or
// as it is to be: who may not read them changes nothing (TPM-14, EE-30).
func (r *rebuild) checkSecrets(ctx workflow.Context) error {
	was := r.from.server
	needs := was.OpeningSecrets() // those that stay are among them
	if r.ran() || len(needs) == 0 {
		return r.checkReadable(ctx, needs, was)
	}
	// A stopped server needs those that stay alone. The others are replaced: one that is gone is
	// no loss any more, but one that may not be read keeps whoever asks from the disk, too (EE-38).
	return r.take(ctx, step{event: "check_secrets", do: func(ctx workflow.Context) error {
		for _, id := range needs {
			stays := slices.Contains(r.to.server.Secrets(), id)
			if err := r.tryReading(ctx, []compute.SecretID{id}, was); err != nil && (stays || !isNotFound(err)) {
				return err
			}
		}
		return nil
	}})
}

func (r *rebuild) fetch(ctx workflow.Context) error {
	root, _ := r.to.server.RootDisk()
	cached, err := r.cacheImage(root, r.to.server.Image, r.to.host, hereOnly)
	if err != nil {
		return err
	}
	cached.task = compute.TaskRebuildDevices
	return r.take(ctx, cached)
}

func (r *rebuild) rebuildDisks(ctx workflow.Context) error {
	return r.makeDisks(ctx, compute.TaskRebuildSpawning)
}

// findTPM looks for the state of a vTPM that is kept, once the guest is off. Where the host has lost it, or has another one than was backed up when the
// server was stopped, the vTPM comes back as its backup has it, or is a new one: no start takes such a server, and a rebuild is what its user can do (K20).
// An undo puts back what there was.
func (r *rebuild) findTPM(ctx workflow.Context) error {
	if !r.from.server.HasTPMState() || r.to.server.TPM == nil {
		return nil
	}
	another := false
	if err := r.from.lookForTPM(ctx, func(lost, other bool) error {
		r.tpmLost, another = lost, other
		return nil
	}); err != nil || !r.tpmLost && !another {
		return err
	}
	was := r.to.server
	if err := r.checkBackup(ctx); err != nil {
		return err
	}
	if another && r.to.server.Backup() == nil { // it may be the server's own, and is all that there is
		r.to.server = was
		return nil
	}
	r.tpmLost = true
	if r.to.server.Backup() == nil {
		r.to.server = r.to.server.WithTPMLost().WithNewTPM(false) // on the ledger the state stays the old machine's
		return r.exchangeTPM(ctx, "")
	}
	if err := r.keepTPM(ctx); err != nil {
		return err
	}
	return r.restoreTPM(ctx)
}

// end stops the server again if it was stopped, removes what it does not use any more, and
// settles the operation.
func (r *rebuild) end(ctx workflow.Context) error {
	end := record.SettleInput{VMState: compute.VMActive, Power: r.to.power, Launched: true}
	if r.from.server.VMState == compute.VMStopped {
		end = stopped()
		halt := r.to.shutdown(shutdownGrace)
		halt.event = "stop_new_domain"
		down := func(ctx workflow.Context, hostDown bool, _ *record.Close) error {
			if hostDown {
				return compute.Errorf(compute.Unavailable, reasonHostDown)
			}
			return r.tryUndo(ctx, halt.host, halt.do)
		}
		if err := r.runAfterCommit(durable.WithUndo(ctx), halt, down); err != nil {
			// It still runs, or its host does not answer: the host reports its power state.
			end = record.SettleInput{VMState: compute.VMActive, Power: r.to.power, Launched: true}
		}
	}
	if r.tpmLost {
		if err := r.removeKept(ctx); err != nil {
			return err
		}
		told, err := r.tellOfLostTPM(ctx, "was not on its host any more")
		if err != nil {
			return err
		}
		end.Message = told
	}
	if err := r.removeOld(ctx); err != nil {
		return err
	}
	return r.commit(ctx, end)
}
