package porttest

import (
	"github.com/stretchr/testify/require"

	"strongroom/activities/port"
	"strongroom/compute"
)

// plan: what a create asks of networks is checked before anything is made.
func plan(b bench) {
	ask := func(in compute.NetworkRequest) ([]compute.Network, error) {
		planned, _, err := port.Plan(b.ctx, b.Service, b.Owner, in)
		return planned, err
	}
	on := func(n compute.RequestedNetwork) compute.NetworkRequest {
		return compute.NetworkRequest{Networks: []compute.RequestedNetwork{n}}
	}
	network, err := b.Service.Network(b.ctx, b.Owner, b.network)
	require.NoError(b, err)
	id := b.network.String()
	for _, in := range []compute.NetworkRequest{{Automatic: true}, {Required: true}, on(compute.RequestedNetwork{UUID: id})} {
		got, err := ask(in)
		require.NoError(b, err)
		require.Equal(b, []compute.Network{{UUID: id, Port: &compute.Port{Label: network.Name}}}, got)
	}
	address := highest(b.subnet().Prefix).String()
	in := on(compute.RequestedNetwork{UUID: id, FixedIP: address, Tag: "front"})
	in.Groups = []string{"default"}
	got, err := ask(in)
	require.NoError(b, err)
	require.Equal(b, "front", got[0].Tag)
	require.Equal(b, address, got[0].Port.FixedIP)
	require.Len(b, got[0].Port.Groups, 1)
	require.Equal(b, in.Groups, got[0].Port.GroupNames)

	brought := b.Bring(b, b.network)
	got, err = ask(on(compute.RequestedNetwork{Port: brought.String()}))
	require.NoError(b, err)
	require.Equal(b, brought, *got[0].Port.ID)
	require.True(b, got[0].Port.Brought)
	require.Equal(b, id, got[0].UUID)
	require.Len(b, got[0].Port.Addresses, 1)
	require.NotEmpty(b, got[0].MAC)

	refused := func(kind compute.Kind, text string, in compute.NetworkRequest) {
		b.Helper()
		_, err := ask(in)
		b.kind(kind, err)
		require.ErrorContains(b, err, text)
	}
	twice := on(compute.RequestedNetwork{Port: brought.String()})
	twice.Networks = append(twice.Networks, twice.Networks[0])
	refused(compute.Conflict, "Port "+brought.String()+" is still in use.", twice)
	b.bind(brought, b.Hosts[0])
	refused(compute.Conflict, "Port "+brought.String()+" is still in use.", on(compute.RequestedNetwork{Port: brought.String()}))
	unknown := newServer().String()
	refused(compute.NotFound, "Port id "+unknown+" could not be found.", on(compute.RequestedNetwork{Port: unknown}))
	refused(compute.NotFound, "Network "+unknown+" could not be found.", on(compute.RequestedNetwork{UUID: unknown}))
	refused(compute.Invalid, "network uuid is not in proper format (lan)", on(compute.RequestedNetwork{UUID: "lan"}))
	refused(compute.Invalid, "Fixed IP 192.0.2.1 is not a valid ip address for network "+id+".", on(compute.RequestedNetwork{UUID: id, FixedIP: "192.0.2.1"}))
	for _, in := range []compute.NetworkRequest{in, {}, on(compute.RequestedNetwork{Port: brought.String()})} { // also where no port is made
		in.Groups = []string{"none"}
		refused(compute.NotFound, "Security group none not found.", in)
	}
	_, _, err = port.Plan(b.ctx, b.Service, b.Other, on(compute.RequestedNetwork{UUID: id}))
	b.kind(compute.NotFound, err)
	got, _, err = port.Plan(b.ctx, b.Service, b.Other, compute.NetworkRequest{Automatic: true})
	require.NoError(b, err)
	require.Nil(b, got, "the project has no network")
	_, _, err = port.Plan(b.ctx, b.Service, b.Other, compute.NetworkRequest{Required: true})
	b.kind(compute.Invalid, err)
	b.Network(b.T, 20)
	refused(compute.Conflict, "Multiple possible networks found, use a Network ID to be more specific.", compute.NetworkRequest{Automatic: true})
}

// serverPorts: the activities make and bind a server's ports, see them, and remove what strongroom made.
func serverPorts(b bench) {
	a := &port.Activities{Service: b.Service, PlugTimeout: 7, PlugFatal: true}
	made := b.input()
	brought := b.Bring(b, b.network)
	use := compute.PortUse(brought, b.server)
	plug := func(name string, asked compute.Port) compute.Network {
		b.Helper()
		in := port.PlugInput{
			Credential: b.Owner, Server: b.server, Name: name, Host: b.Hosts[0], Zone: "nova", Network: compute.Network{UUID: b.network.String(), Port: &asked},
		}
		got, err := a.Plug(b.ctx, in)
		require.NoError(b, err)
		again, err := a.Plug(b.ctx, in)
		require.NoError(b, err)
		require.Equal(b, got, again)
		require.Equal(b, port.PlugResult{Network: got.Network, Wait: 7, Fatal: true}, got)
		require.NotEmpty(b, got.Network.MAC)
		require.Len(b, got.Network.Port.Addresses, 1)
		require.NotEmpty(b, got.Network.Port.Bridge)
		require.Positive(b, got.Network.Port.MTU)
		return got.Network
	}
	own := *plug(made.Name, compute.Port{}).Port.ID
	require.Equal(b, brought, *plug(use, compute.Port{ID: &brought, Brought: true}).Port.ID)

	ids := []port.ID{own, brought}
	looked, err := a.Look(b.ctx, port.LookInput{Credential: b.Owner, Server: b.server, Ports: ids})
	require.NoError(b, err)
	require.Equal(b, ids, looked.Inactive, "nobody plugs them")
	_, err = a.Look(b.ctx, port.LookInput{Credential: b.Owner, Server: newServer(), Ports: ids})
	b.kind(compute.NotFound, err)

	has := []compute.Access{{Project: b.Owner.ProjectID, Credentials: []compute.Credential{b.Owner}}}
	seen := func(known ...string) []compute.Seen {
		b.Helper()
		got, err := a.Seen(b.ctx, compute.SeenInput{Projects: has, Known: known})
		require.NoError(b, err)
		require.Equal(b, []string{b.Owner.ProjectID}, got.Looked)
		return got.Seen
	}
	thing := func(name string) compute.Seen { return compute.Seen{Kind: compute.ThingPort, Name: name} }
	require.Equal(b, []compute.Seen{thing(made.Name)}, seen(), "others' servers have ports, too")
	require.ElementsMatch(b, []compute.Seen{thing(made.Name), thing(use)}, seen(use, made.Name))

	remove := func(name string) error {
		return a.Remove(b.ctx, compute.Removal{Thing: compute.Thing{Kind: compute.ThingPort, Name: name}, Credentials: []compute.Credential{b.Owner}})
	}
	for range 2 {
		require.NoError(b, remove(made.Name))
		require.NoError(b, remove(use))
	}
	require.Empty(b, seen(use, made.Name))
	require.Empty(b, b.get(brought).Device, "it is its user's again")
	b.kind(compute.Invalid, remove("mine"))
	b.kind(compute.Invalid, a.Remove(b.ctx, compute.Removal{Thing: compute.Thing{Kind: compute.ThingTrust, Name: made.Name}}))
}

// serverPortsMove: the ports of a server are bound to one host at any time, whatever was prepared.
func serverPortsMove(b bench) {
	a := &port.Activities{Service: b.Service}
	own, brought := b.ensure(b.input()).ID, b.Bring(b, b.network)
	ids, lan := []port.ID{own, brought}, b.network.String()
	from := port.MoveInput{
		Project: b.Owner.ProjectID, Server: b.server, Host: b.Hosts[0], Zone: "nova", Withdraw: []string{b.Hosts[1], "nobody's host"},
		Networks: []compute.Network{{UUID: lan, Port: &compute.Port{ID: &own}}, {UUID: "of hosts"}, {UUID: lan, Port: &compute.Port{ID: &brought, Brought: true}}},
	}
	to := from
	to.Host, to.Zone, to.Withdraw = b.Hosts[1], "west", []string{b.Hosts[0]}
	bound := func(in port.MoveInput) {
		b.Helper()
		got, err := a.Bind(b.ctx, in)
		require.NoError(b, err)
		again, err := a.Bind(b.ctx, in)
		require.NoError(b, err)
		require.Equal(b, got, again)
		require.Equal(b, in.Networks[1], got.Networks[1])
		for _, n := range []compute.Network{got.Networks[0], got.Networks[2]} {
			require.NotEmpty(b, n.Port.Bridge)
			require.NotEmpty(b, n.MAC)
			require.Positive(b, n.Port.MTU)
		}
		all, err := b.Again.Attached(b.ctx, b.Owner, b.server)
		require.NoError(b, err)
		require.Len(b, all, len(ids))
		for _, p := range all {
			require.Equal(b, in.Host, p.Host)
			b.kind(compute.NotFound, b.Again.Activate(b.ctx, b.at(p.ID, in.Withdraw[0]))) // it has no other binding
		}
	}
	prepared := func() {
		b.Helper()
		for range 2 {
			got, err := a.Prepare(b.ctx, to)
			require.NoError(b, err)
			require.NotEmpty(b, got.Networks[2].Port.Bridge)
			require.Equal(b, to.Networks[1], got.Networks[1])
		}
	}
	bound(from)
	prepared()
	bound(from) // the move was undone
	prepared()
	bound(to)
	from.Zone = ""
	bound(from) // nothing was prepared
	bound(to)

	nowhere := to
	nowhere.Host = "nobody's host"
	_, err := a.Prepare(b.ctx, nowhere)
	b.kind(compute.NoHost, err)
	_, err = a.Bind(b.ctx, nowhere)
	b.kind(compute.NoHost, err)
	bound(from)

	foreign := to
	foreign.Project = b.Other.ProjectID
	for _, do := range []func() (port.MoveResult, error){
		func() (port.MoveResult, error) { return a.Prepare(b.ctx, foreign) }, func() (port.MoveResult, error) { return a.Bind(b.ctx, foreign) },
	} {
		got, err := do()
		require.NoError(b, err)
		require.Equal(b, to.Networks, got.Networks, "they are none of the project's: nothing is done")
	}

	bound(from)
	prepared()
	for range 2 {
		require.NoError(b, a.Release(b.ctx, port.ReleaseInput{Project: b.Owner.ProjectID, Server: b.server, Ports: ids}))
		for _, id := range ids {
			kept := b.get(id)
			require.Equal(b, b.server.String(), kept.Device)
			require.Empty(b, kept.Host)
			b.kind(compute.NotFound, b.Again.Activate(b.ctx, b.at(id, b.Hosts[1])))
		}
	}
	bound(to)
}
