package worker

import (
	"context"
	"log/slog"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"

	"strongroom/compute"
	"strongroom/durable"
)

// stateSlots is how many activities on its own volume a host runs at once.
const stateSlots = 2

// State is the worker of one compute host for the volume with its own state. It works before the host's worker does
// (Host), and beside it.
type State struct {
	ID           compute.HostID
	Name         string
	Temporal     client.Client
	Volume       ActivitySet
	Logger       *slog.Logger
	Interceptors []interceptor.WorkerInterceptor // run inside the error boundary
}

// Run works until ctx ends, then drains.
func (s State) Run(ctx context.Context) error {
	group := NewGroup("worker for the host's volume", s.Logger)
	o := options("host/"+s.Name, stateSlots, s.Interceptors)
	o.DisableWorkflowWorker = true
	w := group.New(s.Temporal, durable.HostStateQueue(s.ID), o)
	s.Volume.Register(w)
	durable.RefuseUnknown(w)
	return group.Run(ctx, nil)
}
