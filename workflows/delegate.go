package workflows

import (
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/record"
	"strongroom/activities/trust"
	"strongroom/compute"
)

// delegate creates a Keystone trust of the owner in strongroom, where the flavor says that
// strongroom may use the server's keys in the owner's name for as long as the server lives. It comes
// first: Keystone takes a trust from a token that has not ended yet, and from no other, while the later
// steps go on with one that ended since the request.
func (s *switchover) delegate(ctx workflow.Context) error {
	if !s.to.server.Delegates() || s.from != nil && s.from.server.Delegates() {
		return nil
	}
	made := []compute.Thing{s.thing(compute.ThingTrust, compute.PlaceIdentity, compute.TrustName(s.Server, s.Operation))}
	return s.take(ctx, step{
		event: "create_trust", makes: made, undoLast: true, // with it, keys are removed
		do: func(ctx workflow.Context) error { return s.createTrust(ctx, &made[0]) },
	})
}

func (s *switchover) createTrust(ctx workflow.Context, t *compute.Thing) error {
	got, err := trust.Create.Run(ctx, trust.CreateInput{Credential: s.asked.Credential, Name: t.Name})
	if err != nil {
		return err
	}
	t.Reference = got.Trust
	s.unwritten.Trust = &record.Trust{Delegated: s.to.server.Delegated(), Trust: got.Trust}
	return nil
}
