package domain

import (
	"context"
	"maps"
	"slices"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"

	"strongroom/compute"
)

// network finds a libvirt network that is up. NotFound: there is none of this
// uuid; Invalid: it is no uuid; Unavailable: it is down.
func (c *Client) network(ctx context.Context, id string) (Network, error) {
	parsed, err := uuid.Parse(id)
	if err != nil {
		return Network{}, compute.Errorf(compute.Invalid, "it is no uuid")
	}
	var found Network
	err = c.Do(ctx, func(l *libvirt.Libvirt) error {
		n, err := l.NetworkLookupByUUID(libvirt.UUID(parsed))
		if err != nil {
			return err
		}
		up, err := l.NetworkIsActive(n)
		if err != nil {
			return err
		}
		if up == 0 {
			return compute.Errorf(compute.Unavailable, "it is down")
		}
		found.Name = n.Name
		return nil
	})
	return found, err
}

// networks gives the uuids of all networks that servers can be plugged into.
func networks(l *libvirt.Libvirt, configured map[string]Network) ([]string, error) {
	up, _, err := l.ConnectListAllNetworks(1, libvirt.ConnectListNetworksActive)
	if err != nil {
		return nil, err
	}
	ids := slices.Collect(maps.Keys(configured))
	for _, n := range up {
		ids = append(ids, uuid.UUID(n.UUID).String())
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}
