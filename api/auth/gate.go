package auth

import (
	"context"
	"net"
	"net/netip"
	"sync"

	"golang.org/x/sync/semaphore"
)

// How many tokens are validated at the identity service at once: a flood of bad ones must
// take down neither it nor the API, and one client's flood must leave room for others (M10).
const (
	maxValidations          = 32
	maxValidationsOfAClient = 8
)

// clientBits is what of an IPv6 address says whose it is: one client has a /64 at least,
// and may use each address of it (RFC 6177).
const clientBits = 64

// clientOf gives whom an address counts for: an IPv6 address for its /64, an IPv4 address in
// either form for itself.
func clientOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return address
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	network, _ := ip.Prefix(clientBits) // fails for more bits than an address has
	return network.String()
}

// gate lets validations through. Those beyond the limits wait.
type gate struct {
	all     *semaphore.Weighted
	mu      sync.Mutex
	clients map[string]*client // that validate, or wait for it
}

type client struct {
	places *semaphore.Weighted
	users  int
}

func newGate() *gate {
	return &gate{all: semaphore.NewWeighted(maxValidations), clients: map[string]*client{}}
}

// enter waits for a place; the caller must leave. The error is ctx's.
func (g *gate) enter(ctx context.Context, address string) (leave func(), err error) {
	address = clientOf(address)
	c := g.use(address)
	if err := c.places.Acquire(ctx, 1); err != nil {
		g.drop(address, c)
		return nil, err
	}
	leaveClient := func() {
		c.places.Release(1)
		g.drop(address, c)
	}
	if err := g.all.Acquire(ctx, 1); err != nil {
		leaveClient()
		return nil, err
	}
	return func() {
		g.all.Release(1)
		leaveClient()
	}, nil
}

func (g *gate) use(address string) *client {
	g.mu.Lock()
	defer g.mu.Unlock()
	c, ok := g.clients[address]
	if !ok {
		c = &client{places: semaphore.NewWeighted(maxValidationsOfAClient)}
		g.clients[address] = c
	}
	c.users++
	return c
}

func (g *gate) drop(address string, c *client) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.users--; c.users == 0 {
		delete(g.clients, address)
	}
}
