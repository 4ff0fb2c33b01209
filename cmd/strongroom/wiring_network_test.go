package main

import (
	"context"
	"net/netip"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/port"
	portlocal "strongroom/activities/port/local"
	"strongroom/activities/port/neutron"
	"strongroom/compute"
)

// attached is a network service that knows a server's ports, as somebody sees them who is not told of
// bindings.
type attached struct {
	port.None
	ports    []port.Port
	floating []port.Floating
}

// Floating implements port.FloatingAddresses.
func (a attached) Floating(context.Context, []port.ID) ([]port.Floating, error) {
	return a.floating, nil
}

func (a attached) Attached(context.Context, compute.Credential, compute.ServerID) ([]port.Port, error) {
	return a.ports, nil
}

// What Neutron says now of a port goes before what was known of it. How it is plugged stays known. A port
// that Neutron has no more keeps no address, which may be another one's by now.
func TestPortsAreRenewed(t *testing.T) {
	t.Parallel()
	require.Nil(t, networkAccess(port.None{}), "there is no network service")
	id, gone := port.ID{UUID: uuid.New()}, port.ID{UUID: uuid.New()}
	known := []compute.Network{
		{UUID: "of a host"},
		{UUID: "n", MAC: "fa:16:3e:00:00:01", Tag: "front", Port: &compute.Port{ID: &id, Label: "lan", Status: "DOWN", Type: compute.VIFOpenVSwitch, Bridge: "br-int", MTU: 1442}},
		{UUID: "n", Port: &compute.Port{ID: &gone, Label: "lan", Type: compute.VIFOpenVSwitch, Status: "ACTIVE", Addresses: []compute.PortAddress{{IP: "10.1.0.9"}}}},
	}
	service := attached{ports: []port.Port{{ID: id, MAC: "fa:16:3e:00:00:02", Status: port.StatusActive, Addresses: []port.Address{{IP: netip.MustParseAddr("10.1.0.7")}}}}}
	access := networkAccess(service)
	now, err := access.Renew(t.Context(), "p", compute.ServerID{}, known)
	require.NoError(t, err)
	renewed := *known[1].Port
	renewed.Secured = []compute.SecurityGroupID{}
	renewed.Status, renewed.Addresses = "ACTIVE", []compute.PortAddress{{IP: "10.1.0.7"}}
	want := []compute.Network{known[0], {UUID: "n", MAC: "fa:16:3e:00:00:02", Tag: "front", Port: &renewed}, {UUID: "n", Port: &compute.Port{ID: &gone, Label: "lan", Type: compute.VIFOpenVSwitch, Status: "DOWN", Secured: []compute.SecurityGroupID{}}}}
	require.Equal(t, want, now)
	now, err = access.Renew(t.Context(), "p", compute.ServerID{}, now)
	require.NoError(t, err)
	require.Nil(t, now, "nothing is new")

	fixed, floating := netip.MustParseAddr("10.1.0.7"), netip.MustParseAddr("203.0.113.7")
	service.floating = []port.Floating{{IP: floating, Port: id, Fixed: fixed}, {IP: floating, Port: gone, Fixed: fixed}}
	reached, err := networkAccess(service).Renew(t.Context(), "p", compute.ServerID{}, want)
	require.NoError(t, err)
	require.Equal(t, []compute.PortAddress{{IP: "10.1.0.7", Floating: []string{"203.0.113.7"}}}, reached[1].Port.Addresses)
	require.Empty(t, want[1].Port.Addresses[0].Floating)
	moved := service.ports[0].Plugged(reached[1])
	require.Equal(t, reached[1].Port.Addresses, moved.Port.Addresses, "a port that is bound anew is reached there still")
	service.floating = nil
	now, err = networkAccess(service).Renew(t.Context(), "p", compute.ServerID{}, reached)
	require.NoError(t, err)
	require.Equal(t, want, now)
}

// Users make security groups in Neutron alone. Which networks there are every service tells.
func TestTheApiReachesGroupsAndNetworksOfUsers(t *testing.T) {
	t.Parallel()
	require.NotNil(t, networkAccess(&neutron.Service{}).OwnGroups())
	lan := portlocal.Network{ID: port.NetworkID{UUID: uuid.New()}, Name: "lan", Projects: []string{"p"}}
	access, cred := networkAccess(&portlocal.Service{Configured: []portlocal.Network{lan}}), compute.Credential{ProjectID: "p"}
	require.Nil(t, access.OwnGroups())
	want := compute.NamedNetwork{ID: lan.ID, Name: "lan"}
	all, err := access.Visible(t.Context(), cred)
	require.NoError(t, err)
	require.Equal(t, []compute.NamedNetwork{want}, all)
	one, err := access.Network(t.Context(), cred, lan.ID)
	require.NoError(t, err)
	require.Equal(t, want, one)
	_, err = access.Network(t.Context(), compute.Credential{ProjectID: "another"}, lan.ID)
	require.True(t, compute.Is(err, compute.NotFound), "%v", err)
}
