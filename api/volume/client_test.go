package volume_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumetypes"
	"github.com/gophercloud/gophercloud/v2/openstack/utils"
	"github.com/stretchr/testify/require"
)

// listen serves an API that does not exist yet at an address that is known.
func listen(t *testing.T) (address string, serve func(http.Handler)) {
	t.Helper()
	var handler http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	return server.URL, func(h http.Handler) { handler = h }
}

// TestGophercloud drives the API with the client that Terraform and storage
// operators use, found through the catalog.
func TestGophercloud(t *testing.T) {
	t.Parallel()
	address, serve := listen(t)
	c := onDevcloud(t, address)
	b := setup(t, c)
	serve(b.api)
	b.create("another", "")
	for _, version := range []string{"", oldest, newest} {
		t.Run("at "+version, func(t *testing.T) {
			client := func(caller string) *gophercloud.ServiceClient {
				found, err := openstack.NewBlockStorageV3(c.callers[caller], gophercloud.EndpointOpts{Region: "RegionOne"})
				require.NoError(t, err)
				found.Microversion = version
				return found
			}
			gophercloudClient(t, client, c.project(t, stranger))
		})
	}
}

// gophercloudClient is a type's life, as an administrator makes it and a member
// sees it.
func gophercloudClient(t *testing.T, client func(caller string) *gophercloud.ServiceClient, elsewhere string) {
	ctx, a, m := t.Context(), client(admin), client(member)
	speaks, err := utils.GetSupportedMicroversions(ctx, m)
	require.NoError(t, err)
	require.Equal(t, utils.SupportedMicroversions{MaxMajor: 3, MaxMinor: 71, MinMajor: 3, MinMinor: 0}, speaks)

	private := false
	made, err := volumetypes.Create(ctx, a, volumetypes.CreateOpts{
		Name: "one", Description: "d", IsPublic: &private, ExtraSpecs: map[string]string{"multiattach": "<is> True", "volume_backend_name": "pool"},
	}).Extract()
	require.NoError(t, err)
	require.False(t, made.IsPublic)
	list := func(client *gophercloud.ServiceClient) []volumetypes.VolumeType {
		pages, err := volumetypes.List(client, volumetypes.ListOpts{Limit: 1}).AllPages(ctx)
		require.NoError(t, err)
		all, err := volumetypes.ExtractVolumeTypes(pages)
		require.NoError(t, err)
		return all
	}
	require.Len(t, list(a), 2)
	require.Len(t, list(m), 1)

	require.NoError(t, volumetypes.AddAccess(ctx, a, made.ID, volumetypes.AddAccessOpts{Project: elsewhere}).ExtractErr())
	pages, err := volumetypes.ListAccesses(a, made.ID).AllPages(ctx)
	require.NoError(t, err)
	accesses, err := volumetypes.ExtractAccesses(pages)
	require.NoError(t, err)
	require.Equal(t, []volumetypes.VolumeTypeAccess{{VolumeTypeID: made.ID, ProjectID: elsewhere}}, accesses)
	_, err = volumetypes.Get(ctx, client(stranger), made.ID).Extract()
	require.NoError(t, err)
	require.NoError(t, volumetypes.RemoveAccess(ctx, a, made.ID, volumetypes.RemoveAccessOpts{Project: elsewhere}).ExtractErr())

	public, name := true, "uno"
	updated, err := volumetypes.Update(ctx, a, made.ID, volumetypes.UpdateOpts{Name: &name, IsPublic: &public}).Extract()
	require.NoError(t, err)
	require.Equal(t, []any{"uno", true}, []any{updated.Name, updated.IsPublic})
	updated, err = volumetypes.Get(ctx, a, made.ID).Extract() // the answer to an update says less (P2)
	require.NoError(t, err)
	require.Equal(t, []any{"uno", true, true}, []any{updated.Name, updated.IsPublic, updated.PublicAccess})

	specs, err := volumetypes.CreateExtraSpecs(ctx, a, made.ID, volumetypes.ExtraSpecsOpts{"replication_enabled": "<is> True"}).Extract()
	require.NoError(t, err)
	require.Equal(t, map[string]string{"replication_enabled": "<is> True"}, specs)
	spec, err := volumetypes.UpdateExtraSpec(ctx, a, made.ID, volumetypes.ExtraSpecsOpts{"volume_backend_name": "other pool"}).Extract()
	require.NoError(t, err)
	require.Equal(t, map[string]string{"volume_backend_name": "other pool"}, spec)
	for client, want := range map[*gophercloud.ServiceClient]map[string]string{
		a: {"multiattach": "<is> True", "replication_enabled": "<is> True", "volume_backend_name": "other pool"},
		m: {"multiattach": "<is> True", "replication_enabled": "<is> True"},
	} {
		specs, err := volumetypes.ListExtraSpecs(ctx, client, made.ID).Extract()
		require.NoError(t, err)
		require.Equal(t, want, specs)
		one, err := volumetypes.Get(ctx, client, made.ID).Extract()
		require.NoError(t, err)
		require.Equal(t, want, one.ExtraSpecs)
	}
	_, err = volumetypes.GetExtraSpec(ctx, m, made.ID, "multiattach").Extract()
	require.NoError(t, err)
	_, err = volumetypes.GetExtraSpec(ctx, m, made.ID, "volume_backend_name").Extract()
	require.True(t, gophercloud.ResponseCodeIs(err, 404), err)
	err = volumetypes.DeleteExtraSpec(ctx, m, made.ID, "multiattach").ExtractErr()
	require.True(t, gophercloud.ResponseCodeIs(err, 403), err)
	require.NoError(t, volumetypes.DeleteExtraSpec(ctx, a, made.ID, "multiattach").ExtractErr())

	gophercloudEncryption(t, a, made.ID)
	require.NoError(t, volumetypes.Delete(ctx, a, made.ID).ExtractErr())
}

func gophercloudEncryption(t *testing.T, client *gophercloud.ServiceClient, id string) {
	ctx := t.Context()
	crypt, err := volumetypes.CreateEncryption(ctx, client, id, volumetypes.CreateEncryptionOpts{
		KeySize: 256, Provider: "luks", ControlLocation: "front-end", Cipher: "aes-xts-plain64",
	}).Extract()
	require.NoError(t, err)
	require.Equal(t, id, crypt.VolumeTypeID)
	shown, err := volumetypes.GetEncryption(ctx, client, id).Extract()
	require.NoError(t, err)
	require.Equal(t, []any{"luks", 256, crypt.EncryptionID, false}, []any{shown.Provider, shown.KeySize, shown.EncryptionID, shown.Deleted})
	cipher, err := volumetypes.GetEncryptionSpec(ctx, client, id, "cipher").Extract()
	require.NoError(t, err)
	require.Equal(t, map[string]any{"cipher": "aes-xts-plain64"}, cipher)
	changed, err := volumetypes.UpdateEncryption(ctx, client, id, crypt.EncryptionID, volumetypes.UpdateEncryptionOpts{
		KeySize: 512, Provider: "luks", ControlLocation: "front-end", Cipher: "aes-xts-plain64",
	}).Extract()
	require.NoError(t, err)
	require.Equal(t, 512, changed.KeySize)
	require.NoError(t, volumetypes.DeleteEncryption(ctx, client, id, crypt.EncryptionID).ExtractErr())
}
