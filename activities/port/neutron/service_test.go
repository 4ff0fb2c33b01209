package neutron_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	gopher "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/dns"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/external"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/portsecurity"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/quotas"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/trunks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	"github.com/stretchr/testify/require"

	"strongroom/activities/port"
	"strongroom/activities/port/neutron"
	"strongroom/activities/port/porttest"
	"strongroom/compute"
	"strongroom/deploy/cloud"
	"strongroom/deploy/cloud/cloudtest"
)

func TestMain(m *testing.M) { os.Exit(cloudtest.RunWithNetworks(m)) }

// logins are clients by project: a client that is logged in as a user of it.
type logins map[string]*gophercloud.ServiceClient

func (l logins) Client(_ context.Context, cred compute.Credential) (*gophercloud.ServiceClient, error) {
	if client, ok := l[cred.ProjectID]; ok {
		return client, nil
	}
	return nil, compute.Errorf(compute.Forbidden, "nobody is logged in to project %s", cred.ProjectID)
}

func networkClient(t testing.TB, provider *gophercloud.ProviderClient) *gophercloud.ServiceClient {
	t.Helper()
	client, err := gopher.NewNetworkV2(provider, cloudtest.Endpoint)
	require.NoError(t, err)
	return client
}

// bench is a project with users, and strongroom's own user beside them.
type bench struct {
	porttest.Harness
	clients logins                     // of Harness.Service
	user    *gophercloud.ServiceClient // the owner's
}

func open(t *testing.T) bench {
	t.Helper()
	cloudtest.NeedNetworks(t)
	mine, theirs := cloudtest.NewProject(t), cloudtest.NewProject(t)
	own := cloudtest.Login(t, cloud.Service)
	user, stranger := mine.Login(t), theirs.Login(t)
	clients := func() logins {
		return logins{mine.ID: networkClient(t, user), theirs.ID: networkClient(t, stranger), compute.DeploymentProject: networkClient(t, own)}
	}
	b, again := bench{clients: clients(), user: networkClient(t, user)}, clients()
	b.Harness = porttest.Harness{
		Service: &neutron.Service{Clients: b.clients}, Again: &neutron.Service{Clients: again},
		Owner: compute.Credential{ID: uuid.New(), ProjectID: mine.ID}, Other: compute.Credential{ID: uuid.New(), ProjectID: theirs.ID},
		Hosts:   [2]string(cloud.Hosts),
		Network: b.network, Bring: b.bring,
		Rename: func(t testing.TB, id port.ID, name string) {
			require.NoError(t, ports.Update(t.Context(), b.user, id.String(), ports.UpdateOpts{Name: &name}).Err)
		},
		Limit: func(t testing.TB, most int) {
			admin := networkClient(t, cloudtest.Login(t, "admin"))
			require.NoError(t, quotas.Update(t.Context(), admin, mine.ID, quotas.UpdateOpts{Port: &most}).Err)
		},
	}
	return b
}

// network makes a network whose subnet has so many addresses to give to ports.
func (b bench) network(t testing.TB, addresses int) port.NetworkID {
	t.Helper()
	made, err := networks.Create(t.Context(), b.user, networks.CreateOpts{Name: "test"}).Extract()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, networks.Delete(context.Background(), b.user, made.ID).ExtractErr()) })
	opts := subnets.CreateOpts{NetworkID: made.ID, IPVersion: 4, CIDR: "10.1.0.0/24", DNSNameservers: []string{"192.0.2.53"}}
	if addresses < 20 {
		opts.AllocationPools = []subnets.AllocationPool{{Start: "10.1.0.10", End: fmt.Sprintf("10.1.0.%d", 9+addresses)}}
	}
	require.NoError(t, subnets.Create(t.Context(), b.user, opts).Err)
	return port.NetworkID{UUID: uuid.MustParse(made.ID)}
}

// bring makes a port as a user does.
func (b bench) bring(t testing.TB, network port.NetworkID) port.ID {
	t.Helper()
	made, err := ports.Create(t.Context(), b.user, ports.CreateOpts{NetworkID: network.String(), Name: "a user's"}).Extract()
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := ports.Delete(context.Background(), b.user, made.ID).ExtractErr(); !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
			require.NoError(t, err)
		}
	})
	return port.ID{UUID: uuid.MustParse(made.ID)}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	cloudtest.NeedNetworks(t)
	porttest.Run(t, func(t *testing.T) porttest.Harness { return open(t).Harness })
}

// A port whose user lets nothing pass never becomes active: no server waits for it.
func TestADisabledPortIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	b := open(t)
	ctx := t.Context()
	id := b.bring(t, b.network(t, 20))
	server := compute.ServerID{UUID: uuid.New()}
	_, err := b.Service.Bind(ctx, port.BindInput{Credential: b.Owner, Port: id, Server: server, Host: b.Hosts[0], Zone: "nova"})
	require.NoError(t, err)
	for _, enabled := range []bool{true, false, true} {
		require.NoError(t, ports.Update(ctx, b.user, id.String(), ports.UpdateOpts{AdminStateUp: &enabled}).Err)
		got, err := b.Service.Get(ctx, b.Owner, id)
		require.NoError(t, err)
		require.Equal(t, !enabled, got.Disabled)
		looked, err := (&port.Activities{Service: b.Service}).Look(ctx, port.LookInput{Credential: b.Owner, Server: server, Ports: []port.ID{id}})
		require.NoError(t, err)
		require.Equal(t, enabled, slices.Contains(looked.Inactive, id), "its host plugs nothing here")
	}
}

// Ports of a network without port security have no security groups: one that is asked for is refused, and the default one left out.
func TestPlanWithoutPortSecurity(t *testing.T) {
	t.Parallel()
	b := open(t)
	off := false
	id := b.network(t, 20)
	require.NoError(t, networks.Update(t.Context(), b.user, id.String(), portsecurity.NetworkUpdateOptsExt{
		UpdateOptsBuilder: networks.UpdateOpts{}, PortSecurityEnabled: &off,
	}).Err)
	web, err := groups.Create(t.Context(), b.user, groups.CreateOpts{Name: "web"}).Extract()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, groups.Delete(context.Background(), b.user, web.ID).ExtractErr()) })
	plan := func(groups ...string) ([]compute.Network, error) {
		got, _, err := port.Plan(t.Context(), b.Service, b.Owner, compute.NetworkRequest{
			Networks: []compute.RequestedNetwork{{UUID: id.String()}}, Groups: groups, Least: 1, Most: 1,
		})
		return got, err
	}
	_, err = plan("default", "web")
	require.True(t, compute.Is(err, compute.Invalid), "%v", err)
	require.EqualError(t, err, port.Ungroupable().Error())
	got, err := plan("default")
	require.NoError(t, err)
	require.Nil(t, got[0].Port.Groups)
	made, err := b.Service.Ensure(t.Context(), port.EnsureInput{
		Credential: b.Owner, Name: compute.PortName(compute.NewOperationID(), "nic0"), Server: compute.ServerID{UUID: uuid.New()}, Network: id,
	})
	require.NoError(t, err)
	require.Empty(t, made.Groups)
	require.NoError(t, ports.Delete(t.Context(), b.user, made.ID.String()).ExtractErr())
}

// A port has its server's name in DNS while the server has it; one that its user gave another name is not that server's.
func TestPortsAreNamedInDNS(t *testing.T) {
	t.Parallel()
	b := open(t)
	server, network := compute.ServerID{UUID: uuid.New()}, b.network(t, 20)
	isNamed := func(id port.ID, want string) {
		t.Helper()
		var got struct {
			ports.Port
			dns.PortDNSExt
		}
		require.NoError(t, ports.Get(t.Context(), b.user, id.String()).ExtractInto(&got))
		require.Equal(t, want, got.DNSName)
	}
	bind := func(id port.ID, hostname string) error {
		_, err := b.Service.Bind(t.Context(), port.BindInput{Credential: b.Owner, Port: id, Server: server, Host: b.Hosts[0], Zone: "nova", Hostname: hostname})
		return err
	}
	name := compute.PortName(compute.OperationID("req-"+uuid.NewString()), "nic0")
	own, err := b.Service.Ensure(t.Context(), port.EnsureInput{Credential: b.Owner, Name: name, Server: server, Network: network})
	require.NoError(t, err)
	for _, c := range []struct{ hostname, has string }{{"vault", "vault"}, {"", "vault"}, {"cellar", "cellar"}} {
		require.NoError(t, bind(own.ID, c.hostname))
		isNamed(own.ID, c.has)
	}
	require.NoError(t, b.Service.Remove(t.Context(), port.RemoveInput{Credential: b.Owner, Name: name}))

	brought, users := b.bring(t, network), "db"
	require.NoError(t, ports.Update(t.Context(), b.user, brought.String(), dns.PortUpdateOptsExt{UpdateOptsBuilder: ports.UpdateOpts{}, DNSName: &users}).Err)
	err = bind(brought, "vault")
	require.Equal(t, compute.Invalid, compute.KindOf(err), "%v", err)
	require.EqualError(t, err, fmt.Sprintf("Port %s not usable for instance %s. Value db assigned to dns_name attribute does not match instance's hostname vault", brought, server))
	isNamed(brought, users)
	asked := compute.NetworkRequest{Networks: []compute.RequestedNetwork{{Port: brought.String()}}, Hostname: "vault"}
	_, _, err = port.Plan(t.Context(), b.Service, b.Owner, asked)
	require.EqualError(t, err, fmt.Sprintf("Port %s not usable for instance vault. Value db assigned to dns_name attribute does not match instance's hostname vault", brought))
	asked.Hostname = users
	_, _, err = port.Plan(t.Context(), b.Service, b.Owner, asked)
	require.NoError(t, err)
	require.NoError(t, bind(brought, users))
	for _, keep := range []bool{true, false} {
		require.NoError(t, b.Service.Unbind(t.Context(), port.UnbindInput{Credential: b.Owner, Port: brought, Server: server, Keep: keep}))
		isNamed(brought, map[bool]string{true: users, false: ""}[keep])
	}
}

// What a guest must be told of a subnet without DHCP, or of IPv6, is known with the plan of its interface.
func TestPlanOfWhatGuestsAreTold(t *testing.T) {
	t.Parallel()
	b := open(t)
	made, err := networks.Create(t.Context(), b.user, networks.CreateOpts{Name: "bare"}).Extract()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, networks.Delete(context.Background(), b.user, made.ID).ExtractErr()) })
	no := false
	bare, err := subnets.Create(t.Context(), b.user, subnets.CreateOpts{
		NetworkID: made.ID, IPVersion: 4, CIDR: "10.1.0.0/24", EnableDHCP: &no, DNSNameservers: []string{"192.0.2.53"},
		HostRoutes: []subnets.HostRoute{{DestinationCIDR: "192.0.2.0/24", NextHop: "10.1.0.9"}},
	}).Extract()
	require.NoError(t, err)
	want := map[compute.SubnetID]compute.AddressMode{}
	for i, mode := range []compute.AddressMode{compute.AddressSLAAC, compute.AddressStateful, compute.AddressStateless, compute.AddressDHCP} {
		opts := subnets.CreateOpts{NetworkID: made.ID, IPVersion: 6, CIDR: fmt.Sprintf("fd00:0:0:%d::/64", i)}
		if mode != compute.AddressDHCP {
			opts.IPv6AddressMode, opts.IPv6RAMode = string(mode), string(mode)
		}
		six, err := subnets.Create(t.Context(), b.user, opts).Extract()
		require.NoError(t, err)
		want[compute.SubnetID{UUID: uuid.MustParse(six.ID)}] = mode
	}
	got, _, err := port.Plan(t.Context(), b.Service, b.Owner, compute.NetworkRequest{Networks: []compute.RequestedNetwork{{UUID: made.ID}}})
	require.NoError(t, err)
	for _, s := range got[0].Port.Told {
		require.Equal(t, want[s.ID], s.Mode)
		require.True(t, s.Prefix.Addr().Is6())
		delete(want, s.ID)
	}
	require.Empty(t, want)
	require.Equal(t, []compute.ToldSubnet{{
		ID: compute.SubnetID{UUID: uuid.MustParse(bare.ID)}, Prefix: netip.MustParsePrefix("10.1.0.0/24"), Gateway: netip.MustParseAddr("10.1.0.1"),
		DNS:    []netip.Addr{netip.MustParseAddr("192.0.2.53")},
		Routes: []compute.ToldRoute{{To: netip.MustParsePrefix("192.0.2.0/24"), Via: netip.MustParseAddr("10.1.0.9")}},
	}}, got[0].Port.Static)
}

// A port that is the parent of a trunk comes with the trunk's others, and where they are.
func TestPlanOfATrunk(t *testing.T) {
	t.Parallel()
	b := open(t)
	parent, sub := b.bring(t, b.network(t, 20)), b.bring(t, b.network(t, 20))
	made, err := trunks.Create(t.Context(), b.user, trunks.CreateOpts{
		PortID: parent.String(), Subports: []trunks.Subport{{PortID: sub.String(), SegmentationID: 101, SegmentationType: "vlan"}},
	}).Extract()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, trunks.Delete(context.Background(), b.user, made.ID).ExtractErr()) })
	got, _, err := port.Plan(t.Context(), b.Service, b.Owner, compute.NetworkRequest{Networks: []compute.RequestedNetwork{{Port: parent.String()}}})
	require.NoError(t, err)
	is, err := ports.Get(t.Context(), b.user, sub.String()).Extract()
	require.NoError(t, err)
	require.Len(t, got[0].Port.Subports, 1)
	told := got[0].Port.Subports[0]
	require.Positive(t, told.MTU)
	told.MTU = 0
	require.Equal(t, compute.Subport{VLAN: 101, ID: sub, Network: is.NetworkID, MAC: is.MACAddress, Addresses: []compute.PortAddress{
		{Subnet: compute.SubnetID{UUID: uuid.MustParse(is.FixedIPs[0].SubnetID)}, IP: is.FixedIPs[0].IPAddress},
	}}, told)
}

// Where a port is reached from an external network is known while Neutron has it so.
func TestFloatingAddresses(t *testing.T) {
	t.Parallel()
	b := open(t)
	admin, outside := networkClient(t, cloudtest.Login(t, "admin")), true
	wan, err := networks.Create(t.Context(), admin, external.CreateOptsExt{CreateOptsBuilder: networks.CreateOpts{Name: "wan"}, External: &outside}).Extract()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, networks.Delete(context.Background(), admin, wan.ID).ExtractErr()) })
	require.NoError(t, subnets.Create(t.Context(), admin, subnets.CreateOpts{NetworkID: wan.ID, IPVersion: 4, CIDR: "203.0.113.0/24"}).Err)
	onIt := compute.NetworkRequest{Networks: []compute.RequestedNetwork{{UUID: wan.ID}}}
	_, _, err = port.Plan(t.Context(), b.Service, b.Owner, onIt)
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
	require.EqualError(t, err, "It is not allowed to create an interface on external network "+wan.ID)
	onIt.External = true // network:attach_external_network; who may, sees its subnets
	_, _, err = port.Plan(t.Context(), &neutron.Service{Clients: logins{b.Owner.ProjectID: admin}}, b.Owner, onIt)
	require.NoError(t, err)
	id := b.bring(t, b.network(t, 20))
	is, err := ports.Get(t.Context(), b.user, id.String()).Extract()
	require.NoError(t, err)
	router, err := routers.Create(t.Context(), b.user, routers.CreateOpts{GatewayInfo: &routers.GatewayInfo{NetworkID: wan.ID}}).Extract()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, routers.Delete(context.Background(), b.user, router.ID).ExtractErr()) })
	subnet := is.FixedIPs[0].SubnetID
	require.NoError(t, routers.AddInterface(t.Context(), b.user, router.ID, routers.AddInterfaceOpts{SubnetID: subnet}).Err)
	t.Cleanup(func() {
		require.NoError(t, routers.RemoveInterface(context.Background(), b.user, router.ID, routers.RemoveInterfaceOpts{SubnetID: subnet}).Err)
	})
	reached := func() []string {
		t.Helper()
		got, _, err := port.Plan(t.Context(), b.Service, b.Owner, compute.NetworkRequest{Networks: []compute.RequestedNetwork{{Port: id.String()}}})
		require.NoError(t, err)
		return got[0].Port.Addresses[0].Floating
	}
	require.Empty(t, reached())
	floating, err := floatingips.Create(t.Context(), b.user, floatingips.CreateOpts{FloatingNetworkID: wan.ID, PortID: id.String()}).Extract()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, floatingips.Delete(context.Background(), b.user, floating.ID).ExtractErr()) })
	require.Equal(t, []string{floating.FloatingIP}, reached())
	require.NoError(t, floatingips.Update(t.Context(), b.user, floating.ID, floatingips.UpdateOpts{PortID: new(string)}).Err)
	require.Empty(t, reached())
}
