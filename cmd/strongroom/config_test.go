package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/activities/openstack/keystone"
)

func TestConfigIsDefaultsThenFileThenEnvironment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "strongroom.yaml")
	require.NoError(t, os.WriteFile(path, []byte(
		"api: {listen: '127.0.0.1:1'}\nhost: {swtpm_enabled: false, networks: [{uuid: u, bridge: br0}]}\n"), 0o600))
	t.Setenv("STRONGROOM_API__LISTEN", "127.0.0.1:2")
	t.Setenv("STRONGROOM_HOST__VIRT_TYPE", "qemu")

	cfg, err := loadConfig(path)
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:2", cfg.API.Listen, "the environment wins")
	require.Equal(t, "qemu", cfg.Host.VirtType)
	require.False(t, cfg.Host.SwtpmEnabled)
	require.Equal(t, []NetworkConfig{{UUID: "u", Bridge: "br0"}}, cfg.Host.Networks)
	require.Equal(t, "local", cfg.Keys.Backend, "what nobody says is the default")

	_, err = loadConfig(filepath.Join(t.TempDir(), "missing.yaml"))
	require.ErrorContains(t, err, "missing.yaml")
	require.NoError(t, os.WriteFile(path, []byte("api: ["), 0o600))
	_, err = loadConfig(path)
	require.ErrorContains(t, err, path)
}

func TestSecretFilesAreTheirOwnersAlone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(path, []byte("value\n"), 0o600))
	value, err := secretFile(path)
	require.NoError(t, err)
	require.Equal(t, "value", string(value))
	require.NoError(t, os.Chmod(path, 0o640))
	_, err = secretFile(path)
	require.ErrorContains(t, err, "chmod 600")
	require.NotContains(t, err.Error(), "value")
}

func TestPluggingIsChecked(t *testing.T) {
	t.Parallel()
	require.NoError(t, HostConfig{UnplugTimeout: time.Second}.checkPlugging())
	require.NoError(t, HostConfig{SparePCIPorts: 16, UnplugTimeout: 30 * time.Minute}.checkPlugging())
	require.EqualError(t, HostConfig{SparePCIPorts: 17, UnplugTimeout: time.Minute}.checkPlugging(), "host.spare_pci_ports: 17: it must be 0 to 16")
	require.EqualError(t, HostConfig{}.checkPlugging(), "host.unplug_timeout: 0s: it must be 1s to 30m")
}

func TestEE30WhichKeysAHostKeepsIsChecked(t *testing.T) {
	t.Parallel()
	for _, ok := range []string{"none", "tpm", "all"} {
		require.NoError(t, HostConfig{KeepGuestKeys: ok}.checkGuestKeys())
	}
	require.EqualError(t, HostConfig{KeepGuestKeys: "true"}.checkGuestKeys(), `host.keep_guest_keys "true": it must be none, tpm or all; what was true is all now, and what was false none`)
	require.Equal(t, "tpm", defaults().Host.KeepGuestKeys)
}

func TestConnectionsAreChecked(t *testing.T) {
	t.Parallel()
	got, err := IdentityConfig{CAFile: "ca", CertFile: "cert", KeyFile: "key", Insecure: true, ConnectTimeout: time.Second, Timeout: time.Minute}.connection()
	require.NoError(t, err)
	require.Equal(t, keystone.Connection{CAFile: "ca", CertFile: "cert", KeyFile: "key", Insecure: true, Connect: time.Second, Silence: time.Minute}, got)
	_, err = IdentityConfig{ConnectTimeout: time.Second, Timeout: 120}.connection()
	require.EqualError(t, err, "identity.timeout: 120ns: it must be 1s to 4m0s, with its unit")
	_, err = IdentityConfig{ConnectTimeout: 5 * time.Minute, Timeout: time.Minute}.connection()
	require.EqualError(t, err, "identity.connect_timeout: 5m0s: it must be 1s to 4m0s, with its unit")
}

func TestFenceAfterIsChecked(t *testing.T) {
	t.Parallel()
	require.NoError(t, HostConfig{}.checkFenceAfter())
	require.NoError(t, HostConfig{FenceAfter: 180}.checkFenceAfter())
	require.EqualError(t, HostConfig{FenceAfter: 30}.checkFenceAfter(),
		"host.fence_after: 30 seconds: it must be 0 (guests go on while their host is cut off), or 60 to 86400")
}
