package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"strongroom/activities/port"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// A server's ports are bound to the host that it is on. They go with a move in two steps: a second,
// inactive binding at the new host is prepared while the guest runs, so that a host that cannot plug
// them is refused before anything moves; it becomes the only one where the guest changes over.

// portMove is that of one operation.
type portMove struct {
	prepared []string // hosts at which there may be bindings
	begun    bool     // the ports may be bound to another host than the old machine's
	fenced   bool     // the old machine's host is down: nobody may bind ports to it any more
}

func (m *machine) portsAt(zone string, withdraw []string) port.MoveInput {
	return port.MoveInput{Project: m.server.ProjectID, Server: m.Server, Networks: m.server.Networks, Host: m.host.Name, Zone: zone, Withdraw: withdraw}
}

// bindPortsTo has the ports bound to the machine's host and to none of not.
func (m *machine) bindPortsTo(ctx workflow.Context, zone string, not []string) error {
	got, err := port.Bind.Run(ctx, m.portsAt(zone, not))
	if err == nil {
		m.server.Networks = got.Networks
	}
	return err
}

// bindPorts sees that the server's ports are bound to the machine's host: what an earlier operation could not
// put back is put right. Of a guest that runs it comes before that is stopped.
func (m *machine) bindPorts(ctx workflow.Context) error {
	if !m.server.UsesPorts() {
		return nil
	}
	return m.take(ctx, step{event: "bind_ports", do: func(ctx workflow.Context) error { return m.bindPortsTo(ctx, "", nil) }})
}

// keepPorts is bindPorts for a machine that takes another one's place on its host.
func (s *switchover) keepPorts(ctx workflow.Context) error {
	if err := s.from.bindPorts(ctx); err != nil {
		return err
	}
	s.to.server.Networks = s.from.server.Networks
	return nil
}

// preparePorts sees that the new machine's host can plug the server's ports. Undone, they are bound where
// they were, and nowhere else.
func (s *switchover) preparePorts(ctx workflow.Context) error {
	switch {
	case !s.to.server.UsesPorts():
		return nil
	case s.to.host.ID == s.from.host.ID:
		return s.keepPorts(ctx)
	}
	ready := step{event: "prepare_ports", do: func(ctx workflow.Context) error {
		got, err := port.Prepare.Run(ctx, s.to.portsAt(s.zone, nil))
		if err == nil {
			s.to.server.Networks = got.Networks
		}
		return err
	}}
	if len(s.ports.prepared) == 0 { // one undo is for all hosts that are tried
		ready.undo = s.returnPorts
	}
	s.ports.prepared = append(s.ports.prepared, s.to.host.Name)
	return s.take(ctx, ready)
}

// movePorts binds the ports to the new machine's host, before that is started: the old one is off.
func (s *switchover) movePorts(ctx workflow.Context) error {
	if len(s.ports.prepared) == 0 {
		return nil
	}
	return s.take(ctx, step{event: "bind_ports", do: func(ctx workflow.Context) error {
		s.ports.begun = true
		return s.bindMoved(ctx)
	}})
}

func (s *switchover) bindMoved(ctx workflow.Context) error {
	return s.to.bindPortsTo(ctx, s.zone, append(slices.Clone(s.ports.prepared), s.from.host.Name))
}

// returnPorts is the undo of preparePorts and movePorts.
func (s *switchover) returnPorts(ctx workflow.Context) error {
	err := s.from.bindPortsTo(ctx, "", s.ports.prepared)
	if s.ports.fenced && lacksRoom(err) {
		err = s.releasePorts(ctx)
	}
	if err == nil {
		s.ports.begun = false
	}
	return err
}

// returnPortsFirst has the ports bound to the old machine's host where the undo did not: its guest is not
// started without them.
func (s *switchover) returnPortsFirst(ctx workflow.Context) error {
	if !s.ports.begun {
		return nil
	}
	if err := s.returnPorts(ctx); err != nil {
		return compute.Errorf(compute.Unavailable, "the ports of server %s are not bound to its host: %s", s.Server, durable.FromTemporal(err).Message)
	}
	return nil
}

// releasePorts sees that the server keeps its ports, and that they are bound to no host.
func (o *operation) releasePorts(ctx workflow.Context) error {
	in := port.ReleaseInput{Project: o.server.ProjectID, Server: o.Server}
	for _, n := range o.server.Networks {
		if n.PortExists() {
			in.Ports = append(in.Ports, *n.Port.ID)
		}
	}
	return port.Release.Do(ctx, in)
}

// portsAfterCommit does something with the server's ports that is not undone any more: it is tried for long,
// and what could not be done shows in the trail. The next start of the server puts it right.
func (o *operation) portsAfterCommit(ctx workflow.Context, event string, do func(workflow.Context) error) error {
	if !o.server.UsesPorts() {
		return nil
	}
	return o.runAfterCommit(durable.WithUndo(ctx), step{event: event}, func(ctx workflow.Context, _ bool, end *record.Close) error {
		if err := insist(ctx, do); err != nil {
			end.Error = durable.FromTemporal(err).Message
		}
		return nil
	})
}

// insist tries for an hour, also while the network service is away.
func insist(ctx workflow.Context, do func(workflow.Context) error) (err error) {
	attempt, until := 0, workflow.Now(ctx).Add(longestRestart)
	_ = durable.RetryForever(ctx, func(ctx workflow.Context) error {
		attempt++
		if err = do(ctx); err == nil || attempt >= finalAttempts && isFinal(err) || workflow.Now(ctx).After(until) {
			return nil
		}
		return err
	})
	return err
}
