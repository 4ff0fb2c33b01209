package compute_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// Names on the ledger tell ports that strongroom made from those that users brought.
func TestNamesOfPorts(t *testing.T) {
	t.Parallel()
	op, id, server := compute.NewOperationID(), compute.PortID{UUID: uuid.New()}, compute.ServerID{UUID: uuid.New()}
	own, use := compute.PortName(op, "nic0"), compute.PortUse(id, server)
	require.Equal(t, own, compute.PortName(op, "nic0"))
	require.NotEqual(t, own, compute.PortName(op, "nic1"))
	require.True(t, compute.IsPortName(own))
	require.False(t, compute.IsPortName(use))
	gotID, gotServer, err := compute.ParsePortUse(use)
	require.NoError(t, err)
	require.Equal(t, id, gotID)
	require.Equal(t, server, gotServer)
	for _, none := range []string{own, "", "x/y", id.String(), id.String() + "/", "/" + server.String()} {
		_, _, err := compute.ParsePortUse(none)
		require.Equal(t, compute.Invalid, compute.KindOf(err), none)
	}
	of := func(name string) string {
		return compute.Removal{Thing: compute.Thing{Kind: compute.ThingPort, Name: name}}.String()
	}
	require.Equal(t, "delete port "+own, of(own))
	require.Equal(t, "unbind port "+id.String()+" of server "+server.String(), of(use))
	found, ok := compute.Finding{Kind: compute.ThingPort, Name: use}.Server()
	require.True(t, ok)
	require.Equal(t, server, found)
	_, ok = compute.Finding{Kind: compute.ThingPort, Name: own}.Server()
	require.False(t, ok)
	require.Equal(t, "tap"+id.String()[:11], id.TapName())
}

// A server with ports asks no host for their networks, and leaves a host that is drained as any other does.
func TestServersWithPorts(t *testing.T) {
	t.Parallel()
	host, port := compute.HostID{UUID: uuid.New()}, compute.PortID{UUID: uuid.New()}
	s := compute.Server{ID: compute.ServerID{UUID: uuid.New()}, Host: &host, VMState: compute.VMActive, Disks: []compute.Disk{{Role: compute.RootDisk}}, Networks: []compute.Network{
		{UUID: "of hosts"}, {UUID: "n", Port: &compute.Port{ID: &port}}, {UUID: "n", Port: &compute.Port{}},
	}}
	require.Equal(t, []string{"of hosts"}, compute.RequestOf(s).Networks)
	for cold, kind := range map[bool]compute.OperationKind{false: compute.OpLiveMigrate, true: compute.OpMigrate} {
		move, err := compute.DrainMove(s, cold)
		require.NoError(t, err)
		require.Equal(t, kind, move.Kind)
	}
	for name, uses := range map[string]bool{compute.PortUse(port, s.ID): true, compute.PortUse(port, compute.ServerID{}): false, "strongroom-x": false} {
		require.Equal(t, uses, s.Uses(host, compute.Thing{Kind: compute.ThingPort, Place: compute.PlaceNetworks, Name: name}))
	}
	require.True(t, s.Uses(host, compute.Thing{Kind: compute.ThingPort, Name: "strongroom-x", Reference: port.String()}))
}

// Machines and guests tell interfaces apart by their MAC addresses: a server has none twice.
func TestAServerHasNoMACTwice(t *testing.T) {
	t.Parallel()
	s := compute.Server{Networks: []compute.Network{{UUID: "one", MAC: "fa:16:3e:00:00:0a"}, {UUID: "two"}}}
	err := s.CheckAttaches(compute.Network{UUID: "three", MAC: "FA:16:3E:00:00:0A"})
	require.True(t, compute.Is(err, compute.Conflict), "%v", err)
	require.ErrorContains(t, err, "MAC address")
	require.NoError(t, s.CheckAttaches(compute.Network{UUID: "three", MAC: "fa:16:3e:00:00:0b"}))
	require.NoError(t, s.CheckAttaches(compute.Network{UUID: "three"}), "it is not known yet")
}
