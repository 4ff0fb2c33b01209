package agent_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/compute"
	"strongroom/integration/seed"
	"strongroom/worker/pki"
)

// segmentMB is how large a segment of a transfer is.
const segmentMB = 8

// victim says what the process that is killed sends or receives, and where.
type victim struct {
	Sends          bool
	Authority, Dir string
	In             disk.ReceiveInput
}

const victimVariable = "STRONGROOM_TEST_VICTIM"

// TestMain lets the test's program be a host's worker that sends or receives a disk until it is killed.
func TestMain(m *testing.M) {
	text, child := os.LookupEnv(victimVariable)
	if !child {
		seed.Deep("moves", TestKilledAtHalf)
		os.Exit(m.Run())
	}
	var v victim
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		panic(err)
	}
	testing.Main(func(_, _ string) (bool, error) { return true, nil }, []testing.InternalTest{{Name: "Victim", F: v.run}}, nil, nil)
}

func (v victim) run(t *testing.T) {
	a, err := pki.Open(v.Authority)
	require.NoError(t, err)
	n := openNode(t, a, "victim", v.Dir)
	if !v.Sends {
		require.NoError(t, n.disks.Receive(t.Context(), v.In))
		return
	}
	n.Host = v.In.From.Host
	n.identity, err = a.Process(pki.HostName(n.Host))
	require.NoError(t, err)
	listener, err := net.FileListener(os.NewFile(3, "listener"))
	require.NoError(t, err)
	n.serve(&wire{Listener: listener, tell: func(sent int64) { fmt.Println(sent) }})
	select {}
}

// start starts the process, with the listener of one that sends, and gives what it prints.
func (v victim) start(t *testing.T, listener net.Listener) (*exec.Cmd, io.Reader) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	text, err := json.Marshal(v)
	require.NoError(t, err)
	c := exec.CommandContext(t.Context(), self)
	c.Env = append(os.Environ(), victimVariable+"="+string(text))
	c.Stderr = t.Output()
	if listener != nil {
		f, err := listener.(*net.TCPListener).File()
		require.NoError(t, err)
		defer f.Close()
		c.ExtraFiles = []*os.File{f}
	}
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	return c, out
}

// Killed at 50 % of 256 MiB, the worker that receives or the one that sends, a transfer sends less than
// one segment again: of all that was written to the connections, whether it came or not.
func TestKilledAtHalf(t *testing.T) {
	t.Parallel()
	const data, half = 256, 256 / 2 * mib
	dir := filepath.Join(t.TempDir(), "ca")
	a, err := pki.Ensure(dir)
	require.NoError(t, err)
	from := newNode(t, a, "from")
	server, d := from.has(300, data)
	once := openNode(t, a, "to", t.TempDir())
	require.NoError(t, once.receive(t.Context(), from, server, d))
	same(t, from.path(server, d), once.path(server, d))
	whole := from.wire.sent.Load()
	in := disk.ReceiveInput{Server: server, Operation: "req-1", Disk: d, From: from.Agent}

	for name, killed := range map[string]func(to *node) (sent int64){
		"receiver": func(to *node) int64 {
			c, _ := victim{false, dir, filepath.Dir(to.disks.InstancesDir), in}.start(t, nil)
			require.Eventually(t, func() bool { return from.wire.sent.Load() >= half }, 2*time.Minute, time.Millisecond)
			require.NoError(t, c.Process.Kill())
			require.Error(t, c.Wait())
			require.Eventually(t, func() bool { // what it asked for is no longer sent
				before := from.wire.sent.Load()
				time.Sleep(200 * time.Millisecond)
				return before == from.wire.sent.Load()
			}, time.Minute, time.Millisecond)
			return from.wire.sent.Load()
		},
		"sender": func(to *node) (sent int64) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			c, out := victim{true, dir, filepath.Dir(from.disks.InstancesDir), in}.start(t, listener)
			require.NoError(t, listener.Close())
			in := in
			in.From.URL = "https://" + listener.Addr().String()
			received := make(chan error, 1)
			go func() { received <- to.disks.Receive(t.Context(), in) }()
			for lines := bufio.NewScanner(out); lines.Scan(); {
				sent, err = strconv.ParseInt(lines.Text(), 10, 64)
				require.NoError(t, err)
				if sent >= half {
					_ = c.Process.Kill() // again, too: it may have printed more
				}
			}
			require.Error(t, c.Wait())
			require.Equal(t, compute.Unavailable, compute.KindOf(<-received))
			return sent
		},
	} {
		to := openNode(t, a, "to", t.TempDir())
		from.wire.sent.Store(0)
		before := killed(to)
		require.NoFileExists(t, to.path(server, d))
		require.GreaterOrEqual(t, before, int64(half))
		require.Less(t, before, int64(200*mib))
		from.wire.sent.Store(0)
		require.NoError(t, to.disks.Receive(t.Context(), in))
		same(t, from.path(server, d), to.path(server, d))
		again := before + from.wire.sent.Load() - whole
		t.Logf("%s: killed after %.1f MiB, %.1f MiB sent again", name, float64(before)/mib, float64(again)/mib)
		require.Less(t, again, int64(segmentMB*mib), name)
	}
}
