package workflows_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"strongroom/activities/domain"
	"strongroom/activities/port"
	"strongroom/compute"
	"strongroom/durable"
)

// onPorts is a bench with a server that is to have a port of its own, and one that its user brings.
func onPorts(t *testing.T) *bench { return withPorts(newBench(t, true)) }

// spawnedOnPorts is a bench with a server, with keys, that runs and has such ports.
func spawnedOnPorts(t *testing.T) *bench {
	b := onPorts(t)
	require.NoError(t, b.run(compute.OpCreate, b.accept(compute.OpCreate, compute.TaskScheduling, nil), nil))
	b.forget()
	return b
}

// plugged is a bench with a server, without keys, that runs and has such ports.
func plugged(t *testing.T) *bench {
	b := withPorts(newBench(t, false))
	require.NoError(t, b.run(compute.OpCreate, b.accept(compute.OpCreate, compute.TaskScheduling, nil), nil))
	b.forget()
	return b
}

func withPorts(b *bench) *bench {
	network := uuid.NewString()
	b.row.server.Networks = []compute.Network{
		{UUID: network, Port: &compute.Port{}},
		{UUID: network, Port: &compute.Port{ID: &compute.PortID{UUID: uuid.New()}, Brought: true}},
	}
	b.plugWait = plugTimeout
	return b
}

// A create makes ports, and binds them to its host, before the domain that names them; its delete
// leaves none.
func TestCreateAndDeleteWithPorts(t *testing.T) {
	t.Parallel()
	b := onPorts(t)
	brought := *b.row.server.Networks[1].Port.ID
	in := b.accept(compute.OpCreate, compute.TaskScheduling, nil)
	require.NoError(t, b.run(compute.OpCreate, in, nil))
	b.whole(in, compute.OpCreate)
	own := compute.PortName(in.Operation, "nic0")
	host := "host-" + b.hosts[0].String()[:4] + " nova"
	require.Equal(t, map[string]string{own: host, compute.PortUse(brought, in.Server): host}, b.ports)
	names := b.names()
	at := func(name string) int { return slices.IndexFunc(names, func(c call) bool { return c.name == name }) }
	require.Less(t, at(port.Plug.Name), at(domain.Start.Name))
	require.Greater(t, at(port.Look.Name), at(domain.Start.Name))
	for _, n := range b.row.server.Networks {
		require.NotNil(t, n.Port.ID, "on record")
		require.Equal(t, "br-host-"+b.hosts[0].String()[:4], n.Port.Bridge)
	}
	for sighting, thing := range b.ledger {
		require.Equal(t, sighting.Kind == compute.ThingPort, b.row.server.Uses(*b.row.server.Host, thing) && sighting.Place == compute.PlaceNetworks)
	}
	b.forget()
	in = b.deletion()
	require.NoError(t, b.run(compute.OpDelete, in, nil))
	b.gone(in)
	require.Empty(t, b.ports)
	require.Empty(t, b.row.server.Networks)
}

// The signal that a port was plugged says only when to look: early, twice, or for another port.
func TestACreateWaitsUntilItsPortsAreActive(t *testing.T) {
	t.Parallel()
	b := onPorts(t)
	b.inactive = 3
	in := b.accept(compute.OpCreate, compute.TaskScheduling, nil)
	var began, ended time.Time
	require.NoError(t, b.run(compute.OpCreate, in, func(env *testsuite.TestWorkflowEnvironment) {
		began = env.Now()
		for _, after := range []time.Duration{0, time.Minute, time.Minute, 2 * time.Minute, 3 * time.Minute} {
			env.RegisterDelayedCallback(func() {
				env.SignalWorkflow(durable.PortPlugged, nil)
				ended = env.Now()
			}, after)
		}
	}))
	b.whole(in, compute.OpCreate)
	require.Zero(t, b.inactive)
	require.Less(t, ended.Sub(began), plugTimeout)
}

// Ports that nobody plugs in time end a create, where the configuration says so. A port that is
// active by then counts, whether a signal came or not.
func TestPortsThatAreNotPluggedInTime(t *testing.T) {
	t.Parallel()
	b := onPorts(t)
	b.inactive = 2
	in := b.accept(compute.OpCreate, compute.TaskScheduling, nil)
	require.ErrorContains(t, b.run(compute.OpCreate, in, nil), "Virtual Interface creation failed")
	b.early(in, subjects["spawn with ports"], compute.OperationFailed, compute.VMError, compute.PowerNone)
	require.Empty(t, b.ports)
	require.Empty(t, b.row.server.Networks)
	require.Contains(t, b.row.fault.Message, "Virtual Interface creation failed")

	// One that the network service gives up is not waited for.
	b = onPorts(t)
	b.inactive, b.portFailed = 1, true
	in = b.accept(compute.OpCreate, compute.TaskScheduling, nil)
	require.ErrorContains(t, b.run(compute.OpCreate, in, nil), "Virtual Interface creation failed: the network service gave up port")
	b.early(in, subjects["spawn with ports"], compute.OperationFailed, compute.VMError, compute.PowerNone)
	require.Empty(t, b.ports)

	for name, change := range map[string]func(*bench){
		"it failed, not fatally": func(b *bench) { b.inactive, b.portFailed, b.plugOptional = 1, true, true },
		"the signal was lost":    func(b *bench) { b.inactive = 1 },
		"it is not fatal":        func(b *bench) { b.inactive, b.plugOptional = 2, true },
		"nobody waits for them":  func(b *bench) { b.inactive, b.plugWait = 2, 0 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := onPorts(t)
			change(b)
			in := b.accept(compute.OpCreate, compute.TaskScheduling, nil)
			require.NoError(t, b.run(compute.OpCreate, in, nil))
			b.whole(in, compute.OpCreate)
		})
	}
}

// A host that cannot plug the ports is refused before anything moves; where nobody named it, another one is found.
func TestAHostThatPlugsNoPortsGetsNoServer(t *testing.T) {
	t.Parallel()
	for name, move := range map[string]func(*bench) error{
		"migrate": func(b *bench) error { return b.migrateIt(compute.MigrateArguments{}) },
		"live":    func(b *bench) error { return b.live(nil) },
		"evacuate": func(b *bench) error {
			b.fencedOff[b.hosts[0]] = true
			return b.evacuateIt(compute.EvacuateArguments{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := plugged(t)
			b.unpluggable = nameOfHost(b.hosts[1].String())
			require.ErrorContains(t, move(b), "plugs no port")
			require.False(t, slices.ContainsFunc(b.names(), func(c call) bool { return c.name == domain.Stop.Name }))
			require.Equal(t, b.hosts[0], *b.row.server.Host)
			b.portsFollow()
			b.forget()

			b.hosts = append(b.hosts, compute.HostID{UUID: uuid.New()})
			require.NoError(t, move(b))
			require.Equal(t, b.hosts[2], *b.row.server.Host)
			b.reapAll()
			require.Empty(t, b.broken)
			b.portsFollow()
		})
	}
}

// The same of an unshelve.
func TestUnshelveFindsAHostThatPlugsThePorts(t *testing.T) {
	t.Parallel()
	b := offloaded(plugged)(t)
	b.portsFollow()
	b.unpluggable = nameOfHost(b.hosts[0].String())
	in := b.accept(compute.OpUnshelve, compute.TaskUnshelving, compute.UnshelveArguments{})
	require.NoError(t, b.run(compute.OpUnshelve, in, nil))
	b.whole(in, compute.OpUnshelve)
	require.Equal(t, b.hosts[1], *b.row.server.Host)
}

// Where the network service is away for longer than an undo is tried, the guest is not started on a host without its ports:
// its owner's next start puts them right.
func TestAGuestIsNotRestartedWithoutItsPorts(t *testing.T) {
	t.Parallel()
	b := plugged(t)
	b.fault = func(c call) fault {
		if c.name == port.Bind.Name && c.nth > 1 || c.name == domain.Start.Name {
			return fault{before: fail}
		}
		return fault{}
	}
	require.Error(t, b.migrateIt(compute.MigrateArguments{}))
	require.Equal(t, compute.VMStopped, b.row.server.VMState)
	require.Equal(t, 1, b.count(domain.Start.Name), "on the new host alone")
	b.forget()
	in := b.accept(compute.OpStart, compute.TaskPoweringOn, nil)
	require.NoError(t, b.run(compute.OpStart, in, nil))
	require.Equal(t, compute.VMActive, b.row.server.VMState)
	require.Empty(t, b.broken)
	for name, at := range b.ports {
		require.Equal(t, nameOfHost(b.hosts[0].String())+" nova", at, name)
	}
}
