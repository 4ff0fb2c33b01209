package port_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
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

// holds has TestNoPortIsGivenTwice be the other process, which takes all ports that it is given.
const holds = "STRONGROOM_TEST_HOLDS_PORTS"

// Two processes that look for ports at once, and do not listen yet, are given different ones.
func TestNoPortIsGivenTwice(t *testing.T) {
	t.Parallel()
	const many = 1000 // of 12,000: two that know nothing of each other would have some 80 in common
	give := func() map[string]bool {
		given := map[string]bool{}
		for range many / 20 {
			ports, err := port.Free(t.Context(), 20)
			require.NoError(t, err)
			for _, p := range ports {
				given[strconv.Itoa(p)] = true
			}
		}
		require.Len(t, given, many)
		return given
	}
	if os.Getenv(holds) != "" {
		for p := range give() {
			fmt.Println("port", p)
		}
		fmt.Println("all")
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), holds+"=yes")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var theirs []string
	for said := bufio.NewScanner(out); said.Scan() && said.Text() != "all"; {
		if p, ok := strings.CutPrefix(said.Text(), "port "); ok {
			theirs = append(theirs, p)
		}
	}
	require.Len(t, theirs, many)
	ours := give()
	for _, p := range theirs {
		require.False(t, ours[p], "port %s was given to two processes", p)
	}
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
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
