package domain

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A host gives shares to guests that run where its libvirt's daemon sees a mount of cgroups and its qemu.conf does not
// take all controllers away.
func TestWhereGuestsHaveCgroups(t *testing.T) {
	t.Parallel()
	const (
		first  = "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n"
		second = "proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"
	)
	for _, tc := range []struct {
		mounts, config string
		has            bool
	}{
		{first, "", true},
		{second, "#cgroup_controllers = [ \"cpu\" ]\n", true},
		{second, "cgroup_controllers = [ \"cpu\", \"memory\" ]\n", true},
		{second, "user = \"root\"\n  cgroup_controllers = [ ]\n", false},
		{second, "cgroup_controllers=[\n]\n", false},
		{"proc /proc proc rw 0 0\ntmpfs /sys/fs/cgroup tmpfs rw 0 0\n", "", false},
		{"", "", false},
	} {
		dir := t.TempDir()
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "root/etc/libvirt"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "mounts"), []byte(tc.mounts), 0o600))
		if tc.config != "" {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "root/etc/libvirt/qemu.conf"), []byte(tc.config), 0o600))
		}
		require.Equal(t, tc.has, givesCgroups(dir), tc)
	}
	require.False(t, givesCgroups(filepath.Join(t.TempDir(), "gone")))
}
