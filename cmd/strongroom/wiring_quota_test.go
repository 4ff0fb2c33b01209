package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/deploy/cloud/cloudtest"
)

// configOf is the configuration with a user of the cloud as strongroom's own.
func configOf(t *testing.T, cloud string) *Config {
	t.Helper()
	options, _, _, err := clouds.Parse(clouds.WithLocations(cloudtest.Open(t)), clouds.WithCloudName(cloud))
	require.NoError(t, err)
	cfg, err := loadConfig("")
	require.NoError(t, err)
	cfg.Quota.Backend = "keystone"
	cfg.Identity.AuthURL, cfg.Identity.Username, cfg.Identity.Project = options.IdentityEndpoint, options.Username, options.TenantName
	cfg.Identity.PasswordFile = filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(cfg.Identity.PasswordFile, []byte(options.Password), 0o600))
	return cfg
}

// H7: strongroom's user reads the limits of all projects, in a login of its own beside that
// in its project; where it may not, the api does not start and says what is missing.
func TestH7LimitsAreReadOnTheSystem(t *testing.T) {
	t.Parallel()
	r := &run{Context: t.Context(), log: slog.New(slog.DiscardHandler)}
	cfg := configOf(t, "strongroom")
	quotas, err := openQuotas(r, cfg)
	require.NoError(t, err)
	require.Equal(t, compute.Quota{Instances: 10, Cores: 20, MemoryMB: 51200, DiskGB: 1000, Groups: 10, GroupMembers: 10, KeyPairs: 100}, quotas.Default(t.Context()))
	_, err = identityClient(r, cfg.Identity)
	require.NoError(t, err)
	private := cfg.Identity
	private.CAFile = filepath.Join(t.TempDir(), "none")
	_, err = identityClient(r, private)
	require.ErrorContains(t, err, "identity: cafile: open "+private.CAFile)

	_, err = openQuotas(r, configOf(t, "member"))
	require.ErrorContains(t, err, "openstack role add --user member --user-domain Default --system all reader")
}

func TestH7QuotasAreConfigured(t *testing.T) {
	t.Parallel()
	cfg, err := loadConfig("")
	require.NoError(t, err)
	cfg.Quota.Cores = -1
	quotas, err := openQuotas(nil, cfg)
	require.NoError(t, err)
	require.Equal(t, compute.Quota{Instances: 10, Cores: -1, MemoryMB: 51200, DiskGB: 1000, Groups: 10, GroupMembers: 10, KeyPairs: 100}, quotas.Of(t.Context(), "p"))
	cfg.Quota.Backend = "nova"
	_, err = openQuotas(nil, cfg)
	require.ErrorContains(t, err, `there is no "nova", choose local or keystone`)
}
