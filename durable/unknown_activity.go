package durable

import (
	"context"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/worker"

	"strongroom/compute"
)

// RefuseUnknown has a host's worker refuse, with NoHost, what a control plane of another release asks for and its own
// release does not have (EE-41). Temporal's SDK says that itself, but not authentically, and is asked again for ever. Control workers
// do not refuse: one of another version takes the next attempt.
func RefuseUnknown(r worker.ActivityRegistry) {
	r.RegisterDynamicActivity(func(ctx context.Context, _ converter.EncodedValues) (None, error) {
		return None{}, compute.Errorf(compute.NoHost, "the host's worker is of another release, which does not know %s", activity.GetInfo(ctx).ActivityType.Name)
	}, activity.DynamicRegisterOptions{})
}
