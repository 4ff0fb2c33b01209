package devcloud_test

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/quotas"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	"github.com/stretchr/testify/require"

	"strongroom/activities/port"
	"strongroom/activities/port/local"
	"strongroom/compute"
	"strongroom/devcloud"
	"strongroom/schema/schematest"
)

// setupNetworks gives a cloud each of whose projects has a network, and demo's, with the server that has a port on it.
func setupNetworks(t *testing.T) (b *bench, lan local.Network, server compute.ServerID, made port.Port) {
	t.Helper()
	b = setup(t)
	b.stop()
	projects, err := devcloud.Projects(b.cfg.UsersFile)
	require.NoError(t, err)
	require.Len(t, projects, 3)
	service := &local.Service{Pool: schematest.New(t), Quota: -1}
	for i, p := range projects {
		prefix := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, byte(i), 0}), 24)
		service.Configured = append(service.Configured, local.Network{
			ID: port.NetworkID{UUID: uuid.New()}, Name: p.Name, Projects: []string{p.ID}, Hosts: []string{"h"}, Bridge: "br", MTU: 1500,
			Prefix: prefix, Gateway: prefix.Addr().Next(), DNS: []netip.Addr{prefix.Addr().Next()},
		})
	}
	require.NoError(t, local.CheckAll(service.Configured))
	b.cfg.Networks = service
	b.start(t)
	lan, server = service.Configured[1], compute.ServerID{UUID: uuid.New()}
	require.Equal(t, "demo", lan.Name)
	made, err = service.Ensure(t.Context(), port.EnsureInput{
		Credential: compute.Credential{ProjectID: lan.Projects[0]}, Name: compute.PortName(compute.NewOperationID(), "nic0"), Server: server, Network: lan.ID,
	})
	require.NoError(t, err)
	return b, lan, server, made
}

// The standard client looks networks up as it does before it asks for a server, and shows what a server has.
func TestTheStandardClientsNetworks(t *testing.T) {
	t.Parallel()
	b, lan, server, made := setupNetworks(t)
	openstack := b.openstackClient(t, "demo")
	list := func(args ...string) []map[string]any {
		t.Helper()
		return parse[[]map[string]any](t, openstack(append(args, "-f", "json")...))
	}
	show := func(args ...string) map[string]any {
		t.Helper()
		return parse[map[string]any](t, openstack(append(args, "-f", "json")...))
	}
	for _, which := range [][]string{{}, {"--long"}, {"--internal"}, {"--enable"}, {"--name", "demo"}, {"--project", lan.Projects[0]}} {
		found := list(append([]string{"network", "list"}, which...)...)
		require.Len(t, found, 1, "%v", which)
		require.Equal(t, lan.ID.String(), found[0]["ID"])
	}
	require.Empty(t, list("network", "list", "--external"))
	require.Equal(t, lan.ID.String(), show("network", "show", "demo")["id"])
	subnets := list("subnet", "list", "--network", "demo", "--ip-version", "4")
	require.Len(t, subnets, 1)
	require.Equal(t, "10.1.1.0/24", show("subnet", "show", subnets[0]["ID"].(string))["cidr"])
	for _, which := range [][]string{
		{}, {"--device-id", server.String()}, {"--network", "demo"}, {"--mac-address", made.MAC}, {"--fixed-ip", "ip-address=10.1.1.2"}, {"--long"}, {"--device-owner", "compute:nova"},
	} {
		found := list(append([]string{"port", "list"}, which...)...)
		require.Len(t, found, 1, "%v", which)
		require.Equal(t, made.ID.String(), found[0]["ID"])
	}
	require.Equal(t, made.MAC, show("port", "show", made.ID.String())["mac_address"])
	require.Len(t, list("security", "group", "list"), 1)
	require.Equal(t, "default", show("security", "group", "show", "default")["name"])
	require.Len(t, list("security", "group", "rule", "list", "default"), 2)
	require.NotEmpty(t, list("extension", "list", "--network"))
	require.Equal(t, lan.ID.String(), list("network", "list", "--sort-column", "Name")[0]["ID"])
}

// A project looks up its network, subnet, ports, group and quotas with a client of Go's, and sees nothing of
// another project's. Nothing can be changed.
func TestProjectsLookUpTheirNetworks(t *testing.T) {
	t.Parallel()
	b, lan, server, made := setupNetworks(t)
	client := func(user, project string) *gophercloud.ServiceClient {
		t.Helper()
		c, err := openstack.NewNetworkV2(b.login(t, user, project), gophercloud.EndpointOpts{Region: "RegionOne"})
		require.NoError(t, err)
		return c
	}
	mine, theirs := client("demo", "demo"), client("alt", "alt")
	pages, err := networks.List(mine, networks.ListOpts{Name: "demo"}).AllPages(t.Context())
	require.NoError(t, err)
	found, err := networks.ExtractNetworks(pages)
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, lan.ID.String(), found[0].ID)
	pages, err = networks.List(mine, networks.ListOpts{Name: "alt"}).AllPages(t.Context())
	require.NoError(t, err)
	empty, err := pages.IsEmpty()
	require.NoError(t, err)
	require.True(t, empty)
	require.Error(t, networks.Get(t.Context(), theirs, lan.ID.String()).Err)
	subnet, err := subnets.Get(t.Context(), mine, found[0].Subnets[0]).Extract()
	require.NoError(t, err)
	require.Equal(t, []string{"10.1.1.0/24", "10.1.1.1"}, []string{subnet.CIDR, subnet.GatewayIP})
	_, err = networks.Create(t.Context(), mine, networks.CreateOpts{Name: "own"}).Extract()
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusNotImplemented), "%v", err)

	list := func(c *gophercloud.ServiceClient, which ports.ListOpts) []ports.Port {
		t.Helper()
		pages, err := ports.List(c, which).AllPages(t.Context())
		require.NoError(t, err)
		all, err := ports.ExtractPorts(pages)
		require.NoError(t, err)
		return all
	}
	has := list(mine, ports.ListOpts{DeviceID: server.String()})
	require.Len(t, has, 1)
	require.Equal(t, []string{made.ID.String(), made.MAC, "10.1.1.2", "compute:nova"}, []string{has[0].ID, has[0].MACAddress, has[0].FixedIPs[0].IPAddress, has[0].DeviceOwner})
	require.Len(t, list(mine, ports.ListOpts{FixedIPs: []ports.FixedIPOpts{{IPAddress: "10.1.1.2"}}}), 1)
	require.Empty(t, list(mine, ports.ListOpts{FixedIPs: []ports.FixedIPOpts{{IPAddress: "10.1.1.3"}}}))
	require.Empty(t, list(mine, ports.ListOpts{DeviceID: uuid.NewString()}))
	require.Empty(t, list(theirs, ports.ListOpts{}))
	_, err = mine.Get(t.Context(), mine.ServiceURL("ports")+"?colour=red", nil, nil) //nolint:bodyclose // it is refused
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusBadRequest), "%v", err)

	pages, err = groups.List(mine, groups.ListOpts{Name: "default"}).AllPages(t.Context())
	require.NoError(t, err)
	all, err := groups.ExtractGroups(pages)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Len(t, all[0].Rules, 2)
	require.Equal(t, []string{all[0].ID}, has[0].SecurityGroups)
	quota, err := quotas.Get(t.Context(), mine, lan.Projects[0]).Extract()
	require.NoError(t, err)
	require.Equal(t, -1, quota.Port)
	require.NoError(t, extensions.Get(t.Context(), mine, "security-group").Err)
	require.Error(t, extensions.Get(t.Context(), mine, "router").Err)
}
