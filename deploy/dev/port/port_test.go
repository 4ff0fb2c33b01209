package port_test

import (
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/deploy/dev/port"
)

func TestFree(t *testing.T) {
	t.Parallel()
	ports, err := port.Free(t.Context(), 20)
	require.NoError(t, err)
	seen := map[int]bool{}
	for _, p := range ports {
		require.False(t, seen[p], "port %d came twice", p)
		seen[p] = true
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", ports[0]))
	require.NoError(t, err, "a free port can be listened on")
	require.ErrorContains(t, port.Check(t.Context(), ports[0]), fmt.Sprintf("port %d is taken", ports[0]))
	require.NoError(t, l.Close())
	require.NoError(t, port.Check(t.Context(), ports[0]))
}

func TestOr(t *testing.T) {
	t.Parallel()
	p, err := port.Or(t.Context(), 8774)
	require.NoError(t, err)
	require.Equal(t, 8774, p)
	p, err = port.Or(t.Context(), 0)
	require.NoError(t, err)
	require.Positive(t, p)
}
