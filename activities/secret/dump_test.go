package secret_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"strongroom/activities/secret"
)

// crashes has TestS12NoCoreIsDumped be the process that crashes: "kept", "by the limit" or "as it is".
const crashes = "STRONGROOM_TEST_CRASHES"

// S12: a process that crashes leaves no core, whatever its limit was and wherever the machine has cores written.
func TestS12NoCoreIsDumped(t *testing.T) {
	t.Parallel()
	if how := os.Getenv(crashes); how != "" {
		if how != "as it is" {
			require.NoError(t, secret.KeepOutOfDumps())
		}
		if how == "by the limit" {
			require.NoError(t, unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0))
		}
		dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
		require.NoError(t, err)
		fmt.Println("dumpable", dumpable)
		time.Sleep(time.Hour)
	}
	start := func(how string) (cmd *exec.Cmd, dumpable int) {
		t.Helper()
		cmd = exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), crashes+"="+how, "GOTRACEBACK=crash")
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		for said := bufio.NewScanner(out); said.Scan(); {
			if n, _ := fmt.Sscanf(said.Text(), "dumpable %d", &dumpable); n == 1 {
				return cmd, dumpable
			}
		}
		require.Fail(t, "it said nothing")
		return nil, 0
	}
	crash := func(cmd *exec.Cmd) (dumped bool) {
		t.Helper()
		require.NoError(t, cmd.Process.Signal(syscall.SIGQUIT))
		var exit *exec.ExitError
		require.ErrorAs(t, cmd.Wait(), &exit)
		status := exit.Sys().(syscall.WaitStatus)
		require.Equal(t, syscall.SIGABRT, status.Signal())
		left, err := filepath.Glob(filepath.Join(cmd.Dir, "core*"))
		require.NoError(t, err)
		return status.CoreDump() || len(left) > 0
	}
	cmd, dumpable := start("kept")
	require.Zero(t, dumpable)
	var limit unix.Rlimit
	require.NoError(t, unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_CORE, nil, &limit))
	require.LessOrEqual(t, limit.Max, uint64(1))
	require.False(t, crash(cmd))
	cmd, dumpable = start("by the limit") // which is all that there is after a child of another user
	require.Equal(t, 1, dumpable)
	require.False(t, crash(cmd))

	cmd, dumpable = start("as it is")
	require.Equal(t, 1, dumpable)
	pattern, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	require.NoError(t, err)
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_CORE, &limit))
	if dumped := crash(cmd); limit.Cur > 1<<30 && strings.TrimSpace(string(pattern)) == "core" { // as elsewhere the machine has it
		require.True(t, dumped, "so that the others are not the machine's doing")
	}
}
