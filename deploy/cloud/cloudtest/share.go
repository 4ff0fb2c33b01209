package cloudtest

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shares"
	"github.com/stretchr/testify/require"
)

// The share types of deploy/cloud.
const (
	DummyShares  = "default" // no data behind them; protocols NFS and CIFS
	NFSShares    = "nfs"     // real; protocol NFS; only with cloud.NFS
	CephFSShares = "cephfs"  // real; protocol CEPHFS; only with ceph, see OpenCeph
)

// patience is for what a service does in the background.
const patience = time.Minute

// NewShare makes a share of 1 GiB in the client's project and waits until it is
// available. It goes with the test.
func NewShare(t testing.TB, provider *gophercloud.ProviderClient, shareType, protocol string) *shares.Share {
	t.Helper()
	client := shareClient(t, provider)
	made, err := shares.Create(t.Context(), client, shares.CreateOpts{
		Name: "test-" + uuid.NewString(), ShareType: shareType, ShareProto: protocol, Size: 1,
	}).Extract()
	require.NoError(t, err)
	t.Cleanup(func() { removeShare(t, client, made.ID) })
	require.Eventually(t, func() bool {
		made, err = shares.Get(t.Context(), client, made.ID).Extract()
		require.NoError(t, err)
		require.NotEqual(t, "error", made.Status)
		return made.Status == "available"
	}, patience, 100*time.Millisecond)
	return made
}

// RemoveShare removes a share, as its user would, and waits until it is gone.
func RemoveShare(t testing.TB, provider *gophercloud.ProviderClient, id string) {
	t.Helper()
	removeShare(t, shareClient(t, provider), id)
}

func shareClient(t testing.TB, provider *gophercloud.ProviderClient) *gophercloud.ServiceClient {
	t.Helper()
	client, err := openstack.NewSharedFileSystemV2(provider, Endpoint)
	require.NoError(t, err)
	client.Microversion = "2.45"
	return client
}

func removeShare(t testing.TB, client *gophercloud.ServiceClient, id string) {
	t.Helper()
	ctx := context.Background() // also at a test's end
	if err := shares.Delete(ctx, client, id).ExtractErr(); !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool {
		_, err := shares.Get(ctx, client, id).Extract()
		return gophercloud.ResponseCodeIs(err, http.StatusNotFound)
	}, patience, 100*time.Millisecond)
}
