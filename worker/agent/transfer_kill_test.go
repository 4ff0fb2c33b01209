package agent_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/worker/pki"
)

// receiver says what the process that is killed receives, and where.
type receiver struct {
	Authority, Dir string
	In             disk.ReceiveInput
}

const receiverVariable = "STRONGROOM_TEST_RECEIVER"

// TestMain lets the test's program be a host's worker that receives a disk until it is killed.
func TestMain(m *testing.M) {
	text, child := os.LookupEnv(receiverVariable)
	if !child {
		os.Exit(m.Run())
	}
	var r receiver
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		panic(err)
	}
	testing.Main(func(_, _ string) (bool, error) { return true, nil }, []testing.InternalTest{{Name: "Receiver", F: func(t *testing.T) {
		a, err := pki.Open(r.Authority)
		require.NoError(t, err)
		require.NoError(t, openNode(t, a, "to", r.Dir).disks.Receive(t.Context(), r.In))
	}}}, nil, nil)
}

// Killed at 50 % of 256 MiB, the receiving worker or the connection to the sending one, a transfer
// sends less than 16 MiB again.
func TestKilledAtHalf(t *testing.T) {
	t.Parallel()
	const data, again = 256, 16
	dir := filepath.Join(t.TempDir(), "ca")
	a, err := pki.Ensure(dir)
	require.NoError(t, err)
	from := newNode(t, a, "from")
	server, d := from.has(300, data)
	once := openNode(t, a, "to", t.TempDir())
	require.NoError(t, once.receive(t.Context(), from, server, d))
	same(t, from.path(server, d), once.path(server, d))
	whole := from.wire.sent.Load()
	self, err := os.Executable()
	require.NoError(t, err)
	for name, kill := range map[string]func(*exec.Cmd){
		"receiver": func(c *exec.Cmd) {
			require.Eventually(t, func() bool { return from.wire.sent.Load() >= data/2*mib }, 2*time.Minute, time.Millisecond)
			require.NoError(t, c.Process.Kill())
			require.Error(t, c.Wait())
		},
		"sender": func(c *exec.Cmd) { require.Error(t, c.Wait()) },
	} {
		to := openNode(t, a, "to", t.TempDir())
		in := disk.ReceiveInput{Server: server, Operation: "req-1", Disk: d, From: from.Agent}
		text, err := json.Marshal(receiver{dir, filepath.Dir(to.disks.InstancesDir), in})
		require.NoError(t, err)
		from.wire.sent.Store(0)
		if name == "sender" {
			from.wire.cutAt.Store(data / 2 * mib)
		}
		c := exec.CommandContext(t.Context(), self, "-test.run", "^Receiver$")
		c.Env = append(os.Environ(), receiverVariable+"="+string(text))
		c.Stdout, c.Stderr = t.Output(), t.Output()
		require.NoError(t, c.Start())
		kill(c)
		require.NoFileExists(t, to.path(server, d))
		require.Eventually(t, func() bool { // what the first one asked for is no longer sent
			before := from.wire.sent.Load()
			time.Sleep(200 * time.Millisecond)
			return before == from.wire.sent.Load()
		}, time.Minute, time.Millisecond)
		half := from.wire.sent.Load()
		require.Less(t, half, int64(200*mib))
		require.NoError(t, to.disks.Receive(t.Context(), in))
		same(t, from.path(server, d), to.path(server, d))
		sent := from.wire.sent.Load()
		t.Logf("%s: killed after %.1f MiB, %.1f MiB sent again", name, float64(half)/mib, float64(sent-whole)/mib)
		require.Less(t, sent-whole, int64(again)*mib, name)
	}
}
