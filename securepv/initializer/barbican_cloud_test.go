package initializer_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/secrets"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/cloud/cloudtest"
	"strongroom/securepv/initializer"
)

// PV-11, on a real Keystone and Barbican with their own policies: an application credential that may read one secret's payload and
// nothing else gives a workload its secret, as text or as bytes; it reads no other, not even of its own project, and
// nothing once it is deleted.
func TestPV11BarbicanInACloud(t *testing.T) {
	t.Parallel()
	provider := cloudtest.NewProject(t).Login(t)
	userID, _ := cloudtest.Who(t, provider)
	client, err := openstack.NewKeyManagerV1(provider, cloudtest.Endpoint)
	require.NoError(t, err)
	identity, err := openstack.NewIdentityV3(provider, cloudtest.Endpoint)
	require.NoError(t, err)
	store := func(of *gophercloud.ServiceClient, in secrets.CreateOpts) string {
		t.Helper()
		made, err := secrets.Create(t.Context(), of, in).Extract()
		require.NoError(t, err)
		id := made.SecretRef[strings.LastIndex(made.SecretRef, "/")+1:]
		t.Cleanup(func() { require.NoError(t, secrets.Delete(context.WithoutCancel(t.Context()), of, id).ExtractErr()) })
		return id
	}
	text := secrets.CreateOpts{Name: "workload", Payload: seed, PayloadContentType: "text/plain"}
	isText, another := store(client, text), store(client, text)
	isBytes := store(client, secrets.CreateOpts{
		Name: "workload", Payload: "/goKCwwNDg8QERITFBUWFxgZGhscHR4fICEiIyQlJic=", PayloadContentType: "application/octet-stream", PayloadContentEncoding: "base64",
	})
	source := func(id string) (_ initializer.Barbican, credential string) {
		t.Helper()
		made, err := applicationcredentials.Create(t.Context(), identity, userID, applicationcredentials.CreateOpts{
			Name: "pod " + id, AccessRules: []applicationcredentials.AccessRule{{Service: "key-manager", Method: "GET", Path: "/v1/secrets/" + id + "/payload"}},
		}).Extract()
		require.NoError(t, err)
		clouds := filepath.Join(t.TempDir(), "clouds.yaml")
		require.NoError(t, os.WriteFile(clouds, []byte(fmt.Sprintf("clouds: {openstack: {region_name: %s, auth_type: v3applicationcredential, "+
			"auth: {auth_url: %q, application_credential_id: %s, application_credential_secret: %q}}}",
			cloudtest.Endpoint.Region, provider.IdentityEndpoint, made.ID, made.Secret)), 0o600))
		return initializer.Barbican{Secret: id, Clouds: clouds, Cloud: "openstack"}, made.ID
	}
	b, credential := source(isText)
	s, err := b.Fetch(t.Context())
	require.NoError(t, err)
	require.Equal(t, seed, textOf(t, s.Seed))

	other := b
	other.Secret = another
	_, err = other.Fetch(t.Context())
	require.Error(t, err)
	require.True(t, initializer.Final(err), "%v", err)
	require.NotContains(t, err.Error(), seed)

	raw, _ := source(isBytes)
	s, err = raw.Fetch(t.Context())
	require.NoError(t, err)
	require.Equal(t, "fe0a0a0b0c0d0e0f101112131415161718191a1b1c1d1e1f2021222324252627", textOf(t, s.Seed))

	require.NoError(t, applicationcredentials.Delete(t.Context(), identity, userID, credential).ExtractErr())
	_, err = b.Fetch(t.Context())
	require.ErrorContains(t, err, "log in to the key manager: 404") // as Keystone says it
	require.True(t, initializer.Final(err))
}
