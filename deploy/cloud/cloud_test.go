package cloud_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/cloud"
	"strongroom/deploy/cloud/cloudtest"
	"strongroom/deploy/dev/process"
)

func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "sr-ct-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

func start(t *testing.T, cfg cloud.Config) *cloud.Cloud {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := cloud.Start(ctx, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Stop(context.Background())) })
	return c
}

func login(t *testing.T, c *cloud.Cloud, user string) (*gophercloud.ProviderClient, error) {
	t.Helper()
	options, _, _, err := clouds.Parse(clouds.WithLocations(c.CloudsFile()), clouds.WithCloudName(user))
	require.NoError(t, err)
	return openstack.AuthenticatedClient(t.Context(), options)
}

func TestStopLeavesNothingAndTheNextStartGoesOn(t *testing.T) {
	cloudtest.Open(t) // where there is a cloud, there are the packages
	cfg := cloud.Config{Dir: folder(t), Services: []string{"keystone"}, Strongroom: "http://127.0.0.1:9", Logger: slog.New(slog.DiscardHandler)}
	first := start(t, cfg)
	client, err := login(t, first, "demo")
	require.NoError(t, err)
	_, before := cloudtest.Who(t, client)
	require.True(t, first.Process("keystone").Running())

	_, err = cloud.Start(t.Context(), cfg)
	require.ErrorIs(t, err, process.ErrInUse)
	_, err = login(t, first, "demo")
	require.NoError(t, err, "the second start touched nothing")

	require.NoError(t, first.Stop(t.Context()))
	pids, err := filepath.Glob(filepath.Join(cfg.Dir, "run", "*.pid"))
	require.NoError(t, err)
	require.Empty(t, pids)
	_, err = login(t, first, "demo")
	require.Error(t, err)

	second := start(t, cfg)
	require.Equal(t, first.AuthURL(), second.AuthURL())
	client, err = login(t, second, "demo")
	require.NoError(t, err)
	_, after := cloudtest.Who(t, client)
	require.Equal(t, before, after)
}

func TestAForeignFolderIsNotTouched(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "precious"), nil, 0o600))
	_, err := cloud.Start(t.Context(), cloud.Config{Dir: dir})
	require.ErrorContains(t, err, "holds no cloud")
	require.ErrorContains(t, cloud.Remove(dir), "holds no cloud")
	require.FileExists(t, filepath.Join(dir, "precious"))
	require.NoError(t, cloud.Remove(filepath.Join(dir, "absent")))
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	_, err := cloud.Start(t.Context(), cloud.Config{Dir: "relative"})
	require.ErrorContains(t, err, "absolute path")
	_, err = cloud.Start(t.Context(), cloud.Config{Dir: "/tmp/x", Services: []string{"nova"}})
	require.ErrorContains(t, err, `unknown service "nova"`)
}

// What the tests of the adapters rely on.
func TestUsersAndCatalog(t *testing.T) {
	t.Parallel()
	file := cloudtest.Open(t)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	services := []string{"identity", "key-manager", "image", "object-store", "compute", "volumev3"}
	if _, err := os.Stat(filepath.Join(filepath.Dir(file), "run", "manila.pid")); err == nil { // ./task test has none
		services = append(services, "sharev2")
	}
	for user, want := range map[string][]string{
		"demo": {"creator", "member", "reader"}, "reader": {"reader"}, "observer": {"observer"},
		cloud.Service: {"creator", "member", "reader", "service"},
	} {
		client := cloudtest.Login(t, user)
		result, ok := client.GetAuthResult().(tokens.CreateResult)
		require.True(t, ok)
		granted, err := result.ExtractRoles()
		require.NoError(t, err)
		var names []string
		for _, role := range granted {
			names = append(names, role.Name)
		}
		require.ElementsMatch(t, want, names, user)
		catalog, err := result.ExtractServiceCatalog()
		require.NoError(t, err)
		var types []string
		for _, entry := range catalog.Entries {
			types = append(types, entry.Type)
			require.Len(t, entry.Endpoints, 3, entry.Type)
			for _, e := range entry.Endpoints {
				require.Contains(t, e.URL, "http://127.0.0.1:")
			}
		}
		require.ElementsMatch(t, services, types)
	}
}
