package cloudtest

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/deploy/cloud/ceph"
	"strongroom/deploy/dev/port"
)

// Pool is a pool for RBD in a Ceph of the test's own, with a user who may use that
// pool and no other.
type Pool struct {
	Name, User    string
	Conf, Keyring string // the user's; everybody may read the first
	AdminConf     string // the administrator's
}

// StartPool starts a Ceph with a pool, which goes with the test. It is skipped where
// Ceph is not installed; in CI that is a failure.
func StartPool(t testing.TB) Pool {
	t.Helper()
	if os.Getenv("CI") == "" && !ceph.Installed() {
		t.Skip("needs Ceph")
	}
	dir, err := os.MkdirTemp("/tmp", "sr-rbd-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o711))
	ports, err := port.Free(t.Context(), 2)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	running, err := ceph.Start(ctx, ceph.Config{Dir: filepath.Join(dir, "c"), Ports: ceph.Ports{V2: ports[0], V1: ports[1]}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, running.Stop(context.Background())) })
	p := Pool{Name: "vms", User: "nova", Conf: filepath.Join(dir, "ceph.conf"), AdminConf: running.ConfFile()}
	conf, keyring, err := running.Pool(ctx, p.Name, p.User)
	require.NoError(t, err)
	p.Keyring = keyring
	text, err := os.ReadFile(conf)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(p.Conf, text, 0o644))
	return p
}
