package process_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/deploy/dev/process"
)

// TestMain lets a test run this program as the parent that dies.
func TestMain(m *testing.M) {
	if dir := os.Getenv("PROCESS_TEST_PARENT"); dir != "" {
		signal, _ := strconv.Atoi(os.Getenv("PROCESS_TEST_ORPHAN_SIGNAL"))
		cfg := sleeper(dir)
		cfg.OrphanSignal = syscall.Signal(signal)
		if _, err := process.Start(context.Background(), cfg); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println("started")
		select {}
	}
	os.Exit(m.Run())
}

func sleeper(dir string, script ...string) process.Config {
	if len(script) == 0 {
		script = []string{"exec sleep 600"}
	}
	return process.Config{
		Name: "sleeper", Command: []string{"sh", "-c", script[0]},
		LogFile: filepath.Join(dir, "log"), PIDFile: filepath.Join(dir, "pid"), Patience: 300 * time.Millisecond,
	}
}

func start(t *testing.T, cfg process.Config) *process.Process {
	t.Helper()
	p, err := process.Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Kill(context.Background())) })
	return p
}

func TestStopEndsAndTidies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := start(t, sleeper(dir, `echo hello; trap 'echo bye; exit 0' TERM; while :; do sleep 0.01; done`))
	pid, running := process.Named(filepath.Join(dir, "pid"))
	require.True(t, running)
	require.Equal(t, p.PID(), pid)
	require.NoError(t, p.Ended())
	log := func() string { b, _ := os.ReadFile(filepath.Join(dir, "log")); return string(b) }
	require.Eventually(t, func() bool { return strings.Contains(log(), "hello") }, time.Minute, 10*time.Millisecond)

	require.NoError(t, p.Stop(t.Context()))
	require.False(t, p.Running())
	require.ErrorContains(t, p.Ended(), "sleeper ended: exit status 0")
	require.Contains(t, log(), "bye")
	require.NoFileExists(t, filepath.Join(dir, "pid"))
	require.NoError(t, p.Stop(t.Context()), "stopping twice is no error")
}

func TestStopKillsTheStubbornWithTheirChildren(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := start(t, sleeper(dir, `trap '' TERM; sleep 600 & echo $! >`+dir+`/child; while :; do sleep 0.01; done`))
	var child int
	require.Eventually(t, func() bool {
		b, _ := os.ReadFile(filepath.Join(dir, "child"))
		child, _ = strconv.Atoi(strings.TrimSpace(string(b)))
		return child > 0
	}, time.Minute, 10*time.Millisecond)
	require.NoError(t, p.Stop(t.Context()))
	require.Eventually(t, func() bool { return !alive(child) }, time.Minute, 10*time.Millisecond)
}

func TestUntilTellsTheLastWords(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "log"), []byte("of an earlier run\n"), 0o644))
	p := start(t, sleeper(dir, `echo the disk is full; exit 3`))
	err := p.Until(t.Context(), func(context.Context) error { return fmt.Errorf("not yet") })
	require.ErrorContains(t, err, "exit status 3\nthe disk is full")
	require.NotContains(t, err.Error(), "of an earlier run")
}

func TestUntilEndsWithItsContext(t *testing.T) {
	t.Parallel()
	p := start(t, sleeper(t.TempDir()))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := p.Until(ctx, func(context.Context) error { return fmt.Errorf("not yet") })
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "not yet")
}

func TestTwoAtOnceAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := start(t, sleeper(dir))
	_, err := process.Start(t.Context(), sleeper(dir))
	require.ErrorIs(t, err, process.ErrInUse)
	require.True(t, p.Running(), "the first is left alone")
	require.NoError(t, p.Stop(t.Context()))
	start(t, sleeper(dir))
}

func TestMissingProgram(t *testing.T) {
	t.Parallel()
	cfg := sleeper(t.TempDir())
	cfg.Command = []string{"no-such-program"}
	_, err := process.Start(t.Context(), cfg)
	require.ErrorIs(t, err, exec.ErrNotFound)
	_, err = process.Start(t.Context(), cfg)
	require.ErrorIs(t, err, exec.ErrNotFound, "a failed start leaves no claim")
}

// A parent that is killed leaves nothing with an orphan signal; without one its
// child lives on and the next Start ends it.
func TestParentKilled(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]syscall.Signal{"tied": syscall.SIGKILL, "left": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			parent := exec.Command(os.Args[0])
			parent.Env = append(os.Environ(), "PROCESS_TEST_PARENT="+dir, fmt.Sprintf("PROCESS_TEST_ORPHAN_SIGNAL=%d", signal))
			out, err := parent.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, parent.Start())
			_, err = out.Read(make([]byte, 16))
			require.NoError(t, err)
			orphan, running := process.Named(filepath.Join(dir, "pid"))
			require.True(t, running)
			require.NoError(t, parent.Process.Kill())
			_ = parent.Wait()

			if signal != 0 {
				require.Eventually(t, func() bool { return !alive(orphan) }, time.Minute, 10*time.Millisecond)
			} else {
				require.True(t, alive(orphan))
			}
			p := start(t, sleeper(dir))
			require.NotEqual(t, orphan, p.PID())
			require.False(t, alive(orphan))
		})
	}
}

// The id in a stale pid file may belong to somebody else by now.
func TestReusedPIDIsLeftAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stranger := exec.Command("sleep", "600")
	require.NoError(t, stranger.Start())
	t.Cleanup(func() { _ = stranger.Process.Kill(); _ = stranger.Wait() })
	require.NoError(t, os.WriteFile(filepath.Join(dir, "pid"), fmt.Appendf(nil, "%d 1\n", stranger.Process.Pid), 0o644))

	_, running := process.Named(filepath.Join(dir, "pid"))
	require.False(t, running)
	start(t, sleeper(dir))
	require.True(t, alive(stranger.Process.Pid))
}

func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(b), ") Z ")
}
