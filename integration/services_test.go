package integration_test

import (
	"slices"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/trusts"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/secrets"
	"github.com/gophercloud/gophercloud/v2/openstack/objectstorage/v1/containers"
	"github.com/gophercloud/gophercloud/v2/openstack/objectstorage/v1/objects"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/cloud/cloudtest"
)

// service gives a client of one of the real cloud's services.
func (c *testCloud) service(t *testing.T, user string, open func(*gophercloud.ProviderClient, gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error)) *gophercloud.ServiceClient {
	t.Helper()
	s, err := c.session(user)
	require.NoError(t, err)
	client, err := open(s.provider, s.endpoint)
	require.NoError(t, err)
	return client
}

// secrets lists what a user sees in the key manager.
func (c *testCloud) secrets(t *testing.T, user string) []secrets.Secret {
	t.Helper()
	pages, err := secrets.List(c.service(t, user, openstack.NewKeyManagerV1), secrets.ListOpts{Limit: 100}).AllPages(t.Context())
	require.NoError(t, err)
	list, err := secrets.ExtractSecrets(pages)
	require.NoError(t, err)
	return list
}

// trusts gives the names of the trusts that a user gave to strongroom.
func (c *testCloud) trusts(t *testing.T, user string) []string {
	t.Helper()
	client := c.service(t, user, openstack.NewIdentityV3)
	me, _ := cloudtest.Who(t, client.ProviderClient)
	var given struct {
		Trusts []struct {
			Name string `json:"strongroom"`
		} `json:"trusts"`
	}
	page, err := trusts.List(client, trusts.ListOpts{TrustorUserID: me}).AllPages(t.Context())
	require.NoError(t, err)
	body, ok := page.(trusts.TrustPage)
	require.True(t, ok)
	require.NoError(t, body.ExtractInto(&given))
	var names []string
	for _, g := range given.Trusts {
		names = append(names, g.Name)
	}
	return names
}

// containers lists what a user's project has in the object store. A container that is empty
// is nothing of a server's: it stays for the next one.
func (c *testCloud) containers(t *testing.T, user string) (left []string) {
	t.Helper()
	client := c.service(t, user, openstack.NewObjectStorageV1)
	pages, err := containers.List(client, nil).AllPages(t.Context())
	require.NoError(t, err)
	names, err := containers.ExtractNames(pages)
	require.NoError(t, err)
	for _, name := range names {
		pages, err := objects.List(client, name, nil).AllPages(t.Context())
		require.NoError(t, err)
		has, err := objects.ExtractNames(pages)
		require.NoError(t, err)
		for _, object := range has {
			left = append(left, name+"/"+object)
		}
	}
	return left
}

// The names of the images of tests on the cloud that tests share, beside the tiny guest's.
const (
	clientImage = "osc-guest"
	askingImage = "asking"
	signedImage = "signed"
	copiedImage = "cli-copy"
)

// novaSecret is the name of keys that Nova had made.
const novaSecret = "ephemeral key"

// others are images of tests that run beside this one: no server's, and no leak.
var others = []string{clientImage, askingImage, signedImage, copiedImage, countingImage}

// images gives the names of the images that a user sees and no test is known to have.
func (c *testCloud) images(t *testing.T, user string) (names []string) {
	t.Helper()
	for _, i := range c.allImages(t, user) {
		if i.ID != c.image && i.ID != c.idler && !slices.Contains(others, i.Name) {
			names = append(names, i.Name)
		}
	}
	return names
}

func (c *testCloud) allImages(t *testing.T, user string) []images.Image {
	t.Helper()
	pages, err := images.List(c.service(t, user, openstack.NewImageV2), nil).AllPages(t.Context())
	require.NoError(t, err)
	all, err := images.ExtractImages(pages)
	require.NoError(t, err)
	return all
}
