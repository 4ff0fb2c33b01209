package ceph_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/deploy/cloud/ceph"
	"strongroom/deploy/cloud/cloudtest"
	"strongroom/deploy/dev/port"
	"strongroom/deploy/dev/process"
)

func start(t *testing.T, cfg ceph.Config) *ceph.Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := ceph.Start(ctx, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Stop(context.Background())) })
	return c
}

// What was written and synced before the daemons were killed is there after the next start.
func TestTheNextStartGoesOn(t *testing.T) {
	cloudtest.OpenCeph(t) // where there is one, there are the packages
	dir, err := os.MkdirTemp("/tmp", "sr-ceph-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	ports, err := port.Free(t.Context(), 2)
	require.NoError(t, err)
	cfg := ceph.Config{Dir: dir, Ports: ceph.Ports{V2: ports[0], V1: ports[1]}}
	mount := func(c *ceph.Cluster, use func(folder string)) {
		t.Run("mounted", func(t *testing.T) { // unmounts at its end
			use(cloudtest.Ceph{ConfFile: filepath.Join(dir, "client.conf")}.Mount(t, c.Monitor()+":/", "admin", keyOf(t, dir, "client.admin")))
		})
	}

	first := start(t, cfg)
	mount(first, func(folder string) {
		f, err := os.Create(filepath.Join(folder, "letter"))
		require.NoError(t, err)
		_, err = f.WriteString("dear")
		require.NoError(t, err)
		require.NoError(t, f.Sync()) // what a client merely wrote need not have reached any daemon
		require.NoError(t, f.Close())
	})
	_, err = ceph.Start(t.Context(), cfg)
	require.ErrorIs(t, err, process.ErrInUse)
	require.NoError(t, first.Stop(t.Context()))
	pids, err := filepath.Glob(filepath.Join(dir, "*.pid"))
	require.NoError(t, err)
	require.Empty(t, pids)

	mount(start(t, cfg), func(folder string) {
		text, err := os.ReadFile(filepath.Join(folder, "letter"))
		require.NoError(t, err)
		require.Equal(t, "dear", string(text))
	})
}

func keyOf(t *testing.T, dir, entity string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "keyring."+entity))
	require.NoError(t, err)
	_, key, found := strings.Cut(string(text), "key = ")
	require.True(t, found)
	return strings.TrimSpace(key)
}
