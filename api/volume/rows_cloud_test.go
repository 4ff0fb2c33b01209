package volume_test

import (
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/stretchr/testify/require"

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
		},
		environment: func(caller string) []string { return []string{"OS_CLIENT_CONFIG_FILE=" + file, "OS_CLOUD=" + caller} },
	}
}
