package neutron_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/stretchr/testify/require"

	"strongroom/activities/port"
	"strongroom/compute"
	"strongroom/deploy/cloud/cloudtest"
)

// proxy stands between the adapter and the real Neutron. What matches in the next request makes it fail.
type proxy struct {
	to     http.RoundTripper
	mu     sync.Mutex
	method string              // of the requests that fail; "": none
	lost   bool                // the request reaches Neutron, its answer gets lost; else it is answered with 500
	delay  time.Duration       // of each answer
	before func(method string) // a request
	failed int
}

func (p *proxy) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	fails, lost, delay := p.method == r.Method, p.lost, p.delay
	if fails {
		p.failed++
		p.method = "" // once
	}
	p.mu.Unlock()
	if p.before != nil {
		p.before(r.Method)
	}
	if fails && !lost {
		return &http.Response{
			StatusCode: http.StatusInternalServerError, Header: http.Header{"Retry-After": {"7"}}, Request: r,
			Body: io.NopCloser(strings.NewReader(`{"NeutronError": {"type": "HTTPInternalServerError", "message": "canary"}}`)),
		}, nil
	}
	response, err := p.to.RoundTrip(r)
	if err == nil && fails {
		response.Body.Close()
		return nil, errors.New("canary: connection reset")
	}
	select {
	case <-time.After(delay):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	return response, err
}

func (p *proxy) fail(method string, lost bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.method, p.lost, p.failed = method, lost, 0
}

// behind puts a proxy before a bench's service.
func behind(t *testing.T) (bench, *proxy) {
	t.Helper()
	b := open(t)
	p := &proxy{to: http.DefaultTransport}
	for _, client := range b.clients {
		provider := *client.ProviderClient // another one than that of b.user and b.Again
		provider.HTTPClient = http.Client{Transport: p}
		client.ProviderClient = &provider
	}
	return b, p
}

// away asks for a kind of failure that tells to try again, and says nothing of the service.
func away(t *testing.T, err error) {
	t.Helper()
	require.Equal(t, compute.Unavailable, compute.KindOf(err), "%v", err)
	require.NotContains(t, err.Error(), "http://")
	var shown interface{ PublicText() string }
	if errors.As(err, &shown) {
		require.NotContains(t, shown.PublicText(), "canary")
	}
}

// An answer that gets lost, or a 500, is tried again; what was made then is found.
func TestAnswersThatGetLost(t *testing.T) {
	t.Parallel()
	b, p := behind(t)
	network, server := b.network(t, 20), compute.ServerID{UUID: uuid.New()}
	brought := b.bring(t, network)
	for _, lost := range []bool{true, false} {
		in := port.EnsureInput{Credential: b.Owner, Name: compute.PortName(compute.OperationID("req-"+uuid.NewString()), "nic0"), Server: server, Network: network}
		p.fail(http.MethodPost, lost)
		_, err := b.Service.Ensure(t.Context(), in)
		away(t, err)
		made, err := b.Service.Ensure(t.Context(), in)
		require.NoError(t, err)
		all, err := b.Again.List(t.Context(), b.Owner)
		require.NoError(t, err)
		require.Len(t, all, 1)
		require.Equal(t, made, all[0])

		for _, id := range []port.ID{made.ID, brought} {
			at := port.BindInput{Credential: b.Owner, Port: id, Server: server, Host: b.Hosts[0], Zone: "nova"}
			to := at
			to.Host = b.Hosts[1]
			unbind := port.UnbindInput{Credential: b.Owner, Port: id, Server: server}
			for _, step := range []struct {
				method string
				do     func() error
			}{
				{http.MethodPut, func() error { _, err := b.Service.Bind(t.Context(), at); return err }},
				{http.MethodPost, func() error { _, err := b.Service.Prepare(t.Context(), to); return err }},
				{http.MethodPut, func() error { return b.Service.Activate(t.Context(), to) }},
				{http.MethodDelete, func() error { return b.Service.Withdraw(t.Context(), at) }},
				{http.MethodPut, func() error { return b.Service.Unbind(t.Context(), unbind) }},
			} {
				p.fail(step.method, lost)
				away(t, step.do())
				require.Equal(t, 1, p.failed)
				require.NoError(t, step.do())
			}
			got, err := b.Again.Get(t.Context(), b.Owner, id)
			require.NoError(t, err)
			require.Empty(t, got.Device)
		}
		remove := port.RemoveInput{Credential: b.Owner, Name: in.Name, ID: &made.ID}
		p.fail(http.MethodDelete, lost)
		away(t, b.Service.Remove(t.Context(), remove))
		require.NoError(t, b.Service.Remove(t.Context(), remove))
		all, err = b.Again.List(t.Context(), b.Owner)
		require.NoError(t, err)
		require.Empty(t, all)
	}
}

// Who takes a port between the look at it and its binding keeps it.
func TestAPortThatIsTakenMeanwhile(t *testing.T) {
	t.Parallel()
	b, p := behind(t)
	brought := b.bring(t, b.network(t, 20))
	at := port.BindInput{Credential: b.Owner, Port: brought, Server: compute.ServerID{UUID: uuid.New()}, Host: b.Hosts[0], Zone: "nova"}
	first := at
	first.Server = compute.ServerID{UUID: uuid.New()}
	p.before = func(method string) {
		if method == http.MethodPut {
			p.before = nil
			_, err := b.Again.Bind(t.Context(), first)
			require.NoError(t, err)
		}
	}
	_, err := b.Service.Bind(t.Context(), at)
	require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "is still in use")
	got, err := b.Again.Get(t.Context(), b.Owner, brought)
	require.NoError(t, err)
	require.Equal(t, first.Server.String(), got.Device)
}

// A service that is slow is waited for as long as the caller does.
func TestASlowService(t *testing.T) {
	t.Parallel()
	b, p := behind(t)
	network := b.network(t, 20)
	p.delay = 200 * time.Millisecond
	_, err := b.Service.Network(t.Context(), b.Owner, network)
	require.NoError(t, err)
	p.delay = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = b.Service.Network(ctx, b.Owner, network)
	away(t, err)
}

// Two ports of one name, which attempts at the same time made: the one that is bound stays, else the
// older one.
func TestDoublesAreSettled(t *testing.T) {
	t.Parallel()
	b := open(t)
	network, server := b.network(t, 20), compute.ServerID{UUID: uuid.New()}
	in := port.EnsureInput{Credential: b.Owner, Name: compute.PortName(compute.OperationID("req-"+uuid.NewString()), "nic0"), Server: server, Network: network}
	double := func() port.ID {
		id := b.bring(t, network)
		b.Rename(t, id, in.Name)
		return id
	}
	first, err := b.Service.Ensure(t.Context(), in)
	require.NoError(t, err)
	time.Sleep(1100 * time.Millisecond) // Neutron's times are of seconds
	other := double()
	seen, err := (&port.Activities{Service: b.Service}).Seen(t.Context(), compute.SeenInput{
		Projects: []compute.Access{{Project: b.Owner.ProjectID, Credentials: []compute.Credential{b.Owner}}},
	})
	require.NoError(t, err)
	require.Len(t, seen.Seen, 2, "the audit sees both, until they are settled")
	require.Contains(t, []string{in.Name + "/" + first.ID.String(), in.Name + "/" + other.String()}, max(seen.Seen[0].Name, seen.Seen[1].Name))
	kept, err := b.Again.Ensure(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, first.ID, kept.ID)

	second := double()
	_, err = b.Service.Bind(t.Context(), port.BindInput{Credential: b.Owner, Port: second, Server: server, Host: b.Hosts[0], Zone: "nova"})
	require.NoError(t, err)
	kept, err = b.Service.Ensure(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, second, kept.ID)
	all, err := b.Service.List(t.Context(), b.Owner)
	require.NoError(t, err)
	require.Len(t, all, 1)
}

// An earlier attempt that Neutron carries out late has the address that a later one asks for: it is the port.
func TestAnAddressThatAnEarlierAttemptHas(t *testing.T) {
	t.Parallel()
	b, p := behind(t)
	in := port.EnsureInput{
		Credential: b.Owner, Name: compute.PortName(compute.OperationID("req-"+uuid.NewString()), "nic0"), Server: compute.ServerID{UUID: uuid.New()},
		Network: b.network(t, 20), Address: netip.MustParseAddr("10.1.0.77"),
	}
	var late port.Port
	p.before = func(method string) {
		if method == http.MethodPost {
			p.before = nil
			var err error
			late, err = b.Again.Ensure(t.Context(), in)
			require.NoError(t, err)
		}
	}
	got, err := b.Service.Ensure(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, late.ID, got.ID)

	in.Name = compute.PortName(compute.OperationID("req-"+uuid.NewString()), "nic0")
	_, err = b.Service.Ensure(t.Context(), in)
	require.ErrorContains(t, err, "is already in use")
	require.NoError(t, ports.Delete(t.Context(), b.user, late.ID.String()).ExtractErr())
}

// strongroom's own user that does not see a project's ports takes none for gone.
func TestAUserWhoSeesNothing(t *testing.T) {
	t.Parallel()
	b := open(t)
	network, server := b.network(t, 20), compute.ServerID{UUID: uuid.New()}
	in := port.EnsureInput{Credential: b.Owner, Name: compute.PortName(compute.OperationID("req-"+uuid.NewString()), "nic0"), Server: server, Network: network}
	made, err := b.Service.Ensure(t.Context(), in)
	require.NoError(t, err)
	own := b.clients[compute.DeploymentProject]
	b.clients[compute.DeploymentProject] = networkClient(t, cloudtest.Login(t, "alt"))
	require.Equal(t, compute.Forbidden, compute.KindOf(b.Service.Unbind(t.Context(), port.UnbindInput{Credential: b.Owner, Port: made.ID, Server: server})))
	user := b.clients[b.Owner.ProjectID]
	delete(b.clients, b.Owner.ProjectID)
	remove := port.RemoveInput{Credential: b.Owner, Name: in.Name}
	require.Equal(t, compute.Forbidden, compute.KindOf(b.Service.Remove(t.Context(), remove)), "neither may")
	b.clients[b.Owner.ProjectID] = user
	require.NoError(t, b.Service.Remove(t.Context(), remove), "the user may")
	all, err := b.Again.List(t.Context(), b.Owner)
	require.NoError(t, err)
	require.Empty(t, all)

	// And the other way round: no token of the user's is needed.
	_, err = b.Service.Ensure(t.Context(), in)
	require.NoError(t, err)
	b.clients[compute.DeploymentProject] = own
	delete(b.clients, b.Owner.ProjectID)
	require.NoError(t, b.Service.Remove(t.Context(), remove))
	all, err = b.Again.List(t.Context(), b.Owner)
	require.NoError(t, err)
	require.Empty(t, all)
}
