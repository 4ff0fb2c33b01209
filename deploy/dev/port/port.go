// Package port finds TCP ports that nobody listens on, and that no other process of a test was given.
package port

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"time"
)

// The ports to choose from lie below those that the kernel hands out to clients
// (from 32768 on): one of these could be some connection's by the time that its
// server listens. They lie above those of strongroom-temporal, which looks for its own.
const (
	first = 20000
	last  = 32000
)

// claims are the ports that this process was given. A process has each by a name of Linux's abstract sockets, which goes with the process, so that no
// two are given the same one while neither listens yet.
var claims struct {
	sync.Mutex
	held []net.Listener
}

// claim reports whether a port is this process's from now on, and nobody listens on it. The name comes first: nobody else looks at a port that is claimed,
// and takes it for a moment as its owner would listen.
func claim(ctx context.Context, port int) bool {
	var lc net.ListenConfig
	name, err := lc.Listen(ctx, "unix", "@strongroom-port-"+strconv.Itoa(port))
	if err != nil {
		return false
	}
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		_ = name.Close()
		return false
	}
	_ = l.Close()
	claims.Lock()
	defer claims.Unlock()
	claims.held = append(claims.held, name)
	return true
}

// attempts bounds the search on a machine where nearly every port is taken.
const attempts = 1000

// Free gives n different ports of the loopback interface that were free a moment
// ago, chosen at random. As long as this process is there, nobody else is given them by Free.
func Free(ctx context.Context, n int) ([]int, error) {
	ports := make([]int, 0, n)
	for range attempts {
		if len(ports) == n {
			return ports, nil
		}
		port := first + rand.IntN(last-first) //nolint:gosec // a port is no secret
		if claim(ctx, port) {
			ports = append(ports, port)
		}
	}
	return nil, fmt.Errorf("found %d of %d free ports between %d and %d", len(ports), n, first, last)
}

// Or gives the port, or a free one for 0.
func Or(ctx context.Context, wanted int) (int, error) {
	if wanted != 0 {
		return wanted, nil
	}
	ports, err := Free(ctx, 1)
	if err != nil {
		return 0, err
	}
	return ports[0], nil
}

// Answers is nil where somebody listens at an address, host:port.
func Answers(ctx context.Context, address string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("%s: %w", address, err)
	}
	return conn.Close()
}

// Others that look for free ports hold one for a moment.
const (
	checks     = 20
	checkPause = 50 * time.Millisecond
)

// Check reports whether nobody listens on the port, or nobody does in a moment.
func Check(ctx context.Context, port int) error {
	var lc net.ListenConfig
	for check := 1; ; check++ {
		l, err := lc.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		switch {
		case err == nil:
			return l.Close()
		case check == checks:
			return fmt.Errorf("port %d is taken: %w", port, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(checkPause):
		}
	}
}
