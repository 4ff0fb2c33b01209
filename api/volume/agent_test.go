package volume_test

import (
	"context"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumetypes"
	"github.com/stretchr/testify/require"
)

// TestStorageOperator is the agent of the design document: a program with an
// ordinary user's token that makes Storage Classes out of volume types. What it
// must know, it reads from the extra specs that everybody may read.
func TestStorageOperator(t *testing.T) {
	t.Parallel()
	address, serve := listen(t)
	c := onDevcloud(t, address)
	b := setup(t, c)
	serve(b.api)
	b.create("ssd", `{"RESKEY:availability_zones":"az1,az2","volume_backend_name":"nvme-pool"}`)
	b.create("shared-ssd", `{"multiattach":"<is> True","RESKEY:availability_zones":"az1,az2","volume_backend_name":"nvme-pool"}`)
	b.create("replicated", `{"replication_enabled":"<is> True","volume_backend_name":"hdd-pool"}`)
	b.create("cached", `{"multiattach":"<is> False","cacheable":"<is> True"}`)
	b.createPrivate("lab")

	client, err := openstack.NewBlockStorageV3(c.callers[reader], gophercloud.EndpointOpts{Region: "RegionOne"})
	require.NoError(t, err)
	classes, err := storageClasses(t.Context(), client)
	require.NoError(t, err)
	zones := []string{"az1", "az2"}
	require.Equal(t, map[string]storageClass{
		"ssd": {Zones: zones}, "shared-ssd": {ReadWriteMany: true, Zones: zones}, "replicated": {Replicated: true}, "cached": {},
	}, classes)
}

// storageClass is what a Storage Class says of its volumes.
type storageClass struct {
	ReadWriteMany bool // as raw block devices
	Replicated    bool
	Zones         []string // allowedTopologies; none: every zone
}

// storageClasses makes a Storage Class of each volume type that the caller sees.
func storageClasses(ctx context.Context, client *gophercloud.ServiceClient) (map[string]storageClass, error) {
	pages, err := volumetypes.List(client, volumetypes.ListOpts{}).AllPages(ctx)
	if err != nil {
		return nil, err
	}
	types, err := volumetypes.ExtractVolumeTypes(pages)
	classes := map[string]storageClass{}
	for _, t := range types {
		class := storageClass{
			ReadWriteMany: t.ExtraSpecs["multiattach"] == "<is> True",
			Replicated:    t.ExtraSpecs["replication_enabled"] == "<is> True",
		}
		if zones := t.ExtraSpecs["RESKEY:availability_zones"]; zones != "" {
			class.Zones = strings.Split(zones, ",")
		}
		classes[t.Name] = class
	}
	return classes, err
}
