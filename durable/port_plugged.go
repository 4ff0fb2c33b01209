package durable

import (
	"context"
	"errors"

	"go.temporal.io/api/serviceerror"

	"strongroom/compute"
)

// PortPlugged is the signal that one of a server's ports may have become active. It says
// nothing of which: whoever waits looks at all of them.
const PortPlugged = "portPlugged"

// PortPlugged tells a create that a port of its server may have become active. A server that
// no operation is under way on needs not be told. Unavailable: Temporal does not answer.
func (s Starter) PortPlugged(ctx context.Context, server compute.ServerID) error {
	id := WorkflowID(compute.ServerOwner(server), compute.OpCreate)
	err := s.Client.SignalWorkflow(ctx, id, "", PortPlugged, nil)
	if missing := (*serviceerror.NotFound)(nil); errors.As(err, &missing) || err == nil {
		return nil
	}
	return compute.Errorf(compute.Unavailable, "telling %s that a port was plugged: %w", id, err)
}
