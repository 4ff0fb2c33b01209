package initializer_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/deploy/guest/vm"
	"strongroom/securepv/initializer"
)

// PV-11: with a kernel's device mapper, the first start on a volume is killed after each of its steps, and so is a later
// one, and the end of both. The next start opens the volume; one that was ever mounted is not formatted again, and
// keeps what was written.
func TestPV11KilledAtEachStepInAMachine(t *testing.T) {
	t.Parallel()
	if !vm.Inside() {
		machineWithVolumes.Run(t)
		return
	}
	m := &machine{t: t, dir: t.TempDir()}
	m.order = order{Secret: m.file("seed", seed), Folder: filepath.Join(m.dir, "contrast"), Done: filepath.Join(m.dir, "done"), KDF: initializer.PBKDF2}

	formats := func() int { return strings.Count(m.said.String(), "is new and is formatted") }
	var seen []string
	mounted := false
	for n := 1; ; n++ {
		m.order.Volumes = []initializer.Volume{{Device: m.loop(fmt.Sprintf("volume%d", n), 80<<20), Mount: "/state"}}
		after := m.killed(n)
		mounted = mounted || after == "mounted" || after == ""
		m.starts()
		if mounted {
			require.Zero(t, formats(), "after %q", after)
		}
		if after == "" { // it is used on for a later start
			m.writes("/state/data", "kept")
			m.stops()
			break
		}
		m.stops()
		m.run("losetup", "--detach", m.order.Volumes[0].Device)
		seen = append(seen, after)
	}
	require.Equal(t, []string{
		"begun", "LUKS format", "opened anew", "cleared", "file system", "key material", "second copy",
		"first copy but for its first block", "first block", "mounted", "grown", "unmounted", "closed",
	}, seen)

	seen = nil
	for n := 1; ; n++ {
		after := m.killed(n)
		m.starts()
		require.Zero(t, formats(), "after %q", after)
		require.Equal(t, "kept", m.reads("/state/data"))
		m.stops()
		if after == "" {
			break
		}
		seen = append(seen, after)
	}
	require.Equal(t, []string{"opened", "mounted", "grown", "unmounted", "closed"}, seen)
}

// killed starts the program, which is killed after a step of its start or its end, and gives which; "" if there is no such
// step.
func (m *machine) killed(step int) string {
	m.t.Helper()
	o := m.order
	o.Kill = step
	_ = os.Remove(o.Done)
	c := o.process(m.t)
	c.Stderr = m.t.Output()
	out, err := c.StdoutPipe()
	require.NoError(m.t, err)
	require.NoError(m.t, c.Start())
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case <-ended:
				return
			default:
			}
			if _, err := os.Stat(o.Done); err == nil {
				_ = c.Process.Signal(syscall.SIGTERM)
				return
			}
		}
	}()
	said := make([]byte, 1000)
	n, _ := out.Read(said)
	err = c.Wait()
	close(ended)
	if n == 0 {
		require.NoError(m.t, err)
		return ""
	}
	require.Equal(m.t, syscall.SIGKILL, c.ProcessState.Sys().(syscall.WaitStatus).Signal())
	return strings.TrimSpace(strings.TrimPrefix(string(said[:n]), "killed after: "))
}
