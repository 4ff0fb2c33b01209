// Package porttest is the suite that every adapter of port.Service passes.
package porttest

import (
	"context"
	"net/netip"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/port"
	"strongroom/compute"
)

// Harness is an adapter ready to be tried.
type Harness struct {
	Service port.Service
	Again   port.Service       // a second client of the same service, as another process would have
	Owner   compute.Credential // of the project that is tried
	Other   compute.Credential // of another one
	Hosts   [2]string          // to which ports can be bound
	// Network makes a network of the owner with one subnet for at most so many addresses of
	// servers, and Bring a port of the owner's own on a network. Both go with the test.
	Network func(t testing.TB, addresses int) port.NetworkID
	Bring   func(t testing.TB, network port.NetworkID) port.ID
	// Rename gives a port another name, as a user can, and Limit lets the project have so many ports, or
	// any number (-1).
	Rename func(t testing.TB, id port.ID, name string)
	Limit  func(t testing.TB, ports int)
}

// bench is one test's harness, network and server.
type bench struct {
	*testing.T
	Harness
	ctx     context.Context
	network port.NetworkID
	server  compute.ServerID
}

// Run runs the suite and returns once it is through. Each test has a harness of its own.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	for name, test := range map[string]func(b bench){
		"networks as they are":            look,
		"security groups by name or id":   findGroups,
		"security groups of a server":     serverGroups,
		"ensure is idempotent":            ensureTwice,
		"ensure at once makes one":        ensureAtOnce,
		"ensure refuses what cannot be":   ensureRefused,
		"an address that is asked for":    address,
		"no address is left":              exhausted,
		"the quota is used up":            quota,
		"bind, bind anew and unbind":      bind,
		"bind refuses what cannot be":     bindRefused,
		"a port of the user's survives":   brought,
		"a binding is prepared and moves": move,
		"a binding is withdrawn":          withdraw,
		"remove is idempotent":            removeTwice,
		"another project sees nothing":    otherProject,
		"a create is planned":             plan,
		"a server's ports":                serverPorts,
		"a server's ports move":           serverPortsMove,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := open(t)
			test(bench{T: t, Harness: h, ctx: t.Context(), network: h.Network(t, 20), server: newServer()})
		})
	}
}

func newServer() compute.ServerID { return compute.ServerID{UUID: uuid.New()} }

func (b bench) input() port.EnsureInput {
	return port.EnsureInput{
		Credential: b.Owner, Name: compute.PortName(compute.OperationID("req-"+uuid.NewString()), "nic0"), Server: b.server, Network: b.network,
	}
}

func (b bench) ensure(in port.EnsureInput) port.Port {
	b.Helper()
	p, err := b.Service.Ensure(b.ctx, in)
	require.NoError(b, err)
	b.Cleanup(func() { b.remove(in) }) // before its network
	return p
}

func (b bench) remove(in port.EnsureInput) {
	b.Helper()
	require.NoError(b, b.Service.Remove(context.Background(), port.RemoveInput{Credential: b.Owner, Name: in.Name}))
}

func (b bench) at(id port.ID, host string) port.BindInput {
	return port.BindInput{Credential: b.Owner, Port: id, Server: b.server, Host: host, Zone: "nova"}
}

func (b bench) bind(id port.ID, host string) port.Port {
	b.Helper()
	p, err := b.Service.Bind(b.ctx, b.at(id, host))
	require.NoError(b, err)
	require.NoError(b, p.VIF.CheckBound(id))
	require.Equal(b, host, p.Host)
	require.Equal(b, b.server.String(), p.Device)
	require.Positive(b, p.MTU)
	return p
}

func (b bench) unbind(id port.ID) {
	b.Helper()
	require.NoError(b, b.Service.Unbind(b.ctx, port.UnbindInput{Credential: b.Owner, Port: id, Server: b.server}))
}

func (b bench) get(id port.ID) port.Port {
	b.Helper()
	p, err := b.Again.Get(b.ctx, b.Owner, id)
	require.NoError(b, err)
	return p
}

// names are those of the project's ports that strongroom made, as another process sees them.
func (b bench) names() []string {
	b.Helper()
	all, err := b.Again.List(b.ctx, b.Owner)
	require.NoError(b, err)
	names := []string{}
	for _, p := range all {
		names = append(names, p.Name)
	}
	return names
}

func (b bench) kind(kind compute.Kind, err error) {
	b.Helper()
	require.Equal(b, kind, compute.KindOf(err), "%v", err)
}

// atOnce calls fn n times together, half through each client.
func (b bench) atOnce(n int, fn func(i int, s port.Service)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		s := b.Service
		if i%2 == 1 {
			s = b.Again
		}
		wg.Go(func() {
			<-start
			fn(i, s)
		})
	}
	close(start)
	wg.Wait()
}

// subnet is the network's only one.
func (b bench) subnet() port.Subnet {
	b.Helper()
	n, err := b.Service.Network(b.ctx, b.Owner, b.network)
	require.NoError(b, err)
	require.Len(b, n.Subnets, 1)
	return n.Subnets[0]
}

// highest is the last address of a range that a server can have.
func highest(p netip.Prefix) netip.Addr {
	last := p.Masked().Addr()
	for a := last; p.Contains(a); a = a.Next() {
		last = a
	}
	return last.Prev()
}
