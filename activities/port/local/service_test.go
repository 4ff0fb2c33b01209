package local_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/port"
	"strongroom/activities/port/local"
	"strongroom/activities/port/porttest"
	"strongroom/compute"
	"strongroom/schema/schematest"
)

// lan is a network that Check lets pass.
func lan(number int, project string) local.Network {
	at := func(last int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("10.1.%d.%d", number, last)) }
	return local.Network{
		ID: port.NetworkID{UUID: uuid.New()}, Name: "lan", Projects: []string{project}, Hosts: []string{"h1", "h2"}, Bridge: "br-lan", MTU: 1500,
		Prefix: netip.PrefixFrom(at(0), 24), Gateway: at(1),
	}
}

func open(t *testing.T) porttest.Harness {
	pool := schematest.New(t)
	services := []*local.Service{{Pool: pool, Quota: -1}, {Pool: pool, Quota: -1}}
	owner := compute.Credential{ID: uuid.New(), ProjectID: uuid.NewString()}
	return porttest.Harness{
		Service: services[0], Again: services[1],
		Owner: owner, Other: compute.Credential{ID: uuid.New(), ProjectID: uuid.NewString()}, Hosts: [2]string{"h1", "h2"},
		Network: func(t testing.TB, addresses int) port.NetworkID {
			n := lan(len(services[0].Configured), owner.ProjectID)
			if addresses < 20 {
				n.First, n.Last = n.Addresses()[8], n.Addresses()[7+addresses]
			}
			for _, s := range services {
				s.Configured = append(s.Configured, n)
				require.NoError(t, local.CheckAll(s.Configured))
			}
			return n.ID
		},
		// Nobody makes such ports here; that one would be no port of strongroom's is the suite's to see.
		Bring: func(t testing.TB, network port.NetworkID) port.ID {
			id := port.ID{UUID: uuid.New()}
			_, err := pool.Exec(t.Context(), `INSERT INTO local_ports (id, project_id, name, network_id, address, mac)
				VALUES ($1, $2, 'a user''s', $3, '10.1.0.99', 'fa:72:0a:01:00:63')`, id, owner.ProjectID, network)
			require.NoError(t, err)
			return id
		},
		Rename: func(t testing.TB, id port.ID, name string) {
			_, err := pool.Exec(t.Context(), "UPDATE local_ports SET name = $2 WHERE id = $1", id, name)
			require.NoError(t, err)
		},
		Limit: func(_ testing.TB, ports int) {
			for _, s := range services {
				s.Quota = ports
			}
		},
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	porttest.Run(t, open)
}

// A network that takes the place of one that is gone gives out no address that ports of that one have: their MAC addresses would be the same.
func TestANetworkInThePlaceOfAnother(t *testing.T) {
	t.Parallel()
	pool, project := schematest.New(t), uuid.NewString()
	gone, n := lan(0, uuid.NewString()), lan(0, project)
	ensure := func(in local.Network, address netip.Addr) (port.Port, error) {
		s := &local.Service{Pool: pool, Configured: []local.Network{in}, Quota: -1}
		return s.Ensure(t.Context(), port.EnsureInput{
			Credential: compute.Credential{ProjectID: in.Projects[0]}, Name: compute.PortName(compute.NewOperationID(), "nic0"),
			Server: compute.ServerID{UUID: uuid.New()}, Network: in.ID, Address: address,
		})
	}
	left := func() int {
		left, err := (&local.Service{Pool: pool, Configured: []local.Network{n}, Quota: -1}).AddressesLeft(t.Context(), compute.Credential{ProjectID: project}, n.ID)
		require.NoError(t, err)
		return left
	}
	all := left()
	old, err := ensure(gone, netip.Addr{})
	require.NoError(t, err)
	made, err := ensure(n, netip.Addr{})
	require.NoError(t, err)
	require.NotEqual(t, old.MAC, made.MAC)
	_, err = ensure(n, old.Addresses[0].IP)
	require.True(t, compute.Is(err, compute.Conflict), "%v", err)
	require.Equal(t, all-2, left())
}

// Ports that are made at once have different addresses, and the quota is kept.
func TestPortsThatAreMadeAtOnce(t *testing.T) {
	t.Parallel()
	pool, project := schematest.New(t), uuid.NewString()
	n := lan(0, project)
	s := &local.Service{Pool: pool, Configured: []local.Network{n}, Quota: 5}
	cred := compute.Credential{ProjectID: project}
	errs := schematest.AtOnce(8, func(int) error {
		_, err := s.Ensure(t.Context(), port.EnsureInput{
			Credential: cred, Name: compute.PortName(compute.NewOperationID(), "nic0"), Server: compute.ServerID{UUID: uuid.New()}, Network: n.ID,
		})
		return err
	})
	refused := 0
	for _, err := range errs {
		if err != nil {
			require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
			refused++
		}
	}
	require.Equal(t, 3, refused)
	all, err := s.List(t.Context(), cred)
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, p := range all {
		seen[p.MAC], seen[p.Addresses[0].IP.String()] = true, true
	}
	require.Len(t, seen, 10)
}

// A port is active while its server runs on the host that it is bound to.
func TestStatusIsTheServers(t *testing.T) {
	t.Parallel()
	f := schematest.NewFixture(t)
	op := f.Server(compute.OpCreate)
	f.Exec("UPDATE servers SET project_id = 'p' WHERE id = $1", op.ServerID)
	n := lan(0, "p")
	s := &local.Service{Pool: f.DB, Configured: []local.Network{n}, Quota: -1}
	cred := compute.Credential{ProjectID: "p"}
	p, err := s.Ensure(t.Context(), port.EnsureInput{Credential: cred, Name: compute.PortName(op.ID, "nic0"), Server: op.ServerID, Network: n.ID})
	require.NoError(t, err)
	status := func(power compute.PowerState) string {
		t.Helper()
		f.Exec("UPDATE servers SET power_state = $2 WHERE id = $1", op.ServerID, power)
		has, err := s.Attached(t.Context(), cred, op.ServerID)
		require.NoError(t, err)
		require.Len(t, has, 1)
		return has[0].Status
	}
	require.Equal(t, "DOWN", status(compute.PowerRunning), "it is bound to no host")
	_, err = s.Bind(t.Context(), port.BindInput{Credential: cred, Port: p.ID, Server: op.ServerID, Host: "h1", Zone: "nova"})
	require.NoError(t, err)
	require.Equal(t, "ACTIVE", status(compute.PowerRunning))
	require.Equal(t, "DOWN", status(compute.PowerShutdown))

	// A network that is taken out of the configuration is nobody's: its ports are still seen, and removed.
	s.Configured = nil
	require.Equal(t, "DOWN", status(compute.PowerRunning))
	_, err = s.Bind(t.Context(), port.BindInput{Credential: cred, Port: p.ID, Server: op.ServerID, Host: "h1", Zone: "nova"})
	require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
	require.NoError(t, s.Remove(t.Context(), port.RemoveInput{Credential: cred, Name: p.Name}))
	_, err = s.Get(t.Context(), cred, p.ID)
	require.Equal(t, compute.NotFound, compute.KindOf(err), "%v", err)
}

// A network without projects is everybody's, and one of several not one's own.
func TestSharedNetworks(t *testing.T) {
	t.Parallel()
	everybodys, two := lan(1, ""), lan(2, "a")
	everybodys.Projects, two.Projects = nil, []string{"a", "b"}
	s := &local.Service{Configured: []local.Network{everybodys, two}}
	for project, ids := range map[string]int{"a": 2, "b": 2, "c": 1} {
		all, err := s.Networks(t.Context(), compute.Credential{ProjectID: project})
		require.NoError(t, err)
		require.Len(t, all, ids, project)
		for _, n := range all {
			require.True(t, n.Shared)
			require.Empty(t, n.ProjectID)
		}
	}
}

func TestCheckRefusesNetworksThatCannotBe(t *testing.T) {
	t.Parallel()
	good := lan(1, "p")
	require.NoError(t, local.CheckAll([]local.Network{good, lan(2, "p")}))
	for name, spoil := range map[string]func(n *local.Network){
		"no uuid":    func(n *local.Network) { n.ID = port.NetworkID{} },
		"no name":    func(n *local.Network) { n.Name = "" },
		"no bridge":  func(n *local.Network) { n.Bridge = "" },
		"no host":    func(n *local.Network) { n.Hosts = nil },
		"no prefix":  func(n *local.Network) { n.Prefix = netip.Prefix{} },
		"IPv6":       func(n *local.Network) { n.Prefix = netip.MustParsePrefix("fd00::/120") },
		"host bits":  func(n *local.Network) { n.Prefix = netip.MustParsePrefix("10.1.1.1/24") },
		"too large":  func(n *local.Network) { n.Prefix = netip.MustParsePrefix("10.1.0.0/16") },
		"elsewhere":  func(n *local.Network) { n.Gateway = netip.MustParseAddr("10.9.0.1") },
		"broadcast":  func(n *local.Network) { n.Gateway = netip.MustParseAddr("10.1.1.255") },
		"half range": func(n *local.Network) { n.First = netip.MustParseAddr("10.1.1.9") },
		"backwards":  func(n *local.Network) { n.First, n.Last = n.Addresses()[9], n.Addresses()[8] },
		"no MTU":     func(n *local.Network) { n.MTU = 0 },
	} {
		bad := good
		spoil(&bad)
		require.Error(t, local.CheckAll([]local.Network{bad}), name)
	}
	overlapping := lan(1, "p")
	require.ErrorContains(t, local.CheckAll([]local.Network{good, overlapping}), "addresses in common")
}
