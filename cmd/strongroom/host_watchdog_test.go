package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Where releases up to now keep a host's lease, hosts have it.
func TestFilesOfTheLease(t *testing.T) {
	t.Parallel()
	l := HostConfig{Run: "/run/strongroom", IDFile: "/var/lib/strongroom/host.id"}.lease()
	require.Equal(t, "/run/strongroom/lease", l.Run)
	require.Equal(t, "/var/lib/strongroom/host.lease", l.State)
	require.Equal(t, "/var/lib/strongroom/host.promise", l.Former, "of releases that called it so")
}
