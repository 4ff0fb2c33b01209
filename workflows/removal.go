package workflows

import (
	"fmt"

	"github.com/google/uuid"
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/image"
	"strongroom/activities/key"
	"strongroom/activities/record"
	"strongroom/activities/trust"
	"strongroom/compute"
	"strongroom/durable"
)

// Things of cloud services belong to projects of users, and only credentials of
// their projects remove them. One that was good when the thing was made may be
// dead when it is to go: its token was revoked, its user lost the role. Then every
// other credential that may do it is tried, and where all are refused the thing
// waits on the ledger for the next one (Reap).

// refusal is how an undo ends that did all that anybody's credential let it do.
type refusal struct{ waiting []compute.Thing }

func (r *refusal) Error() string {
	return fmt.Sprintf("%d things wait for a credential", len(r.waiting))
}

// end closes an undo of things of which some wait.
func (r *refusal) end(event string, things []compute.Thing) record.CloseInput {
	end := record.CloseInput{Event: event, Waiting: r.waiting, Error: r.waiting[0].Refused}
	waits := map[string]bool{}
	for _, t := range r.waiting {
		waits[t.Name] = true
	}
	for _, t := range things {
		if !waits[t.Name] {
			end.Released = append(end.Released, t)
		}
	}
	return end
}

// removeAll is the undo of things of cloud services. It ends with a refusal when
// some of them must wait.
func (o *operation) removeAll(ctx workflow.Context, things []compute.Thing) error {
	calls := make([]workflow.Future, len(things))
	for i, t := range things {
		calls[i] = o.cloudRemoval(durable.CloudUndo(ctx), t)
	}
	var failure error
	var refused refusal
	for i, t := range things {
		gone, err := o.removed(ctx, t, calls[i])
		if err != nil {
			failure = err
		} else if gone.Refused != "" {
			refused.waiting = append(refused.waiting, gone)
		}
	}
	if failure == nil && len(refused.waiting) > 0 {
		return &refused
	}
	return failure
}

// cloudRemoval starts the activity that removes a thing of a cloud service, with
// the first credential that may.
func (o *operation) cloudRemoval(ctx workflow.Context, t compute.Thing) workflow.Future {
	if t.Kind == compute.ThingTrust && o.waits {
		return refused(ctx, "kept, since it may remove keys that wait for a credential")
	}
	return remove(ctx, t, t.Removers(o.asked.Credential))
}

// remove starts the activity that removes a thing of a cloud service, with the
// first of the credentials that may.
func remove(ctx workflow.Context, t compute.Thing, with []compute.Credential) workflow.Future {
	switch t.Kind {
	case compute.ThingTrust:
		in := trust.DeleteInput{Credential: with[0], Others: with[1:], Name: t.Name, ID: t.Reference}
		return workflow.ExecuteActivity(ctx, trust.Delete, in)
	case compute.ThingImage:
		id, _ := uuid.Parse(t.Name)
		in := image.DeleteInput{Credential: with[0], Others: with[1:], Image: compute.ImageID{UUID: id}}
		return workflow.ExecuteActivity(ctx, image.Delete, in)
	}
	in := key.DeleteInput{Credential: with[0], Others: with[1:], Name: t.Name}
	if id, err := uuid.Parse(t.Reference); err == nil {
		in.ID = &compute.SecretID{UUID: id}
	}
	return workflow.ExecuteActivity(ctx, key.Delete, in)
}

func refused(ctx workflow.Context, why string) workflow.Future {
	future, settable := workflow.NewFuture(ctx)
	settable.SetError(compute.Errorf(compute.Forbidden, "%s", why))
	return future
}

// removed waits for the end of a removal. The thing comes back with the reason
// when nobody's credential may remove it.
func (o *operation) removed(ctx workflow.Context, t compute.Thing, call workflow.Future) (compute.Thing, error) {
	t, err := settleRemoval(ctx, t, call)
	o.waits = o.waits || t.Refused != "" && t.Kind == compute.ThingKeySecret
	return t, err
}

func settleRemoval(ctx workflow.Context, t compute.Thing, call workflow.Future) (compute.Thing, error) {
	err := call.Get(ctx, nil)
	t.Refused = ""
	if why := durable.FromTemporal(err); err != nil && why.Kind == compute.Forbidden && isOfCloud(t) && mayWait(ctx) {
		t.Refused = why.Message
		return t, nil
	}
	if err == nil && t.Kind == compute.ThingTrust {
		delegated := compute.DelegatedCredential(t.Server, t.Credential.ProjectID, t.Credential.UserID)
		err = recorded(ctx, record.ForgetTrust, delegated, nil)
	}
	return t, err
}

// mayWait is false for operations that began to insist, before there was waiting.
func mayWait(ctx workflow.Context) bool {
	return workflow.GetVersion(ctx, "things wait for a credential", workflow.DefaultVersion, 1) != workflow.DefaultVersion
}

func isOfCloud(t compute.Thing) bool {
	_, onHost := t.Host()
	return !onHost
}
