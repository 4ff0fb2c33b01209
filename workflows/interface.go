package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"strongroom/activities/domain"
	"strongroom/activities/ledger"
	"strongroom/activities/port"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// InterfaceAttach gives a server a port more, and its guest at once where that runs. When it fails
// or is cancelled, the server has the interfaces that it had.
func InterfaceAttach(ctx workflow.Context, in durable.OperationInput) error {
	return onMachineWith(ctx, in, compute.InterfaceAttach, func(m *machine, in compute.InterfaceAttachArguments) body {
		return &interfaceAttach{machine: m, zone: in.Zone, network: in.Network}
	})
}

type interfaceAttach struct {
	*machine
	zone    string
	network compute.Network // as it is asked for; once the port is bound, as it is
}

func (i *interfaceAttach) run(ctx workflow.Context) error {
	if i.network.Port == nil {
		return compute.Errorf(compute.Invalid, "network %s is not the network service's", i.network.UUID)
	}
	if err := i.server.CheckAttaches(i.network); err != nil {
		return err
	}
	if err := i.allocate(ctx); err != nil {
		return err
	}
	if err := i.take(ctx, i.plug()); err != nil {
		return err
	}
	return i.commit(ctx, i.unchanged())
}

// allocate makes the port and binds it. One that its user made is the server's on record before, so that no other
// server takes it.
func (i *interfaceAttach) allocate(ctx workflow.Context) error {
	name := compute.PortName(i.Operation, "nic")
	if i.network.PortExists() {
		name = compute.PortUse(*i.network.Port.ID, i.Server)
		if err := i.endBegin(ctx); err != nil { // or the port is on record, as if the server had had it before
			return err
		}
		i.unwritten.Networks = i.with(i.network)
	}
	made := []compute.Thing{i.thing(compute.ThingPort, compute.PlaceNetworks, name)}
	return i.take(ctx, step{
		event: "allocate_interface", makes: made,
		undoLast: true, // the guest's device goes before the address may be another server's
		do: func(ctx workflow.Context) error {
			got, err := port.Plug.Run(ctx, port.PlugInput{
				Credential: i.asked.Credential, Server: i.Server, Network: i.network, Name: name, Host: i.host.Name, Zone: i.zone,
				Hostname: i.server.Hostname,
			})
			if err != nil {
				return err
			}
			i.network, made[0].Reference = got.Network, got.Network.Port.ID.String()
			i.unwritten.Networks = i.with(i.network)
			return nil
		},
		undo: func(ctx workflow.Context) error {
			if !i.network.PortExists() {
				return nil
			}
			return record.DropPort.Do(ctx, record.DropPortInput{OperationInput: i.OperationInput, Port: *i.network.Port.ID, Undo: true})
		},
	})
}

// with gives the server's interfaces and one more.
func (i *interfaceAttach) with(n compute.Network) []compute.Network {
	return append(slices.Clone(i.server.Networks), n)
}

// plug is the step that gives the domain the interface. That it has it is on the ledger for that time: an undo takes it
// from the guest, and where its host does not answer, the port waits until the janitor has done so.
func (i *interfaceAttach) plug() step {
	in := domain.InterfaceInput{Server: i.Server, Network: i.network, NIC: i.server.Hardware().NIC}
	return step{
		event: "attach_interface", host: &i.host,
		borrows: []compute.Thing{i.onHost(compute.ThingPluggedPort, i.host, compute.PortUse(*i.network.Port.ID, i.Server))},
		do:      func(ctx workflow.Context) error { return domain.Plug.On(i.host).Do(ctx, in) },
	}
}

func (i *interfaceAttach) outcome(workflow.Context, *compute.Error) record.SettleInput {
	return i.unchanged()
}

// InterfaceDetach takes one of a server's ports from it, once its guest has given the device up. A port that
// strongroom made is removed, one that its user made is bound to nothing. When it fails or is cancelled before,
// the server keeps it.
func InterfaceDetach(ctx workflow.Context, in durable.OperationInput) error {
	return onMachineWith(ctx, in, compute.InterfaceDetach, func(m *machine, in compute.InterfaceDetachArguments) body {
		return &interfaceDetach{machine: m, port: in.Port}
	})
}

type interfaceDetach struct {
	*machine
	port compute.PortID
}

func (i *interfaceDetach) run(ctx workflow.Context) error {
	network, err := i.server.InterfaceOn(i.port)
	if err != nil {
		return err
	}
	has, err := ledger.Things.Run(ctx, compute.ServerOwner(i.Server))
	if err != nil {
		return err
	}
	if err := i.take(ctx, i.unplug(network)); err != nil {
		return err
	}
	ctx, err = passPointOfNoReturn(ctx, i.operation, record.DropPort, func(last *record.Close) record.DropPortInput {
		return record.DropPortInput{OperationInput: i.OperationInput, Close: last, Port: i.port}
	})
	if err != nil {
		return err
	}
	if err := i.removeAfterCommit(ctx, "release_interface", compute.ThingsOfPort(has, i.port, i.Server)); err != nil {
		return err
	}
	return i.commit(ctx, i.unchanged())
}

// unplug is the step that takes the interface from the domain.
func (i *interfaceDetach) unplug(n compute.Network) step {
	in := domain.InterfaceInput{Server: i.Server, Network: n, NIC: i.server.Hardware().NIC}
	return step{
		event: "detach_interface", host: &i.host,
		do:   func(ctx workflow.Context) error { return domain.Unplug.On(i.host).Do(ctx, in) },
		undo: func(ctx workflow.Context) error { return domain.Plug.On(i.host).Do(ctx, in) },
	}
}

func (i *interfaceDetach) outcome(workflow.Context, *compute.Error) record.SettleInput {
	return i.unchanged()
}
