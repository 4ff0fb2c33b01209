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
func (s *spawn) delegate(ctx workflow.Context) error {
	if !s.server.Delegates() {
		return nil
	}
	things := []compute.Thing{s.thing(compute.ThingTrust, compute.PlaceIdentity, compute.TrustName(s.Server, s.Operation))}
	return s.take(ctx, step{
		event: "create_trust", makes: things,
		do:   func(ctx workflow.Context) error { return s.createTrust(ctx, &things[0]) },
		undo: func(ctx workflow.Context) error { return s.removeAll(ctx, things) },
		lean: true, // with it, keys are removed
	})
}

func (s *spawn) createTrust(ctx workflow.Context, t *compute.Thing) error {
	var got trust.CreateResult
	in := trust.CreateInput{Credential: s.asked.Credential, Name: t.Name}
	if err := workflow.ExecuteActivity(durable.Cloud(ctx), trust.Create, in).Get(ctx, &got); err != nil {
		return err
	}
	t.Reference = got.Trust
	save := record.TrustInput{OperationInput: s.OperationInput, Delegated: s.server.Delegated(), Trust: got.Trust}
	return recorded(ctx, record.SaveTrust, save, nil)
}
