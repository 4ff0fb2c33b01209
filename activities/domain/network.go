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

// networks gives the uuids of the networks that servers are offered: those of the
// configuration; where it names none, libvirt's (H8).
func networks(l *libvirt.Libvirt, configured map[string]Network) ([]string, error) {
	if len(configured) > 0 {
		return slices.Sorted(maps.Keys(configured)), nil
	}
	up, _, err := l.ConnectListAllNetworks(1, libvirt.ConnectListNetworksActive)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, n := range up {
		ids = append(ids, uuid.UUID(n.UUID).String())
	}
	slices.Sort(ids)
	return ids, nil
}
