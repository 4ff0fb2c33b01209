// Package cloudtest gives tests a real OpenStack.
package cloudtest

import (
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/stretchr/testify/require"
)

const (
	// Variable names the environment variable that points tests at the clouds.yaml
	// of a cloud of deploy/cloud. deploy/with --cloud starts one and sets it.
	Variable = "STRONGROOM_TEST_CLOUD"
	// Required names the variable that makes a missing cloud a failure.
	Required = "STRONGROOM_TEST_CLOUD_REQUIRED"
)

// Endpoint is what a test's clients are made for.
var Endpoint = gophercloud.EndpointOpts{Region: "RegionOne"}

// Open gives the clouds.yaml, or skips the test.
func Open(t testing.TB) string {
	t.Helper()
	file := os.Getenv(Variable)
	if file == "" {
		if os.Getenv(Required) != "" {
			t.Fatalf("%s is not set: run the tests through deploy/with --cloud", Variable)
		}
		t.Skipf("needs OpenStack: set %s, or run go run ./deploy/with --cloud go test ...", Variable)
	}
	return file
}

// Login logs in as a user of deploy/cloud. The client logs in again by itself.
func Login(t testing.TB, user string) *gophercloud.ProviderClient {
	t.Helper()
	options, _, _, err := clouds.Parse(clouds.WithLocations(Open(t)), clouds.WithCloudName(user))
	require.NoError(t, err)
	options.AllowReauth = true
	client, err := openstack.NewClient(options.IdentityEndpoint)
	require.NoError(t, err)
	client.HTTPClient = http.Client{Timeout: 2 * time.Minute}
	require.NoError(t, openstack.Authenticate(t.Context(), client, options))
	return client
}

// Who gives the ids of the user and the project that a client is logged in to.
func Who(t testing.TB, client *gophercloud.ProviderClient) (userID, projectID string) {
	t.Helper()
	result, ok := client.GetAuthResult().(tokens.CreateResult)
	require.True(t, ok)
	user, err := result.ExtractUser()
	require.NoError(t, err)
	project, err := result.ExtractProject()
	require.NoError(t, err)
	return user.ID, project.ID
}
