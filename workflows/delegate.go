package workflows

import (
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/record"
	"strongroom/activities/trust"
	"strongroom/compute"
	"strongroom/durable"
)

// delegate keeps the owner's trust, where the flavor says that strongroom may use
// the server's keys in his name for as long as the server lives.
func (b *build) delegate(ctx workflow.Context) error {
	if !b.server.Delegates() || b.was != nil && b.was.Delegates() {
		return nil
	}
	things := []compute.Thing{b.thing(compute.ThingTrust, compute.PlaceIdentity, compute.TrustName(b.Server, b.Operation))}
	return b.take(ctx, step{
		event: "create_trust", makes: things,
		do:   func(ctx workflow.Context) error { return b.createTrust(ctx, &things[0]) },
		undo: func(ctx workflow.Context) error { return b.removeAll(ctx, things) },
		lean: true, // with it, keys are removed
	})
}

func (b *build) createTrust(ctx workflow.Context, t *compute.Thing) error {
	var got trust.CreateResult
	in := trust.CreateInput{Credential: b.asked.Credential, Name: t.Name}
	if err := workflow.ExecuteActivity(durable.Cloud(ctx), trust.Create, in).Get(ctx, &got); err != nil {
		return err
	}
	t.Reference = got.Trust
	save := record.TrustInput{OperationInput: b.OperationInput, Delegated: b.server.Delegated(), Trust: got.Trust}
	return recorded(ctx, record.SaveTrust, save, nil)
}
