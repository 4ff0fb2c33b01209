package porttest

import (
	"net"
	"net/netip"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/port"
	"strongroom/compute"
)

func look(b bench) {
	n, err := b.Again.Network(b.ctx, b.Owner, b.network)
	require.NoError(b, err)
	require.Equal(b, b.network, n.ID)
	require.NotEmpty(b, n.Name)
	require.Equal(b, b.Owner.ProjectID, n.ProjectID)
	require.Positive(b, n.MTU)
	require.Len(b, n.Subnets, 1)
	s := n.Subnets[0]
	require.True(b, s.Prefix.Contains(s.Gateway), "%v %v", s.Prefix, s.Gateway)
	require.True(b, s.DHCP)
	require.NoError(b, n.CheckAttachable(b.Owner, false))
	all, err := b.Service.Networks(b.ctx, b.Owner)
	require.NoError(b, err)
	require.Equal(b, []port.Network{n}, all)
	visible, err := b.Again.Visible(b.ctx, b.Owner)
	require.NoError(b, err)
	require.Contains(b, visible, compute.NamedNetwork{ID: n.ID, Name: n.Name})
	visible, err = b.Service.Visible(b.ctx, b.Other)
	require.NoError(b, err)
	require.NotContains(b, visible, compute.NamedNetwork{ID: n.ID, Name: n.Name})
	_, err = b.Service.Visible(b.ctx, compute.Credential{})
	b.kind(compute.Forbidden, err)

	unknown := port.NetworkID{UUID: uuid.New()}
	_, err = b.Service.Network(b.ctx, b.Owner, unknown)
	b.kind(compute.NotFound, err)
	require.EqualError(b, err, "Network "+unknown.String()+" could not be found.")
	_, err = b.Service.Get(b.ctx, b.Owner, port.ID(unknown))
	b.kind(compute.NotFound, err)
	_, err = b.Service.Networks(b.ctx, compute.Credential{})
	b.kind(compute.Forbidden, err)
}

func findGroups(b bench) {
	found, err := b.Service.Groups(b.ctx, b.Owner, []string{"default"})
	require.NoError(b, err)
	require.Len(b, found, 1)
	again, err := b.Again.Groups(b.ctx, b.Owner, []string{found[0].String()})
	require.NoError(b, err)
	require.Equal(b, found, again)
	in := b.input()
	in.Groups = found
	require.Equal(b, found, b.ensure(in).Groups)

	names, err := b.Again.GroupNames(b.ctx, b.Owner, []port.GroupID{{UUID: uuid.New()}, found[0]})
	require.NoError(b, err)
	require.Equal(b, map[port.GroupID]string{found[0]: "default"}, names)
	names, err = b.Service.GroupNames(b.ctx, b.Other, found)
	require.NoError(b, err)
	require.Empty(b, names)
	brought := b.get(b.Bring(b, b.network))
	require.Equal(b, found, brought.Plugged(compute.Network{Port: &compute.Port{}}).Port.Secured)

	_, err = b.Service.Groups(b.ctx, b.Owner, []string{"default", "none"})
	b.kind(compute.NotFound, err)
	require.EqualError(b, err, "Security group none not found.")
	_, err = b.Service.Groups(b.ctx, b.Other, []string{found[0].String()})
	b.kind(compute.NotFound, err)
}

func serverGroups(b bench) {
	add := func(name string) error { return b.Again.AddGroup(b.ctx, b.Owner, b.server, name) }
	none := func() {
		b.Helper()
		has, err := b.Service.ServerGroups(b.ctx, b.Owner, b.Owner.ProjectID, b.server)
		require.NoError(b, err)
		require.Empty(b, has)
	}
	none()
	b.kind(compute.NotFound, add("default"))
	in := b.input()
	p := b.ensure(in)
	has, err := b.Service.ServerGroups(b.ctx, b.Owner, b.Owner.ProjectID, b.server)
	require.NoError(b, err)
	require.Len(b, has, 1)
	require.Equal(b, []any{"default", b.Owner.ProjectID, []port.ID{p.ID}}, []any{has[0].Name, has[0].ProjectID, has[0].Ports})
	require.NotEmpty(b, has[0].Rules)
	for _, name := range []string{"default", has[0].ID.String()} { // it has it already
		require.NoError(b, add(name))
	}
	b.kind(compute.NotFound, add("none"))
	require.EqualError(b, add("none"), "Security group none is not found for project "+b.Owner.ProjectID)
	b.kind(compute.NotFound, b.Service.RemoveGroup(b.ctx, b.Owner, b.server, "none"))
	b.kind(compute.NotFound, b.Service.AddGroup(b.ctx, b.Other, b.server, "default"))
	b.kind(compute.NotFound, b.Service.AddGroup(b.ctx, b.Other, b.server, has[0].ID.String()))
	require.Equal(b, p.Groups, b.get(p.ID).Groups)
	b.remove(in)
	none()
}

func ensureTwice(b bench) {
	in := b.input()
	p := b.ensure(in)
	require.Equal(b, in.Name, p.Name)
	require.Equal(b, b.network, p.Network)
	require.Equal(b, b.Owner.ProjectID, p.ProjectID)
	require.Equal(b, b.server.String(), p.Device)
	require.Len(b, p.Addresses, 1)
	require.True(b, b.subnet().Prefix.Contains(p.Addresses[0].IP))
	_, err := net.ParseMAC(p.MAC)
	require.NoError(b, err)
	require.Empty(b, p.Host)
	require.Zero(b, p.VIF)
	again, err := b.Again.Ensure(b.ctx, in)
	require.NoError(b, err)
	require.Equal(b, p.ID, again.ID)
	require.Equal(b, p.MAC, again.MAC)
	require.Equal(b, []string{in.Name}, b.names())

	second := b.ensure(b.input())
	require.NotEqual(b, p.ID, second.ID)
	require.NotEqual(b, p.MAC, second.MAC)
	require.NotEqual(b, p.Addresses, second.Addresses)
}

// ensureAtOnce: whatever each of several attempts got, one port is there when they are through, and that
// is what the next one gets.
func ensureAtOnce(b bench) {
	in := b.input()
	b.Cleanup(func() { b.remove(in) })
	b.atOnce(4, func(_ int, s port.Service) {
		_, err := s.Ensure(b.ctx, in)
		if err != nil { // what it made may have been removed as a double
			b.Log(err)
		}
	})
	p := b.ensure(in)
	require.Equal(b, []string{in.Name}, b.names())
	require.Equal(b, p.ID, b.bind(p.ID, b.Hosts[0]).ID)
}

func ensureRefused(b bench) {
	in := b.input()
	in.Network = port.NetworkID{UUID: uuid.New()}
	_, err := b.Service.Ensure(b.ctx, in)
	b.kind(compute.NotFound, err)
	require.EqualError(b, err, "Network "+in.Network.String()+" could not be found.")

	in = b.input()
	in.Groups = []port.GroupID{{UUID: uuid.New()}}
	_, err = b.Service.Ensure(b.ctx, in)
	b.kind(compute.NotFound, err)
	require.EqualError(b, err, "Security group "+in.Groups[0].String()+" not found.")

	for _, spoil := range []func(in *port.EnsureInput){
		func(in *port.EnsureInput) { in.Name = "" },
		func(in *port.EnsureInput) { in.Name = "strongroom-" },
		func(in *port.EnsureInput) { in.Name = "a user's" },
		func(in *port.EnsureInput) { in.Server = compute.ServerID{} },
	} {
		in = b.input()
		spoil(&in)
		_, err = b.Service.Ensure(b.ctx, in)
		b.kind(compute.Invalid, err)
	}
	in = b.input()
	in.Credential = compute.Credential{}
	_, err = b.Service.Ensure(b.ctx, in)
	b.kind(compute.Forbidden, err)
	require.Empty(b, b.names())
}

func address(b bench) {
	in := b.input()
	in.Address = highest(b.subnet().Prefix)
	p := b.ensure(in)
	require.Equal(b, in.Address, p.Addresses[0].IP)

	taken := b.input()
	taken.Address = in.Address
	_, err := b.Service.Ensure(b.ctx, taken)
	b.kind(compute.Conflict, err)
	require.EqualError(b, err, "Fixed IP "+in.Address.String()+" is already in use.")
	asked := compute.NetworkRequest{Networks: []compute.RequestedNetwork{{UUID: b.network.String(), FixedIP: in.Address.String()}}}
	_, _, err = port.Plan(b.ctx, b.Service, b.Owner, asked) // before it is made
	b.kind(compute.Conflict, err)
	require.EqualError(b, err, "Fixed IP "+in.Address.String()+" is already in use.")
	asked.Most = 1
	_, _, err = port.Plan(b.ctx, b.Service, b.Owner, asked)
	b.kind(compute.Invalid, err)
	require.EqualError(b, err, "Fixed IP address "+in.Address.String()+" is already in use on instance "+b.server.String()+".")
	free := compute.RequestedNetwork{UUID: b.network.String(), FixedIP: in.Address.Prev().String()}
	asked.Networks = []compute.RequestedNetwork{free}
	require.Equal(b, 1, b.fits(asked))
	asked.Networks = append(asked.Networks, free)
	_, _, err = port.Plan(b.ctx, b.Service, b.Owner, asked)
	b.kind(compute.Invalid, err)

	outside := b.input()
	outside.Address = netip.MustParseAddr("203.0.113.7")
	_, err = b.Service.Ensure(b.ctx, outside)
	b.kind(compute.Invalid, err)
	require.EqualError(b, err, "Fixed IP 203.0.113.7 is not a valid ip address for network "+b.network.String()+".")
	require.Equal(b, []string{in.Name}, b.names())
}

func exhausted(b bench) {
	b.network = b.Network(b, 1)
	b.ensure(b.input())
	in := b.input()
	_, err := b.Service.Ensure(b.ctx, in)
	b.kind(compute.Invalid, err)
	require.EqualError(b, err, "No fixed IP addresses available for network: "+b.network.String())
	require.NotContains(b, b.names(), in.Name)
	asked := compute.NetworkRequest{Networks: []compute.RequestedNetwork{{UUID: b.network.String()}}}
	if _, tells := b.Service.(port.Limits); tells { // before one is made
		_, _, planned := port.Plan(b.ctx, b.Service, b.Owner, asked)
		b.kind(compute.Invalid, planned)
		require.EqualError(b, planned, err.Error())
		b.network = b.Network(b, 3)
		b.ensure(b.input())
		asked.Networks[0].UUID, asked.Least, asked.Most = b.network.String(), 1, 5
		require.Equal(b, 2, b.fits(asked), "servers that have addresses")
		asked.Least = 3
		_, _, planned = port.Plan(b.ctx, b.Service, b.Owner, asked)
		b.kind(compute.Invalid, planned)
	}
}

// fits gives for how many servers there are ports and addresses.
func (b bench) fits(asked compute.NetworkRequest) int {
	b.Helper()
	_, servers, err := port.Plan(b.ctx, b.Service, b.Owner, asked)
	require.NoError(b, err)
	return servers
}

func quota(b bench) {
	first := b.input()
	p := b.ensure(first)
	b.Limit(b, 1)
	in := b.input()
	_, err := b.Service.Ensure(b.ctx, in)
	b.kind(compute.Forbidden, err)
	require.EqualError(b, err, "Maximum number of ports exceeded")
	require.Equal(b, p.ID, b.ensure(first).ID, "one that is there is no new one")
	asked := compute.NetworkRequest{Networks: []compute.RequestedNetwork{{UUID: b.network.String()}}}
	_, _, err = port.Plan(b.ctx, b.Service, b.Owner, asked) // before one is made
	b.kind(compute.Forbidden, err)
	require.EqualError(b, err, "Maximum number of ports exceeded")
	b.Limit(b, 6)
	asked.Networks = append(asked.Networks, asked.Networks[0])
	asked.Least, asked.Most = 1, 4
	require.Equal(b, 2, b.fits(asked), "servers of two ports each, beside the one that is there")
	asked.Least = 3
	_, _, err = port.Plan(b.ctx, b.Service, b.Owner, asked)
	b.kind(compute.Forbidden, err)
	b.Limit(b, -1)
	require.Equal(b, 4, b.fits(asked))
	b.ensure(in)
}

func removeTwice(b bench) {
	in := b.input()
	p := b.ensure(in)
	b.bind(p.ID, b.Hosts[0])
	b.remove(in)
	b.remove(in)
	require.Empty(b, b.names())
	_, err := b.Service.Get(b.ctx, b.Owner, p.ID)
	b.kind(compute.NotFound, err)
	b.unbind(p.ID)

	// A user gave it another name.
	in = b.input()
	p = b.ensure(in)
	b.Rename(b, p.ID, "mine")
	b.remove(in)
	require.Equal(b, "mine", b.get(p.ID).Name)
	require.NoError(b, b.Again.Remove(b.ctx, port.RemoveInput{Credential: b.Owner, Name: in.Name, ID: &p.ID}))
	_, err = b.Service.Get(b.ctx, b.Owner, p.ID)
	b.kind(compute.NotFound, err)

	b.kind(compute.Invalid, b.Service.Remove(b.ctx, port.RemoveInput{Credential: b.Owner, Name: "mine"}))
	b.kind(compute.Forbidden, b.Service.Remove(b.ctx, port.RemoveInput{Name: in.Name}))
}

func otherProject(b bench) {
	in := b.input()
	p := b.ensure(in)
	b.bind(p.ID, b.Hosts[0])
	_, err := b.Service.Network(b.ctx, b.Other, b.network)
	b.kind(compute.NotFound, err)
	all, err := b.Service.Networks(b.ctx, b.Other)
	require.NoError(b, err)
	for _, n := range all {
		require.NotEqual(b, b.network, n.ID)
	}
	_, err = b.Service.Get(b.ctx, b.Other, p.ID)
	b.kind(compute.NotFound, err)
	theirs := b.input()
	theirs.Credential = b.Other
	_, err = b.Service.Ensure(b.ctx, theirs)
	b.kind(compute.NotFound, err)

	at := b.at(p.ID, b.Hosts[1])
	at.Credential = b.Other
	_, err = b.Service.Bind(b.ctx, at)
	b.kind(compute.NotFound, err)
	_, err = b.Service.Prepare(b.ctx, at)
	b.kind(compute.NotFound, err)
	b.kind(compute.NotFound, b.Service.Activate(b.ctx, at))
	require.NoError(b, b.Service.Unbind(b.ctx, port.UnbindInput{Credential: b.Other, Port: p.ID, Server: b.server}))
	require.NoError(b, b.Service.Remove(b.ctx, port.RemoveInput{Credential: b.Other, Name: in.Name, ID: &p.ID}))
	items, err := b.Service.List(b.ctx, b.Other)
	require.NoError(b, err)
	require.Empty(b, items)
	require.Equal(b, b.Hosts[0], b.bind(p.ID, b.Hosts[0]).Host)
	require.Equal(b, []string{in.Name}, b.names())
}
