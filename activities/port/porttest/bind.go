package porttest

import (
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/port"
	"strongroom/compute"
)

func bind(b bench) {
	unused := b.ensure(b.input())
	b.unbind(unused.ID)
	require.Empty(b, b.get(unused.ID).Device)

	p := b.ensure(b.input())
	first := b.bind(p.ID, b.Hosts[0])
	require.Equal(b, p.MAC, first.MAC)
	require.Equal(b, p.Addresses, first.Addresses)
	again, err := b.Again.Bind(b.ctx, b.at(p.ID, b.Hosts[0]))
	require.NoError(b, err)
	require.Equal(b, first, again)
	b.bind(p.ID, b.Hosts[1])
	b.bind(p.ID, b.Hosts[0])

	for range 2 {
		require.NoError(b, b.Service.Unbind(b.ctx, port.UnbindInput{Credential: b.Owner, Port: p.ID, Server: b.server, Keep: true}))
		kept := b.get(p.ID)
		require.Equal(b, b.server.String(), kept.Device)
		require.Zero(b, kept.VIF)
	}
	b.bind(p.ID, b.Hosts[1])
	b.unbind(p.ID)
	b.unbind(p.ID)
	free := b.get(p.ID)
	require.Empty(b, free.Device)
	require.Empty(b, free.Host)
	require.NotEqual(b, port.StatusActive, free.Status)
}

func bindRefused(b bench) {
	p := b.ensure(b.input())
	_, err := b.Service.Bind(b.ctx, b.at(port.ID{UUID: uuid.New()}, b.Hosts[0]))
	b.kind(compute.NotFound, err)
	_, err = b.Service.Bind(b.ctx, b.at(p.ID, "nobody's host"))
	b.kind(compute.Conflict, err)
	require.EqualError(b, err, "Binding failed for port "+p.ID.String()+", please check neutron logs for more information.")
	b.bind(p.ID, b.Hosts[0])

	other := b
	other.server = newServer()
	_, err = b.Service.Bind(b.ctx, other.at(p.ID, b.Hosts[1]))
	b.kind(compute.Conflict, err)
	require.EqualError(b, err, "Port "+p.ID.String()+" is still in use.")
	other.unbind(p.ID)
	require.Equal(b, b.server.String(), b.get(p.ID).Device)

	at := b.at(p.ID, "")
	_, err = b.Service.Bind(b.ctx, at)
	b.kind(compute.Invalid, err)
	at = b.at(p.ID, b.Hosts[0])
	at.Credential = compute.Credential{}
	_, err = b.Service.Bind(b.ctx, at)
	b.kind(compute.Forbidden, err)
}

// brought: a port that a user brings is none of strongroom's.
func brought(b bench) {
	id := b.Bring(b, b.network)
	before := b.get(id)
	require.NoError(b, before.CheckUsable(b.server))
	b.bind(id, b.Hosts[0])
	require.Empty(b, b.names())
	other := newServer()
	require.Error(b, b.get(id).CheckUsable(other))
	b.remove(b.input())
	b.unbind(id)
	after := b.get(id)
	require.Equal(b, before, after)
	require.NoError(b, after.CheckUsable(other))
}

func move(b bench) {
	p := b.ensure(b.input())
	first := b.bind(p.ID, b.Hosts[0])
	to := b.at(p.ID, b.Hosts[1])
	b.kind(compute.NotFound, b.Service.Activate(b.ctx, to))
	for range 2 {
		vif, err := b.Service.Prepare(b.ctx, to)
		require.NoError(b, err)
		require.Equal(b, first.VIF.Type, vif.Type)
	}
	require.Equal(b, first, b.bind(p.ID, b.Hosts[0]), "the first one is still active")
	for range 2 {
		require.NoError(b, b.Service.Activate(b.ctx, to))
	}
	b.kind(compute.Conflict, b.Service.Withdraw(b.ctx, to))
	for range 2 {
		require.NoError(b, b.Again.Withdraw(b.ctx, b.at(p.ID, b.Hosts[0])))
	}
	require.Equal(b, b.Hosts[1], b.bind(p.ID, b.Hosts[1]).Host)
	b.kind(compute.NotFound, b.Service.Activate(b.ctx, b.at(p.ID, b.Hosts[0])))
}

func withdraw(b bench) {
	p := b.ensure(b.input())
	b.bind(p.ID, b.Hosts[0])
	to := b.at(p.ID, b.Hosts[1])
	_, err := b.Service.Prepare(b.ctx, to)
	require.NoError(b, err)
	for range 2 {
		require.NoError(b, b.Service.Withdraw(b.ctx, to))
	}
	b.kind(compute.NotFound, b.Service.Activate(b.ctx, to))
	_, err = b.Service.Prepare(b.ctx, b.at(p.ID, "nobody's host"))
	b.kind(compute.Conflict, err)
	other := to
	other.Server = newServer()
	_, err = b.Service.Prepare(b.ctx, other)
	b.kind(compute.Conflict, err)

	// Unbind leaves none either.
	_, err = b.Service.Prepare(b.ctx, to)
	require.NoError(b, err)
	b.unbind(p.ID)
	b.kind(compute.NotFound, b.Service.Activate(b.ctx, to))
	b.bind(p.ID, b.Hosts[0])
	b.kind(compute.NotFound, b.Service.Activate(b.ctx, to))
}
