package imagefile_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/activities/imagefile"
	"strongroom/compute"
)

// confined runs a shell's script, with a file as /dev/fd/3 if it has one.
func confined(t *testing.T, ctx context.Context, l imagefile.Limits, file *os.File, script string) (string, error) { //nolint:revive // t first, as everywhere in tests
	t.Helper()
	cmd, err := imagefile.Command(ctx, l, file, "sh", "-c", script)
	require.NoError(t, err)
	defer cmd.Close()
	if file != nil {
		cmd.ExtraFiles = []*os.File{file}
	}
	var out imagefile.Output
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Failure(ctx, cmd.Run(), out.String())
	return out.String(), err
}

func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatal("needs root")
	}
	t.Skip("needs root")
}

// M3: a program that an image took over reads that image, and what everybody may read.
func TestM3ConfinedProgramsReachNothingElse(t *testing.T) {
	t.Setenv("STRONGROOM_OF_THE_WORKER", "something of the worker's")
	needsRoot(t)
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	path, secret := filepath.Join(dir, "image"), filepath.Join(dir, "secret")
	require.NoError(t, os.WriteFile(path, []byte("the image's bytes\n"), 0o644))
	require.NoError(t, os.WriteFile(secret, []byte("another's bytes\n"), 0o600))
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	run := func(script string) (string, error) { return confined(t, t.Context(), imagefile.Limits{}, file, script) }

	for range 3 {
		out, err := run("cat /dev/fd/3")
		require.NoError(t, err)
		require.Equal(t, "the image's bytes\n", out)
	}
	for name, script := range map[string]string{
		"another file":          "cat " + secret,
		"the image by its path": "cat " + path,
		"to write to the image": "echo x >/dev/fd/3",
		"to write to a file":    "echo x >/tmp/strongroom-confined",
		"what root may read":    "cat /etc/shadow",
	} {
		out, err := run(script)
		require.Error(t, err, "%s: %s", name, out)
	}
	first, err := run("id -u; id -G")
	require.NoError(t, err)
	second, err := run("id -u; id -G")
	require.NoError(t, err)
	require.NotEqual(t, first, second, "each has a user of its own")
	require.NotContains(t, strings.Fields(first), "0")
	net, err := run("tail -n +3 /proc/self/net/dev")
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(net, ":"), "no network but its own loopback: %s", net)
	env, err := run("env")
	require.NoError(t, err)
	require.NotContains(t, env, "of the worker")
	limits, err := run("ulimit -v; ulimit -t; ulimit -f; ulimit -c")
	require.NoError(t, err)
	require.Equal(t, []string{"1048576", "30", "0", "0"}, strings.Fields(limits))
	capabilities, err := run("grep CapEff /proc/self/status")
	require.NoError(t, err)
	require.Contains(t, capabilities, "0000000000000000")
	privileges, err := run("grep NoNewPrivs /proc/self/status")
	require.NoError(t, err)
	require.Equal(t, []string{"NoNewPrivs:", "1"}, strings.Fields(privileges), "setuid programs give it nothing")
}

// H5: a program that meets a limit, or crashes, does so for its image.
func TestH5WhatMeetsALimitCosts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limits imagefile.Limits
		script string
	}{
		"CPU":    {imagefile.Limits{CPU: time.Second}, "while :; do :; done"},
		"crash":  {imagefile.Limits{}, "kill -SEGV $$"},
		"output": {imagefile.Limits{}, "exec yes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := confined(t, t.Context(), c.limits, nil, c.script)
			require.ErrorIs(t, err, imagefile.ErrCost, "%.100s", out)
		})
	}
}

// H5: a program that waits does not do so for its image: its limit of time ends it, and
// says nothing of the image.
func TestH5TimeIsNoWordOnTheImage(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	for name, script := range map[string]string{
		"stopped":               "kill -STOP $$",
		"a read that hangs":     "exec cat " + fifo,
		"some work, then hangs": "i=0; while [ $i -lt 1000 ]; do i=$((i+1)); done; exec cat " + fifo,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := confined(t, t.Context(), imagefile.Limits{Wall: 2 * time.Second}, nil, script)
			require.ErrorIs(t, err, imagefile.ErrTime)
			require.NotErrorIs(t, err, imagefile.ErrCost)
			require.Contains(t, compute.Public(compute.Errorf(compute.Unavailable, "image: %w", err)), "the host's storage is slow")
		})
	}
}

// Other failures are not the image's.
func TestWhatFailsOtherwiseDoesNotCost(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{"it says no": "exit 1", "killed by another": "kill -KILL $$"} {
		_, err := confined(t, t.Context(), imagefile.Limits{}, nil, script)
		require.Error(t, err, name)
		require.NotErrorIs(t, err, imagefile.ErrCost, name)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := confined(t, ctx, imagefile.Limits{}, nil, "sleep 1000")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, imagefile.ErrCost)
}
