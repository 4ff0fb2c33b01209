package domain

import (
	"os"
	"os/exec"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// The bridge of a port is there before its domain; one that a killed start left half made is set up.
func TestBridgesOfPorts(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("makes a bridge: must be root")
	}
	network := uuid.NewString()
	name := compute.BridgeOf(compute.VIFBridge, network)
	require.Equal(t, "brq"+network[:11], name)
	t.Cleanup(func() { _ = exec.Command("ip", "link", "delete", name).Run() })
	a := &Activities{}
	n := compute.Network{UUID: network, Port: &compute.Port{ID: &compute.PortID{UUID: uuid.New()}, Type: compute.VIFBridge, Bridge: name, MTU: 1400}}
	require.NoError(t, exec.Command("ip", "link", "add", name, "type", "bridge").Run())
	for range 2 {
		require.NoError(t, a.bridge(t.Context(), n))
		out, err := exec.Command("ip", "-br", "link", "show", name, "up").Output()
		require.NoError(t, err)
		require.Contains(t, string(out), name)
		require.NoError(t, exec.Command("ip", "link", "delete", name).Run())
	}

	n.Port.HostFilter = true
	require.Equal(t, compute.Unavailable, compute.KindOf(a.bridge(t.Context(), n)), "it is nobody's to make")
	require.NoError(t, exec.Command("ip", "link", "add", name, "type", "bridge").Run())
	require.NoError(t, a.bridge(t.Context(), n))

	n.Port.Type = "hw_veb"
	require.Equal(t, compute.Conflict, compute.KindOf(a.bridge(t.Context(), n)))
	n.Port.Type, n.Port.Bridge = compute.VIFOpenVSwitch, compute.BridgeOf(compute.VIFOpenVSwitch, network)
	require.NoError(t, a.bridge(t.Context(), n), "it is the network service's")
	n.Port.ID = nil
	require.Equal(t, compute.Conflict, compute.KindOf(a.bridge(t.Context(), n)))
}
