package workflows_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/domain"
	"strongroom/activities/port"
	"strongroom/compute"
)

var (
	broughtPort  = compute.PortID{UUID: uuid.MustParse("0b2a8f6e-0c64-4b3c-8f1d-2b64a3a0d011")}
	newInterface = compute.InterfaceAttachArguments{
		Zone: "nova", Network: compute.Network{UUID: "5c1e0f5e-0c64-4b3c-8f1d-2b64a3a0d002", Tag: "back", Port: &compute.Port{Label: "lan"}},
	}
	broughtInterface = compute.InterfaceAttachArguments{
		Zone: "nova", Network: compute.Network{UUID: newInterface.Network.UUID, Port: &compute.Port{ID: &broughtPort, Brought: true}},
	}
)

func (b *bench) attachInterface(arguments compute.InterfaceAttachArguments) error {
	return b.run(compute.OpInterfaceAttach, b.accept(compute.OpInterfaceAttach, compute.TaskAttachingInterface, arguments), nil)
}

func (b *bench) detachInterface(id compute.PortID) error {
	return b.run(compute.OpInterfaceDetach, b.accept(compute.OpInterfaceDetach, compute.TaskDetachingInterface, compute.InterfaceDetachArguments{Port: id}), nil)
}

// withInterface is a bench whose server was given a port that its user made.
func withInterface(setup func(*testing.T) *bench) func(*testing.T) *bench {
	return func(t *testing.T) *bench {
		b := setup(t)
		require.NoError(t, b.attachInterface(broughtInterface))
		b.forget()
		return b
	}
}

// Interfaces come and go while the guest runs, and while it is off.
func TestInterfacesComeAndGo(t *testing.T) {
	t.Parallel()
	for name, setup := range map[string]func(*testing.T) *bench{"running": spawned, "stopped": stopped, "paused": paused} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			vm, power := b.row.server.VMState, b.row.server.PowerState
			require.NoError(t, b.attachInterface(newInterface))
			require.NoError(t, b.attachInterface(broughtInterface))
			require.Len(t, b.row.server.Networks, 2)
			require.Equal(t, "back", b.row.server.Networks[0].Tag)
			require.Equal(t, "br-"+nameOfHost(b.row.server.Host.String()), b.row.server.Networks[0].Port.Bridge)
			require.Len(t, b.interfaces, 2)
			require.Len(t, b.ports, 2)
			b.tidy()
			require.Error(t, b.attachInterface(broughtInterface), "it has the port")
			require.Error(t, b.attachInterface(newInterface), "it has the tag")
			require.Len(t, b.ports, 2)

			require.NoError(t, b.detachInterface(*b.row.server.Networks[0].Port.ID))
			require.Len(t, b.row.server.Networks, 1)
			require.NoError(t, b.detachInterface(broughtPort))
			require.Empty(t, b.row.server.Networks)
			require.Empty(t, b.interfaces)
			require.Empty(t, b.ports)
			require.Equal(t, vm, b.row.server.VMState)
			require.Equal(t, power, b.row.server.PowerState)
			b.tidy()
			require.Error(t, b.detachInterface(broughtPort), "it has it no longer")
		})
	}
}

// A guest that does not give a device up keeps it, with its port.
func TestAGuestKeepsAnInterface(t *testing.T) {
	t.Parallel()
	b := withInterface(spawned)(t)
	b.clings = true
	require.ErrorContains(t, b.detachInterface(broughtPort), "does not give it up")
	require.Len(t, b.row.server.Networks, 1)
	require.Len(t, b.ports, 1)
	require.Equal(t, compute.VMActive, b.row.server.VMState)
	b.tidy()
	b.clings = false
	require.NoError(t, b.detachInterface(broughtPort))
	require.Empty(t, b.ports)
	b.tidy()
}

// An attachment that fails leaves no port, even where its guest keeps the device.
func TestAnAttachmentThatFailsLeavesNoPort(t *testing.T) {
	t.Parallel()
	for _, name := range []string{port.Plug.Name, domain.Plug.Name} {
		b := spawned(t)
		b.clings = true
		b.fault = at(call{name: name, nth: 1}, fault{after: fail})
		require.Error(t, b.attachInterface(broughtInterface))
		b.fault = nil
		require.Empty(t, b.interfaces, "a device that the guest keeps is cut off")
		b.reapAll()
		require.Empty(t, b.ports)
		require.Empty(t, b.row.server.Networks)
		require.Equal(t, compute.VMActive, b.row.server.VMState)
		require.Empty(t, b.audit())
	}
}
