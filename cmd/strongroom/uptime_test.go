package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// asClientsRead is what the openstack client takes an uptime apart with.
var asClientsRead = regexp.MustCompile(`^\s*(.+)\sup\s+(.+),\s+(.+)\susers?,\s+load average:\s(.+)$`)

// P16: the uptime that a host reports can be taken apart.
func TestP16UptimeOfAHost(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 7, 8, 9, 0, time.UTC)
	for ran, since := range map[string]string{
		"59.9 1": "0 min", "3599.9 1": "59 min", "3600.00 1": "1:00", "86399 1": "23:59", "90061.5 1": "1 day,  1:01", "8640000 1": "100 days,  0:00",
	} {
		proc := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(proc, "uptime"), []byte(ran+"\n"), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(proc, "loadavg"), []byte("0.1 12.34 0.00 1/2 3\n"), 0o600))
		text, err := uptime(proc, now)
		require.NoError(t, err)
		require.Equal(t, []string{text, "07:08:09", since, "0", "0.10, 12.34, 0.00"}, asClientsRead.FindStringSubmatch(text))
	}
	text, err := uptime("/proc", now)
	require.NoError(t, err)
	require.Regexp(t, asClientsRead, text)
	_, err = uptime(t.TempDir(), now)
	require.ErrorIs(t, err, os.ErrNotExist)
}
