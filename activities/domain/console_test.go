package domain_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/domain"
	"strongroom/compute"
)

func TestConsole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, err := domain.New(domain.Config{InstancesDir: dir, RunDir: filepath.Join("/tmp", "sr-con-"+filepath.Base(dir)), VirtType: "qemu"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(a.RunDir)) })
	server := plainServer().ID
	_, err = a.Console(t.Context(), domain.ConsoleInput{Server: server})
	require.True(t, compute.Is(err, compute.NotFound), "%v", err)

	log := filepath.Join(dir, server.String(), "console.log")
	require.NoError(t, os.Mkdir(filepath.Dir(log), 0o711))
	for _, c := range []struct {
		content string
		lines   int
		want    string
	}{
		{"", 5, ""},
		{"one\ntwo\nthree\n", 0, "one\ntwo\nthree\n"},
		{"one\ntwo\nthree\n", 2, "three\n"},
		{"one\ntwo\nthree\n", 3, "two\nthree\n"},
		{"one\ntwo\nthree\n", 9, "one\ntwo\nthree\n"},
		{"one\ntwo\nthr", 1, "thr"},
		{"\n\n\n", 2, "\n"},
		{"caf\xe9\n", 2, "caf\uFFFD\n"},
	} {
		require.NoError(t, os.WriteFile(log, []byte(c.content), 0o600))
		got, err := a.Console(t.Context(), domain.ConsoleInput{Server: server, Lines: c.lines})
		require.NoError(t, err)
		require.Equal(t, c.want, got, "%d lines of %q", c.lines, c.content)
	}

	// What virtlogd has put aside counts too, where the log alone is short.
	require.NoError(t, os.WriteFile(log, []byte("three\n"), 0o600))
	require.NoError(t, os.WriteFile(log+".0", []byte(strings.Repeat("x", domain.ConsoleBytes)+"\none\ntwo\n"), 0o600))
	got, err := a.Console(t.Context(), domain.ConsoleInput{Server: server, Lines: 4})
	require.NoError(t, err)
	require.Equal(t, "one\ntwo\nthree\n", got)
	got, err = a.Console(t.Context(), domain.ConsoleInput{Server: server})
	require.NoError(t, err)
	require.Len(t, got, domain.ConsoleBytes)

	// A log of any size is read from its end.
	require.NoError(t, os.WriteFile(log, []byte("end of the log\n"), 0o600))
	require.NoError(t, os.Truncate(log, 0))
	f, err := os.OpenFile(log, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("end of the log\n"), 1<<40)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	got, err = a.Console(t.Context(), domain.ConsoleInput{Server: server})
	require.NoError(t, err)
	require.Len(t, got, domain.ConsoleBytes)
	require.True(t, strings.HasSuffix(got, "end of the log\n"))
}

// P9: a log is split at its newlines, and the last parts are given.
func TestP9LinesOfAConsole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, err := domain.New(domain.Config{InstancesDir: dir, RunDir: filepath.Join("/tmp", "sr-con-"+filepath.Base(dir)), VirtType: "qemu"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(a.RunDir)) })
	server := plainServer().ID
	log := filepath.Join(dir, server.String(), "console.log")
	require.NoError(t, os.Mkdir(filepath.Dir(log), 0o711))
	for _, content := range []string{"one\ntwo\nthree\n", "one\n\ntwo", "\n", "\n\n\n", "one"} {
		require.NoError(t, os.WriteFile(log, []byte(content), 0o600))
		parts := strings.Split(content, "\n")
		for n := 1; n <= len(parts)+1; n++ {
			got, err := a.Console(t.Context(), domain.ConsoleInput{Server: server, Lines: n})
			require.NoError(t, err)
			require.Equal(t, strings.Join(parts[max(0, len(parts)-n):], "\n"), got, "%d of %q", n, content)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good := domain.Config{InstancesDir: dir, RunDir: "/tmp/sr-never-made", VirtType: "qemu"}
	for name, spoil := range map[string]func(*domain.Config){
		"virt_type":  func(c *domain.Config) { c.VirtType = "" },
		"long run":   func(c *domain.Config) { c.RunDir = fmt.Sprintf("/tmp/%070d", 0) },
		"relative":   func(c *domain.Config) { c.InstancesDir = "instances" },
		"unwritable": func(c *domain.Config) { c.InstancesDir = "/proc/instances" },
	} {
		cfg := good
		spoil(&cfg)
		_, err := domain.New(cfg)
		require.Error(t, err, name)
	}
}
