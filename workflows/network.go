package workflows

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"strongroom/activities/port"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// plugging is what a create waits for before its server is up.
type plugging struct {
	wait  time.Duration // until the ports are active; 0: not at all
	fatal bool
}

// plug gives the server its ports, each bound to the host that was claimed: before the domain,
// which names them, and after the host took work, so that no other one comes.
func (s *spawn) plug(ctx workflow.Context) error {
	if !s.to.server.UsesPorts() {
		return nil
	}
	made := step{event: "allocate_network", task: compute.TaskNetworking, undo: func(ctx workflow.Context) error {
		return record.ClearPorts.Do(ctx, s.OperationInput)
	}}
	for i, n := range s.to.server.Networks {
		if n.Port != nil {
			made.makes = append(made.makes, s.portOf(i, n))
		}
	}
	made.do = func(ctx workflow.Context) error { return s.plugPorts(ctx, made.makes) }
	return s.take(ctx, made)
}

// portOf is the port of the server's i-th interface, as a thing.
func (s *spawn) portOf(i int, n compute.Network) compute.Thing {
	name := compute.PortName(s.Operation, fmt.Sprintf("nic%d", i))
	if n.Port.Brought && n.Port.ID != nil {
		name = compute.PortUse(*n.Port.ID, s.Server)
	}
	return s.thing(compute.ThingPort, compute.PlaceNetworks, name)
}

func (s *spawn) plugPorts(ctx workflow.Context, made []compute.Thing) error {
	networks := slices.Clone(s.to.server.Networks)
	var calls []durable.Future[port.PlugResult]
	var which []int
	for i, n := range networks {
		if n.Port == nil {
			continue
		}
		calls = append(calls, port.Plug.Start(ctx, port.PlugInput{
			Credential: s.asked.Credential, Server: s.Server, Network: n, Name: made[len(calls)].Name, Host: s.to.host.Name, Zone: s.zone,
			Hostname: s.to.server.Hostname,
		}))
		which = append(which, i)
	}
	got, err := awaitAll(ctx, calls)
	if err != nil {
		return err
	}
	for c, i := range which {
		networks[i] = got[c].Network
		if id := got[c].Network.Port.ID; id != nil {
			made[c].Reference = id.String()
		}
		s.plugging.wait, s.plugging.fatal = got[c].Wait, got[c].Fatal
	}
	s.to.server.Networks, s.unwritten.Networks = networks, networks
	return nil
}

// awaitPorts waits until all ports are active, or the time for that is over. The signal that one may be
// comes from the network service; it can come early, late, twice or not at all, so that it only says when
// to look.
func (s *spawn) awaitPorts(ctx workflow.Context) error {
	if s.plugging.wait == 0 {
		return nil
	}
	return s.take(ctx, step{event: "await_network", do: func(ctx workflow.Context) error {
		timer, cancel := workflow.WithCancel(ctx)
		defer cancel()
		over := workflow.NewTimer(timer, s.plugging.wait)
		for {
			ports, err := s.lookAtPorts(ctx)
			switch {
			case err != nil || len(ports.Inactive) == 0:
				return err
			case len(ports.Failed) > 0 && s.plugging.fatal: // nobody will plug it: as Nova, which is told so by the event
				return compute.Errorf(compute.Unavailable, "Virtual Interface creation failed: the network service gave up port %s", ports.Failed[0])
			case over.IsReady() && s.plugging.fatal:
				return compute.Errorf(compute.Unavailable, "Virtual Interface creation failed: port %s is not active after %s", ports.Inactive[0], s.plugging.wait)
			case over.IsReady(), len(ports.Failed) == len(ports.Inactive):
				workflow.GetLogger(ctx).Warn("ports are not active", "ports", ports.Inactive, "within", s.plugging.wait)
				return nil
			}
			if err := signalled(ctx, durable.PortPlugged, over); err != nil {
				return err
			}
		}
	}})
}

// signalled waits for a signal, or for something else. It takes all signals that have come.
func signalled(ctx workflow.Context, name string, or workflow.Future) error {
	signals := workflow.GetSignalChannel(ctx, name)
	workflow.NewSelector(ctx).
		AddReceive(signals, func(c workflow.ReceiveChannel, _ bool) {
			for c.ReceiveAsync(nil) {
			}
		}).
		AddFuture(or, func(workflow.Future) {}).
		AddReceive(ctx.Done(), func(workflow.ReceiveChannel, bool) {}).
		Select(ctx)
	return ctx.Err()
}

// lookAtPorts gives those of the server's ports that are not active.
func (s *spawn) lookAtPorts(ctx workflow.Context) (port.LookResult, error) {
	in := port.LookInput{Credential: s.asked.Credential, Server: s.Server}
	for _, n := range s.to.server.Networks {
		if n.PortExists() {
			in.Ports = append(in.Ports, *n.Port.ID)
		}
	}
	return port.Look.Run(ctx, in)
}
