package quota_test

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/limits"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/registeredlimits"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/roles"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/services"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/users"
	"github.com/stretchr/testify/require"

	"strongroom/api/quota"
	"strongroom/compute"
	"strongroom/deploy/cloud/cloudtest"
)

func system(t *testing.T, options gophercloud.AuthOptions) *gophercloud.ServiceClient {
	t.Helper()
	options.Scope, options.TenantName, options.TenantID = &gophercloud.AuthScope{System: true}, "", ""
	provider, err := openstack.AuthenticatedClient(t.Context(), options)
	require.NoError(t, err)
	client, err := openstack.NewIdentityV3(provider, cloudtest.Endpoint)
	require.NoError(t, err)
	return client
}

// reader makes a user with the role reader on the system, which is all that strongroom's
// needs, and logs it in.
func reader(t *testing.T, admin *gophercloud.ServiceClient, url string) *gophercloud.ServiceClient {
	t.Helper()
	password := uuid.NewString()
	user, err := users.Create(t.Context(), admin, users.CreateOpts{Name: "test-" + uuid.NewString(), Password: password, DomainID: "default"}).Extract()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, users.Delete(context.Background(), admin, user.ID).ExtractErr()) })
	pages, err := roles.List(admin, roles.ListOpts{Name: "reader"}).AllPages(t.Context())
	require.NoError(t, err)
	found, err := roles.ExtractRoles(pages)
	require.NoError(t, err)
	require.Len(t, found, 1)
	response, err := admin.Put(t.Context(), admin.ServiceURL("system", "users", user.ID, "roles", found[0].ID), nil, nil,
		&gophercloud.RequestOpts{OkCodes: []int{http.StatusNoContent}})
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return system(t, gophercloud.AuthOptions{IdentityEndpoint: url, UserID: user.ID, Password: password})
}

// H7: the limits of a real Keystone, with no more than the role that the documents name.
func TestH7KeystonesUnifiedLimits(t *testing.T) {
	t.Parallel()
	options, _, _, err := clouds.Parse(clouds.WithLocations(cloudtest.Open(t)), clouds.WithCloudName("admin"))
	require.NoError(t, err)
	admin := system(t, options)
	project, other := cloudtest.NewProject(t).ID, cloudtest.NewProject(t).ID
	service, err := services.Create(t.Context(), admin, services.CreateOpts{Type: "compute-" + uuid.NewString()}).Extract()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, services.Delete(context.Background(), admin, service.ID).ExtractErr()) })

	register := func(resource, region string, limit int) {
		t.Helper()
		made, err := registeredlimits.BatchCreate(t.Context(), admin, registeredlimits.BatchCreateOpts{
			{ServiceID: service.ID, RegionID: region, ResourceName: resource, DefaultLimit: limit},
		}).Extract()
		require.NoError(t, err)
		t.Cleanup(func() {
			require.NoError(t, registeredlimits.Delete(context.Background(), admin, made[0].ID).ExtractErr())
		})
	}
	register("servers", "RegionOne", 11)
	register("servers", "", 12)
	register("class:VCPU", "", -1)
	register("class:DISK_GB", "RegionOne", 13)
	register("class:VGPU", "", 1)
	for _, l := range []limits.CreateOpts{
		{ProjectID: project, ResourceName: "servers", RegionID: "RegionOne", ResourceLimit: 3},
		{ProjectID: project, ResourceName: "class:VCPU", ResourceLimit: 5},
	} {
		l.ServiceID = service.ID
		made, err := limits.BatchCreate(t.Context(), admin, limits.BatchCreateOpts{l}).Extract()
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, limits.Delete(context.Background(), admin, made[0].ID).ExtractErr()) })
	}

	config := quota.Config{
		Identity: reader(t, admin, options.IdentityEndpoint), Region: "RegionOne", Service: service.ID,
		Default: compute.Quota{Instances: 1, Cores: 1, MemoryMB: 2, DiskGB: 1}, Logger: slog.New(slog.DiscardHandler), Now: time.Now,
	}
	k := quota.NewKeystone(config)
	require.Equal(t, compute.Quota{Instances: 3, Cores: 5, MemoryMB: 2, DiskGB: 13}, k.Of(t.Context(), project))
	defaults := compute.Quota{Instances: 11, Cores: -1, MemoryMB: 2, DiskGB: 13}
	require.Equal(t, defaults, k.Of(t.Context(), other))
	require.Equal(t, defaults, k.Default(t.Context()))

	// Without an id the service is looked up; it has no limits.
	config.Service = ""
	found, err := quota.NewKeystone(config).Ask(t.Context(), project)
	require.NoError(t, err)
	require.Equal(t, config.Default, found)
}
