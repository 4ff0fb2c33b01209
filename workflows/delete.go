package workflows

import (
	"strings"

	"github.com/google/uuid"
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	opact "strongroom/activities/operation"
	"strongroom/activities/record"
	"strongroom/activities/tpm"
	"strongroom/compute"
	"strongroom/durable"
)

// Delete removes a server and everything that it has in the world. It always
// wins: a running operation is cancelled and undone first. It is told by the
// ledger, so it clears what any operation left, and it does not end before all
// of it was seen to be gone. Keys go last, after the disks (EE-27, TPM-31).
func Delete(ctx workflow.Context, in durable.OperationInput) error {
	o, err := begin(ctx, in)
	if o == nil {
		return err
	}
	// Nothing cancels a delete: half a server helps nobody.
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	var end error
	_ = durable.Persist(ctx, func(ctx workflow.Context) error {
		end = (&deletion{o}).run(ctx)
		switch {
		case end == nil:
		case record.IsSuperseded(end):
			// Another delete has the server; what is gone already stays gone.
			end = o.fail(ctx, end, record.SettleInput{})
		case workflow.GetInfo(ctx).GetContinueAsNewSuggested():
			// The ledger tells all, so a history that grew long is no loss.
			end = workflow.NewContinueAsNewError(ctx, durable.WorkflowType(compute.OpDelete), in)
		default:
			return end
		}
		return nil
	})
	return end
}

type deletion struct{ *operation }

// run tears down what it can, in order. It fails when something is left, and
// may run again.
func (d *deletion) run(ctx workflow.Context) error {
	if err := d.cancelRunning(ctx); err != nil {
		return err
	}
	var things []compute.Thing
	if err := recorded(ctx, record.Things, d.Server, &things); err != nil {
		return err
	}
	for _, kind := range compute.TeardownOrder {
		if err := d.tearDown(ctx, kind, things); err != nil {
			return err
		}
	}
	return recorded(ctx, record.Bury, d.OperationInput, nil)
}

func (d *deletion) cancelRunning(ctx workflow.Context) error {
	control := durable.ControlUndo(ctx)
	return workflow.ExecuteActivity(control, opact.CancelRunning, d.Server).Get(ctx, nil)
}

// tearDown removes the server's things of one kind, all at once. What could not
// be removed yet does not hold up the others of its kind, but it does hold up
// the kinds that come after.
func (d *deletion) tearDown(ctx workflow.Context, kind compute.ThingKind, things []compute.Thing) error {
	var mine []compute.Thing
	for _, t := range things {
		if t.Kind == kind {
			mine = append(mine, t)
		}
	}
	if len(mine) == 0 {
		return nil
	}
	event := "delete_" + string(kind)
	s := step{}
	if host, ok := hostOf(mine[0]); ok {
		s.host = &host
	}
	if err := d.open(ctx, event, s); err != nil {
		return err
	}
	end := record.CloseInput{Event: event}
	failure := d.remove(ctx, mine, &end)
	if err := d.close(ctx, end); err != nil {
		return err
	}
	return failure
}

// remove tries every thing once and notes in end what is gone and what went
// wrong. That nobody's credential may remove a thing is no failure: it waits for
// one that may.
func (d *deletion) remove(ctx workflow.Context, things []compute.Thing, end *record.CloseInput) error {
	calls := make([]workflow.Future, len(things))
	for i, t := range things {
		calls[i] = d.removal(ctx, t)
	}
	var failure error
	for i, c := range calls {
		switch gone, err := d.removed(ctx, things[i], c); {
		case err != nil:
			failure, end.Error = err, durable.FromTemporal(err).Message
		case gone.Refused != "":
			end.Waiting = append(end.Waiting, gone)
		default:
			end.Released = append(end.Released, gone)
		}
	}
	return failure
}

// removal starts the activity that removes a thing.
func (d *deletion) removal(ctx workflow.Context, t compute.Thing) workflow.Future {
	host, _ := hostOf(t)
	onHost := durable.HostUndo(ctx, host)
	switch t.Kind {
	case compute.ThingDomain:
		return workflow.ExecuteActivity(onHost, domain.Destroy, domain.DestroyInput{Server: d.Server})
	case compute.ThingHypervisorSecret:
		id, _ := uuid.Parse(t.Name)
		in := domain.ForgetSecretsInput{Server: d.Server, Secrets: []compute.SecretID{{UUID: id}}}
		return workflow.ExecuteActivity(onHost, domain.ForgetSecrets, in)
	case compute.ThingDiskFile:
		_, file, _ := strings.Cut(t.Name, "/")
		if op, ok := compute.ExportedBy(file); ok {
			return workflow.ExecuteActivity(onHost, disk.DeleteExport, disk.DeleteExportInput{Server: d.Server, Operation: op})
		}
		return workflow.ExecuteActivity(onHost, disk.Delete, disk.DeleteInput{Server: d.Server, File: file})
	case compute.ThingCachedImage:
		return workflow.ExecuteActivity(onHost, disk.ReleaseImage, disk.ReleaseImageInput{Use: t.Name})
	case compute.ThingTPMState:
		return workflow.ExecuteActivity(onHost, tpm.Delete, tpm.DeleteInput{Server: d.Server})
	default:
		return d.cloudRemoval(durable.CloudUndo(ctx), t)
	}
}

// hostOf gives the host on which a thing is, if it is on one.
func hostOf(t compute.Thing) (compute.HostID, bool) {
	id, err := uuid.Parse(t.Place)
	return compute.HostID{UUID: id}, err == nil
}
