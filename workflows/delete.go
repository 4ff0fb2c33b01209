package workflows

import (
	"strings"

	"github.com/google/uuid"
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/activities/key"
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
	return (&deletion{o}).run(ctx)
}

type deletion struct{ *operation }

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

// tearDown removes the server's things of one kind and keeps at it until none
// is left; what could not be removed yet does not hold up the others.
func (d *deletion) tearDown(ctx workflow.Context, kind compute.ThingKind, things []compute.Thing) error {
	var pending []compute.Thing
	for _, t := range things {
		if t.Kind == kind {
			pending = append(pending, t)
		}
	}
	if len(pending) == 0 {
		return nil
	}
	event := "delete_" + string(kind)
	s := step{}
	if host, ok := hostOf(pending[0]); ok {
		s.host = &host
	}
	if err := d.open(ctx, event, s); err != nil {
		return err
	}
	err := durable.Persist(ctx, func(ctx workflow.Context) error {
		var failure error
		pending, failure = d.remove(ctx, pending)
		return failure
	})
	if err != nil {
		return err
	}
	return d.close(ctx, record.CloseInput{Event: event})
}

// remove tries every thing once, all at once, and gives those that are left.
func (d *deletion) remove(ctx workflow.Context, things []compute.Thing) ([]compute.Thing, error) {
	calls := make([]workflow.Future, len(things))
	for i, t := range things {
		calls[i] = d.removal(ctx, t)
	}
	var left, gone []compute.Thing
	var failure error
	for i, c := range calls {
		if err := c.Get(ctx, nil); err != nil {
			left, failure = append(left, things[i]), err
			continue
		}
		gone = append(gone, things[i])
	}
	if err := recorded(ctx, record.Release, gone, nil); err != nil {
		return left, err
	}
	return left, failure
}

// removal starts the activity that removes a thing. The key manager is asked
// with the deleter's credential.
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
		return workflow.ExecuteActivity(onHost, disk.Delete, disk.DeleteInput{Server: d.Server, File: file})
	case compute.ThingTPMState:
		return workflow.ExecuteActivity(onHost, tpm.Delete, tpm.DeleteInput{Server: d.Server})
	default:
		in := key.DeleteInput{Credential: d.asked.Credential, Name: t.Name}
		return workflow.ExecuteActivity(durable.CloudUndo(ctx), key.Delete, in)
	}
}

// hostOf gives the host on which a thing is, if it is on one.
func hostOf(t compute.Thing) (compute.HostID, bool) {
	id, err := uuid.Parse(t.Place)
	return compute.HostID{UUID: id}, err == nil
}
