package api_test

import (
	"net/http/httptest"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/attachinterfaces"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/instanceactions"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/tags"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/volumeattach"
	"github.com/gophercloud/gophercloud/v2/openstack/utils"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// TestGophercloud drives the API with the client that Terraform and others use.
func TestGophercloud(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"", "2.37", "2.60", "2.97"} {
		t.Run("at "+version, func(t *testing.T) {
			t.Parallel()
			c := setupCloud(t)
			front := httptest.NewServer(c.api)
			t.Cleanup(front.Close)
			client := &gophercloud.ServiceClient{
				ProviderClient: &gophercloud.ProviderClient{TokenID: string(member)}, Endpoint: front.URL + "/v2.1/", Type: "compute",
			}
			client.Microversion = version
			ctx := t.Context()
			speaks, err := utils.GetSupportedMicroversions(ctx, client)
			require.NoError(t, err)
			require.Equal(t, 97, speaks.MaxMinor)

			opts := servers.CreateOpts{Name: "one", ImageRef: c.image, FlavorRef: flavorID, Metadata: map[string]string{"a": "b"}}
			if version != "" {
				opts.Networks = "none"
			}
			made, err := servers.Create(ctx, client, opts, nil).Extract()
			require.NoError(t, err)
			require.NotEmpty(t, made.AdminPass)
			c.settle(made.ID, compute.VMActive, compute.TaskNone)

			got, err := servers.Get(ctx, client, made.ID).Extract()
			require.NoError(t, err)
			require.Equal(t, "ACTIVE", got.Status)
			require.Equal(t, compute.PowerRunning, compute.PowerState(got.PowerState))
			require.Equal(t, c.image, got.Image["id"])
			require.False(t, got.LaunchedAt.IsZero())
			require.Equal(t, map[string]string{"a": "b"}, got.Metadata)
			renamed, err := servers.Update(ctx, client, made.ID, servers.UpdateOpts{Name: "two"}).Extract()
			require.NoError(t, err)
			require.Equal(t, "two", renamed.Name)

			require.NoError(t, servers.Reboot(ctx, client, made.ID, servers.RebootOpts{Type: servers.SoftReboot}).ExtractErr())
			c.settle(made.ID, compute.VMActive, compute.TaskNone)
			require.NoError(t, servers.Stop(ctx, client, made.ID).ExtractErr())
			c.settle(made.ID, compute.VMStopped, compute.TaskNone)
			require.NoError(t, servers.Start(ctx, client, made.ID).ExtractErr())
			require.NoError(t, servers.Lock(ctx, client, made.ID).ExtractErr())
			require.NoError(t, servers.Unlock(ctx, client, made.ID).ExtractErr())
			_, err = servers.UpdateMetadata(ctx, client, made.ID, servers.MetadataOpts{"c": "d"}).Extract()
			require.NoError(t, err)
			c.consoles.text = "boot\n"
			output, err := servers.ShowConsoleOutput(ctx, client, made.ID, servers.ShowConsoleOutputOpts{Length: 5}).Extract()
			require.NoError(t, err)
			require.Equal(t, "boot\n", output)

			pages, err := servers.List(client, servers.ListOpts{Limit: 1}).AllPages(ctx)
			require.NoError(t, err)
			all, err := servers.ExtractServers(pages)
			require.NoError(t, err)
			require.Len(t, all, 1)
			pages, err = instanceactions.List(client, made.ID, nil).AllPages(ctx)
			require.NoError(t, err)
			trail, err := instanceactions.ExtractInstanceActions(pages)
			require.NoError(t, err)
			require.Len(t, trail, 6)
			_, err = instanceactions.Get(ctx, client, made.ID, trail[0].RequestID).Extract()
			require.NoError(t, err)
			pages, err = attachinterfaces.List(client, made.ID).AllPages(ctx)
			require.NoError(t, err)
			_, err = attachinterfaces.ExtractInterfaces(pages)
			require.NoError(t, err)
			_, err = volumeattach.List(client, made.ID).AllPages(ctx)
			require.NoError(t, err)
			if version == "2.60" || version == "2.97" {
				require.NoError(t, tags.Add(ctx, client, made.ID, "blue").ExtractErr())
				there, err := tags.Check(ctx, client, made.ID, "blue").Extract()
				require.NoError(t, err)
				require.True(t, there)
			}
			require.NoError(t, servers.Delete(ctx, client, made.ID).ExtractErr())
		})
	}
}
