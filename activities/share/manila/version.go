package manila

import (
	"context"
	"fmt"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/apiversions"

	"strongroom/activities/openstack"
	"strongroom/compute"
)

// The microversions in use.
const (
	least     = "2.45" // access rules can be looked at alone and have metadata
	withLocks = "2.82" // access rules can be made with locks
)

// negotiate looks up what the service can do. The client it gives uses locks where
// there are any.
func negotiate(ctx context.Context, client *gophercloud.ServiceClient) (*gophercloud.ServiceClient, error) {
	plain := *client
	plain.Microversion = "" // the document of the versions has none itself
	pages, err := apiversions.List(&plain).AllPages(ctx)
	if err != nil {
		return nil, openstack.Error(err, "look up the versions of the shared file systems service")
	}
	versions, err := apiversions.ExtractAPIVersions(pages)
	if err != nil {
		return nil, openstack.Error(err, "read the versions of the shared file systems service")
	}
	newest := ""
	for _, v := range versions {
		if atLeast(v.Version, least) && !atLeast(newest, v.Version) {
			newest = v.Version
		}
	}
	if newest == "" {
		return nil, compute.Errorf(compute.Invalid, "the shared file systems service is too old: it does not know microversion %s", least)
	}
	if atLeast(newest, withLocks) {
		plain.Microversion = withLocks
	} else {
		plain.Microversion = least
	}
	return &plain, nil
}

func locks(client *gophercloud.ServiceClient) bool { return client.Microversion == withLocks }

// atLeast compares microversions; one that cannot be read is below all.
func atLeast(version, other string) bool {
	var a, b [2]int
	if _, err := fmt.Sscanf(version, "%d.%d", &a[0], &a[1]); err != nil {
		return false
	}
	if _, err := fmt.Sscanf(other, "%d.%d", &b[0], &b[1]); err != nil {
		return true
	}
	return a[0] > b[0] || a[0] == b[0] && a[1] >= b[1]
}
