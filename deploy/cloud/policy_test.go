package cloud_test

import (
	"net/http"
	"path"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/acls"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/secrets"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/cloud"
	"strongroom/deploy/cloud/cloudtest"
)

// Barbican takes another policy while it runs, and its own again: what the tests of who
// may read which secret rely on.
func TestBarbicanPolicy(t *testing.T) {
	t.Parallel()
	cloudtest.Open(t) // where there is a cloud, there are the packages
	c := start(t, cloud.Config{Dir: folder(t), Services: []string{"keystone", "barbican"}})
	as := func(user string) *gophercloud.ServiceClient {
		provider, err := login(t, c, user)
		require.NoError(t, err)
		client, err := openstack.NewKeyManagerV1(provider, gophercloud.EndpointOpts{Region: cloud.Region})
		require.NoError(t, err)
		return client
	}
	owner, admin := as("demo"), as("admin-demo")
	read := func(client *gophercloud.ServiceClient, id string) error {
		return secrets.GetPayload(t.Context(), client, id, nil).Err
	}
	var ids []string
	for range 2 {
		made, err := secrets.Create(t.Context(), owner, secrets.CreateOpts{Payload: "x", PayloadContentType: "text/plain"}).Extract()
		require.NoError(t, err)
		ids = append(ids, path.Base(made.SecretRef))
	}
	shared, private, no := ids[0], ids[1], false
	require.NoError(t, acls.SetSecretACL(t.Context(), owner, private, acls.SetOpts{{Type: "read", ProjectAccess: &no}}).Err)

	for range 2 {
		require.NoError(t, read(admin, private))
		require.NoError(t, c.SetBarbicanPolicy(cloud.NoAdminReads))
		err := read(admin, private)
		require.True(t, gophercloud.ResponseCodeIs(err, http.StatusForbidden), "%v", err)
		require.NoError(t, read(admin, shared))
		require.NoError(t, read(owner, private))
		require.NoError(t, c.SetBarbicanPolicy(nil))
	}
	require.NoError(t, c.SetBarbicanPolicy(cloud.NoAdminReads))
	require.NoError(t, secrets.Delete(t.Context(), admin, private).ExtractErr(), "deletes are another rule's matter")
}
