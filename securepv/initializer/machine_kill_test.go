package initializer_test

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/deploy/guest/vm"
	sample "strongroom/integration/seed"
	"strongroom/securepv/initializer"
)

// steps are those after which the first start on a volume, or a later one, may be killed, to the end of either.
var (
	stepsOfFirstStart = []string{
		"begun", "LUKS format", "opened anew", "cleared", "file system", "key material", "second copy",
		"first copy but for its first block", "first block", "mounted", "grown", "unmounted", "closed",
	}
	stepsOfLaterStart = []string{"opened", "mounted", "grown", "unmounted", "closed"}
)

// PV-11: with a kernel's device mapper, the first start on a volume is killed after each of its steps, and so is a later
// one, and the end of both. The next start opens the volume; one that was ever mounted is not formatted again, and
// keeps what was written. Without a kernel's, TestPV11KilledAtEachStepOfTheFirstStart and its neighbours kill at each of
// them in every run; here the seed leaves a quarter of them in a sample.
func TestPV11KilledAtEachStepInAMachine(t *testing.T) {
	t.Parallel()
	if !vm.Inside() {
		m := machineWithVolumes
		m.Environment = map[string]string{sample.Variable: sample.Text(), sample.FullVariable: os.Getenv(sample.FullVariable)}
		m.Run(t)
		return
	}
	m := &machine{t: t, dir: t.TempDir()}
	m.order = order{Secret: m.file("seed", seed), Folder: filepath.Join(m.dir, "contrast"), Done: filepath.Join(m.dir, "done"), KDF: initializer.PBKDF2}

	formats := func() int { return strings.Count(m.said.String(), "is new and is formatted") }
	for n, step := range sampled(t, stepsOfFirstStart) {
		m.order.Volumes = []initializer.Volume{{Device: m.loop(fmt.Sprintf("volume%d", n), 80<<20), Mount: "/state"}}
		require.Equal(t, step, m.killed(n+1))
		m.starts()
		if n >= slices.Index(stepsOfFirstStart, "mounted") {
			require.Zero(t, formats(), "after %q", step)
		}
		if step == "" { // it is used on for a later start
			m.writes("/state/data", "kept")
			m.stops()
			break
		}
		m.stops()
		m.run("losetup", "--detach", m.order.Volumes[0].Device)
	}
	for n, step := range sampled(t, stepsOfLaterStart) {
		require.Equal(t, step, m.killed(n+1))
		m.starts()
		require.Zero(t, formats(), "after %q", step)
		require.Equal(t, "kept", m.reads("/state/data"))
		m.stops()
	}
}

// sampled gives the steps of this run, each with its place, in their order, and then an empty one: a start that is not
// killed, with which they end.
func sampled(t *testing.T, steps []string) iter.Seq2[int, string] {
	var left []string
	if os.Getenv(sample.FullVariable) == "" {
		left = sample.Leave(sample.Dice(sample.Text(), t.Name()+steps[0]), slices.Clone(steps), 4)
		t.Logf("%s=%s leaves out %s", sample.Variable, sample.Text(), strings.Join(left, ", "))
	}
	return func(yield func(int, string) bool) {
		for n, step := range append(slices.Clone(steps), "") {
			if !slices.Contains(left, step) && !yield(n, step) {
				return
			}
		}
	}
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
