package integration_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/await"
)

// What shows that no guest runs twice: a QEMU that waits for a guest, that loads one, or that
// stands still is none that runs; one that goes on after another one ran is seen.
func TestRunnersAreSeen(t *testing.T) {
	backends(t, local) // it reads files
	t.Parallel()
	p, err := made()
	require.NoError(t, err)
	dir, id := t.TempDir(), uuid.NewString()
	leaves := startMonitored(t, p.idle, dir, "leaves", id)
	waits := startMonitored(t, p.idle, dir, "waits", id, "-incoming", "unix:"+filepath.Join(dir, "state"))
	require.Equal(t, 2, copies(id))
	r := runnersOf(id)
	runs := func(m *monitored) {
		m.do("cont", nil)
		await.For(t, fmt.Sprintf("QEMU %d runs", m.pid), func() bool {
			r.look()
			return len(r.order) > 0 && r.order[len(r.order)-1] == m.pid
		}, m.work())
	}
	r.look()
	require.Empty(t, r.order)
	runs(leaves)

	leaves.do("migrate", map[string]any{"uri": "unix:" + filepath.Join(dir, "state")})
	await.For(t, "the guest has left", func() bool { return leaves.do("query-migrate", nil)["status"] == "completed" })
	await.Quiet(t, time.Second/2, "nobody runs: one that did would wake up ten times")
	r.look()
	require.Equal(t, []int{leaves.pid}, r.order)
	runs(waits)
	require.Zero(t, r.again())

	leaves.do("cont", nil) // both do
	await.For(t, "the one that ran before runs again", func() bool { r.look(); return r.again() == leaves.pid }, leaves.work())
	waits.do("stop", nil)
	leaves.do("stop", nil)
	r = runnersOf(id)
	runs(leaves)
	leaves.do("stop", nil)
	runs(waits)
	waits.do("stop", nil)
	require.Zero(t, r.again())
	runs(leaves)
	require.Equal(t, leaves.pid, r.again(), "it must not go on, although the other one stands still")
}

// monitored is a QEMU of a test's own.
type monitored struct {
	t   *testing.T
	pid int
	say *json.Encoder
	get *json.Decoder
}

// startMonitored starts one that stands still.
func startMonitored(t *testing.T, image, dir, name, id string, more ...string) *monitored {
	t.Helper()
	socket := filepath.Join(dir, name)
	cmd := exec.CommandContext(t.Context(), "qemu-system-x86_64", append([]string{
		"-name", name + ",debug-threads=on", "-uuid", id, "-S", "-machine", "q35,accel=tcg", "-m", "64", "-nodefaults", "-display", "none",
		"-drive", "if=virtio,format=qcow2,snapshot=on,file=" + image, "-qmp", "unix:" + socket + ",server=on,wait=off",
	}, more...)...)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var conn net.Conn
	await.For(t, "QEMU listens", func() (ok bool) {
		var err error
		conn, err = net.Dial("unix", socket)
		return err == nil
	})
	t.Cleanup(func() { _ = conn.Close() })
	m := &monitored{t: t, pid: cmd.Process.Pid, say: json.NewEncoder(conn), get: json.NewDecoder(conn)}
	require.NoError(t, m.get.Decode(&map[string]any{})) // its greeting
	m.do("qmp_capabilities", nil)
	return m
}

// work tells for how long its virtual CPU has run.
func (m *monitored) work() await.Witness {
	return await.Witness{Name: fmt.Sprintf("QEMU %d", m.pid), Look: func() string { return fmt.Sprint(vCPUTime(m.pid).Truncate(worksFor)) }}
}

// do runs a command and gives what it returns.
func (m *monitored) do(command string, arguments map[string]any) map[string]any {
	m.t.Helper()
	ask := map[string]any{"execute": command}
	if arguments != nil {
		ask["arguments"] = arguments
	}
	require.NoError(m.t, m.say.Encode(ask))
	for {
		var said map[string]any
		require.NoError(m.t, m.get.Decode(&said))
		require.NotContains(m.t, said, "error", command)
		if got, ok := said["return"].(map[string]any); ok {
			return got
		}
	}
}
