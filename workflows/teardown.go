package workflows

import (
	"strings"

	"github.com/google/uuid"
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/activities/record"
	"strongroom/activities/tpm"
	"strongroom/compute"
	"strongroom/durable"
)

// tearDown removes the server's things of one kind, all at once. What could not
// be removed yet does not hold up the others of its kind, but it does hold up
// the kinds that come after. A cached image that waits for its host is left to Reap.
// lost says that it goes on when the server was lost to another operation.
func (o *operation) tearDown(ctx workflow.Context, kind compute.ThingKind, things []compute.Thing, lost bool) error {
	var mine []compute.Thing
	for _, t := range things {
		if t.Kind == kind && !(t.State == compute.ThingWaiting && kind == compute.ThingCachedImage) {
			mine = append(mine, t)
		}
	}
	if len(mine) == 0 {
		return nil
	}
	event := "delete_" + string(kind)
	s := step{}
	if host, ok := mine[0].Host(); ok {
		s.host = &host
	}
	if err := recorded(ctx, record.Open, o.opening(event, s, lost), nil); err != nil {
		return err
	}
	end := record.CloseInput{Event: event}
	failure := o.remove(ctx, mine, &end)
	if err := o.close(ctx, end); err != nil {
		return err
	}
	return failure
}

// remove tries every thing once and notes in end what is gone and what went
// wrong. That nobody's credential may remove a thing is no failure: it waits for
// one that may.
func (o *operation) remove(ctx workflow.Context, things []compute.Thing, end *record.CloseInput) error {
	calls := make([]workflow.Future, len(things))
	for i, t := range things {
		calls[i] = o.removal(ctx, t)
	}
	var failure error
	for i, c := range calls {
		switch gone, err := o.removed(ctx, things[i], c); {
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
func (o *operation) removal(ctx workflow.Context, t compute.Thing) workflow.Future {
	if host, ok := t.Host(); ok {
		return removeFromHost(durable.HostUndo(ctx, host), t)
	}
	return o.cloudRemoval(durable.CloudUndo(ctx), t)
}

func removeFromHost(ctx workflow.Context, t compute.Thing) workflow.Future {
	switch t.Kind {
	case compute.ThingDomain:
		return workflow.ExecuteActivity(ctx, domain.Destroy, domain.DestroyInput{Server: t.Server})
	case compute.ThingHypervisorSecret:
		id, _ := uuid.Parse(t.Name)
		in := domain.ForgetSecretsInput{Server: t.Server, Secrets: []compute.SecretID{{UUID: id}}}
		return workflow.ExecuteActivity(ctx, domain.ForgetSecrets, in)
	case compute.ThingCachedImage:
		return workflow.ExecuteActivity(ctx, disk.ReleaseImage, disk.ReleaseImageInput{Use: t.Name})
	case compute.ThingTPMState:
		return workflow.ExecuteActivity(ctx, tpm.Delete, tpm.DeleteInput{Server: t.Server})
	}
	_, file, _ := strings.Cut(t.Name, "/")
	if op, ok := compute.ExportedBy(file); ok {
		return workflow.ExecuteActivity(ctx, disk.DeleteExport, disk.DeleteExportInput{Server: t.Server, Operation: op})
	}
	return workflow.ExecuteActivity(ctx, disk.Delete, disk.DeleteInput{Server: t.Server, File: file})
}

// discard removes things that an operation decided to part with, in the order of a
// delete and for as long as it takes. which picks them from what the server has on
// the ledger. It goes on when the server was lost meanwhile: nothing else knows that
// they are of no use any more.
func (o *operation) discard(ctx workflow.Context, which func([]compute.Thing) []compute.Thing) error {
	return durable.Persist(ctx, func(ctx workflow.Context) error {
		var things []compute.Thing
		if err := recorded(ctx, record.Things, o.Server, &things); err != nil {
			return err
		}
		things = which(things)
		for _, kind := range compute.TeardownOrder {
			if kind == compute.ThingTrust && o.waits {
				continue // it may remove what waits, and goes with the server
			}
			if err := o.tearDown(ctx, kind, things, true); err != nil {
				return err
			}
		}
		return nil
	})
}
