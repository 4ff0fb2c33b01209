package volume_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"strongroom/deploy/cloud/cloudtest"
)

// TestRowsOnKeystone is the same table with the tokens of a real Keystone.
func TestRowsOnKeystone(t *testing.T) {
	rows(t, onKeystone(t))
}

// onKeystone gives the Keystone of deploy/cloud.
func onKeystone(t testing.TB) cloud {
	t.Helper()
	file := cloudtest.Open(t)
	identity, err := openstack.NewIdentityV3(cloudtest.Login(t, "strongroom"), cloudtest.Endpoint)
	require.NoError(t, err)
	return cloud{
		identity: identity,
		callers: map[string]*gophercloud.ProviderClient{
			admin: cloudtest.Login(t, "admin"), member: cloudtest.Login(t, "member"), reader: cloudtest.Login(t, "reader"), stranger: cloudtest.Login(t, "alt"),
			observer: cloudtest.Login(t, "observer"), foreign: cloudtest.NewProject(t).Login(t, "load-balancer_observer"),
		},
		others: []string{observer, foreign},
		environment: func(t testing.TB, caller, address string) []string {
			return []string{"OS_CLIENT_CONFIG_FILE=" + elsewhere(t, file, caller, address), "OS_CLOUD=" + caller}
		},
	}
}

// elsewhere copies one cloud of a clouds.yaml, with the block storage API at an
// address of the test's and not where the catalog has it.
func elsewhere(t testing.TB, file, caller, address string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var all struct {
		Clouds map[string]map[string]any `yaml:"clouds"`
	}
	require.NoError(t, yaml.Unmarshal(text, &all))
	_, project := cloudtest.Who(t, cloudtest.Login(t, caller))
	all.Clouds[caller]["block_storage_endpoint_override"] = address + "/v3/" + project
	text, err = yaml.Marshal(all)
	require.NoError(t, err)
	copied := filepath.Join(t.TempDir(), "clouds.yaml")
	require.NoError(t, os.WriteFile(copied, text, 0o600))
	return copied
}

// VT-12: the standard client with a real Keystone.
func TestStandardClientOnKeystone(t *testing.T) {
	address, serve := listen(t)
	c := onKeystone(t)
	serve(setup(t, c).api)
	standardClient(t, c, address, "3") // what it asks for by itself
}

// TestGophercloudOnKeystone is gophercloud's client with a real Keystone. Its
// catalog has the API elsewhere: the clients are pointed at the test's.
func TestGophercloudOnKeystone(t *testing.T) {
	address, serve := listen(t)
	c := onKeystone(t)
	b := setup(t, c)
	serve(b.api)
	b.create("another", "")
	for _, version := range []string{oldest, newest} {
		gophercloudClient(t, func(caller string) *gophercloud.ServiceClient {
			return &gophercloud.ServiceClient{
				ProviderClient: c.callers[caller], Endpoint: address + "/v3/" + c.project(t, caller) + "/", Type: "block-storage", Microversion: version,
			}
		}, c.project(t, stranger))
	}
}
