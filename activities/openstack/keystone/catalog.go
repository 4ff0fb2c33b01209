package keystone

import (
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"strongroom/activities/openstack"
	"strongroom/compute"
)

const (
	identityType = "identity" // the identity service's own type
	sharesType   = "sharev2"  // that of shared file systems
)

// known is how long a project's catalog is used.
const known = 5 * time.Minute

// catalog is where a project finds its services. Endpoints may bear the project's id,
// so no other project's will do.
type catalog struct {
	entries []tokens.CatalogEntry
	until   time.Time
}

func (c catalog) stale() bool { return time.Now().After(c.until) }

func catalogOf(result interface {
	ExtractServiceCatalog() (*tokens.ServiceCatalog, error)
}) (catalog, error) {
	said, err := result.ExtractServiceCatalog()
	if err != nil {
		return catalog{}, openstack.Error(err, "read the catalog")
	}
	return catalog{entries: said.Entries, until: time.Now().Add(known)}, nil
}

// locate is a gophercloud.EndpointLocator. It asks no service for its versions: which
// one is spoken is the adapter's choice, and gophercloud adds it to the address of a
// key manager and an image store, even where the catalog has it.
func (c catalog) locate(where gophercloud.EndpointOpts) (string, error) {
	for _, name := range where.Types() {
		for _, entry := range c.entries {
			if entry.Type != name {
				continue
			}
			for _, e := range entry.Endpoints {
				if e.Interface == string(where.Availability) && (where.Region == "" || where.Region == e.Region || where.Region == e.RegionID) {
					return unversioned(where.Type, gophercloud.NormalizeURL(e.URL)), nil
				}
			}
		}
	}
	return "", compute.Errorf(compute.Unavailable, "the cloud's catalog has no %s endpoint of %s in region %q", where.Availability, where.Type, where.Region)
}

func unversioned(service, address string) string {
	if slices.Contains([]string{"key-manager", "image"}, service) {
		return strings.TrimSuffix(strings.TrimSuffix(address, "v1/"), "v2/")
	}
	return address
}
