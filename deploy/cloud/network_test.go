package cloud_test

import (
	"context"
	"net"
	"path/filepath"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/portsbinding"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/cloud"
	"strongroom/deploy/cloud/cloudtest"
)

// Ports can be bound to each host, the networks are still there after a stop, and neither the
// machine's network nor the pid files show anything of it.
func TestNeutronBindsPorts(t *testing.T) {
	t.Parallel()
	cloudtest.NeedNetworks(t)
	before := interfaces(t)
	cfg := cloud.Config{Dir: folder(t), Services: []string{cloud.Neutron}}
	first := start(t, cfg)
	bind := func(c *cloud.Cloud, networkID string) (id string) {
		t.Helper()
		provider, err := login(t, c, cloud.Service)
		require.NoError(t, err)
		client, err := openstack.NewNetworkV2(provider, cloudtest.Endpoint)
		require.NoError(t, err)
		if networkID == "" {
			made, err := networks.Create(t.Context(), client, networks.CreateOpts{Name: "one"}).Extract()
			require.NoError(t, err)
			networkID = made.ID
		}
		for _, host := range cloud.Hosts {
			var port struct {
				ports.Port
				portsbinding.PortsBindingExt
			}
			require.NoError(t, ports.Create(t.Context(), client, portsbinding.CreateOptsExt{
				CreateOptsBuilder: ports.CreateOpts{NetworkID: networkID}, HostID: host,
			}).ExtractInto(&port))
			require.Equal(t, host, port.HostID)
			require.Equal(t, "ovs", port.VIFType)
		}
		return networkID
	}
	network := bind(first, "")
	require.Equal(t, before, interfaces(t), "the switches are in namespaces of their own")
	require.NoError(t, first.Stop(context.Background()))
	left, err := filepath.Glob(filepath.Join(cfg.Dir, "run", "*.pid"))
	require.NoError(t, err)
	require.Empty(t, left)
	bind(start(t, cfg), network)
}

// interfaces are the names of the switches' bridges that this process sees.
func interfaces(t *testing.T) (names []string) {
	t.Helper()
	all, err := net.Interfaces()
	require.NoError(t, err)
	for _, i := range all {
		if i.Name == "br-int" || i.Name == "ovs-netdev" {
			names = append(names, i.Name)
		}
	}
	return names
}
