// Package port finds TCP ports that nobody listens on.
package port

import (
	"context"
	"fmt"
	"net"
	"strconv"
)

// Free gives n different ports of the loopback interface that were free a moment
// ago. Whoever asked must listen soon: nothing keeps others away.
func Free(ctx context.Context, n int) ([]int, error) {
	ports := make([]int, 0, n)
	var lc net.ListenConfig
	for range n {
		// All stay open until the last is found, so that no port comes twice.
		l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
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

// Check reports whether nobody listens on the port.
func Check(ctx context.Context, port int) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("port %d is taken: %w", port, err)
	}
	return l.Close()
}
