package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/deploy/await"
)

// The tests run this program as `with`.
func TestMain(m *testing.M) {
	if slices.Contains([]string{"with", firstName, insideName}, os.Args[0]) {
		main()
	}
	os.Exit(m.Run())
}

// with gives a run of a script of sh, with no service.
func with(t *testing.T, script string, arguments ...string) (run *exec.Cmd, said *bytes.Buffer) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	run, said = exec.Command(self), &bytes.Buffer{}
	run.Args = slices.Concat([]string{"with", "sh", "-c", script, "sh"}, arguments)
	run.Env = append(os.Environ(), "STRONGROOM_TEST_POSTGRES=none")
	run.Stdout, run.Stderr = said, said
	return run, said
}

// A run leaves no process and no mount, however it ends.
func TestNothingOutlivesARun(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]struct {
		signal syscall.Signal // 0: none
		script string
		code   int
	}{
		"its command ends":          {0, "exit 3", 3},
		"its command is killed":     {0, "kill -9 $$", 1},
		"it is asked to end":        {syscall.SIGTERM, "exec sleep 600", 1},
		"its terminal is gone":      {syscall.SIGHUP, "exec sleep 600", 1},
		"it is killed":              {syscall.SIGKILL, "exec sleep 600", -1},
		"its command ends for none": {syscall.SIGKILL, "trap '' TERM HUP; while :; do sleep 1; done", -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			mark := fmt.Sprintf("600.%d", os.Getpid()) + filepath.Base(filepath.Dir(dir))
			run, said := with(t, `mount -t tmpfs tmpfs "$1" && touch "$1/there" && ip netns add "$2" && { setsid sh -c 'sleep 600; : "$1"' left "$2" & } && sleep 0.2 && : >"$3" && `+end.script,
				dir, mark, dir+".ready")
			require.NoError(t, run.Start())
			if end.signal != 0 {
				await.For(t, "the command runs", func() bool { _, err := os.Stat(dir + ".ready"); return err == nil })
				require.NotEmpty(t, named(t, "\x00left\x00"+mark))
				require.NoError(t, run.Process.Signal(end.signal))
			}
			err := run.Wait()
			require.Error(t, err, said.String())
			require.Equal(t, end.code, run.ProcessState.ExitCode(), said.String())
			await.For(t, "no process is left", func() bool { return len(named(t, mark)) == 0 })
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Empty(t, left, "its mount was never seen here")
			require.NoFileExists(t, filepath.Join("/run/netns", mark))
			require.Equal(t, end.signal != syscall.SIGKILL, strings.Contains(said.String(), "with: still running at the end, and killed: "), said.String())
		})
	}
}

// named gives the processes that have a text among their arguments.
func named(t *testing.T, text string) (pids []string) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, line := range lines {
		if command, _ := os.ReadFile(line); strings.Contains(string(command), text) {
			pids = append(pids, filepath.Base(filepath.Dir(line)))
		}
	}
	return pids
}

// A process whose parent is gone is buried when it ends: a test that waits for its end sees it.
func TestOrphansAreBuried(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "stay"), nil, 0o600))
	run, said := with(t, `
		cd "$1"
		sh -c 'setsid sh -c "while [ -e stay ]; do sleep 0.05; done" & echo $! >pid'
		read -r orphan <pid
		[ "$(ps -o ppid= -p "$orphan" | tr -d ' ')" = 1 ] || exit 4
		rm stay
		for i in $(seq 600); do [ -e "/proc/$orphan" ] || exit 0; sleep 0.05; done
		exit 5`, dir)
	require.NoError(t, run.Run(), said.String())
	require.Empty(t, said.String())
}
