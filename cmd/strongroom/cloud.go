package main

import (
	"context"
	"fmt"
	"os"
	"regexp"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
)

// cloud says which cloud a client command talks to, as the openstack client
// does: see credentials.
type cloud struct {
	OSCloud string `name:"os-cloud" env:"OS_CLOUD" help:"Which cloud of clouds.yaml; without it, and without OS_AUTH_URL, strongroom-dev."`
}

func (c cloud) provider(ctx context.Context) (*gophercloud.ProviderClient, gophercloud.EndpointOpts, error) {
	name, from := credentials(c.OSCloud, os.Getenv)
	auth, endpoint, tls, err := clouds.Parse(from...)
	if err != nil {
		return nil, endpoint, exit{fmt.Errorf("%s: %w", name, err), codeUsage}
	}
	auth.AllowReauth = auth.TokenID == "" // a wait may outlive a login
	provider, err := config.NewProviderClient(ctx, auth, config.WithTLSConfig(tls))
	if err != nil {
		return nil, endpoint, fmt.Errorf("logging in to %s: %w", name, explain(err))
	}
	return provider, endpoint, nil
}

func (c cloud) compute(ctx context.Context) (*gophercloud.ServiceClient, error) {
	provider, endpoint, err := c.provider(ctx)
	if err != nil {
		return nil, err
	}
	client, err := openstack.NewComputeV2(provider, endpoint)
	if err != nil {
		return nil, err
	}
	client.Microversion = movesVersion
	return client, nil
}

// server logs in and finds a server.
func (c cloud) server(ctx context.Context, nameOrID string) (*gophercloud.ServiceClient, *servers.Server, error) {
	client, err := c.compute(ctx)
	if err != nil {
		return nil, nil, err
	}
	s, err := findServer(ctx, client, nameOrID)
	return client, s, err
}

// findServer gives the server of that id or, exactly, of that name.
func findServer(ctx context.Context, client *gophercloud.ServiceClient, nameOrID string) (*servers.Server, error) {
	if _, err := uuid.Parse(nameOrID); err == nil {
		s, err := servers.Get(ctx, client, nameOrID).Extract()
		return s, explain(err)
	}
	pages, err := servers.List(client, servers.ListOpts{Name: "^" + regexp.QuoteMeta(nameOrID) + "$"}).AllPages(ctx)
	if err != nil {
		return nil, explain(err)
	}
	listed, err := servers.ExtractServers(pages)
	if err != nil {
		return nil, err
	}
	var found []servers.Server
	for _, s := range listed { // the database may tell no case
		if s.Name == nameOrID {
			found = append(found, s)
		}
	}
	return one("server", nameOrID, found)
}

func findFlavor(ctx context.Context, client *gophercloud.ServiceClient, nameOrID string) (*flavors.Flavor, error) {
	pages, err := flavors.ListDetail(client, flavors.ListOpts{AccessType: flavors.AllAccess}).AllPages(ctx)
	if err != nil {
		return nil, explain(err)
	}
	all, err := flavors.ExtractFlavors(pages)
	if err != nil {
		return nil, err
	}
	var found []flavors.Flavor
	for _, f := range all {
		if f.ID == nameOrID {
			return &f, nil
		}
		if f.Name == nameOrID {
			found = append(found, f)
		}
	}
	return one("flavor", nameOrID, found)
}

func findImage(ctx context.Context, provider *gophercloud.ProviderClient, endpoint gophercloud.EndpointOpts, nameOrID string) (*images.Image, error) {
	client, err := openstack.NewImageV2(provider, endpoint)
	if err != nil {
		return nil, err
	}
	if _, err := uuid.Parse(nameOrID); err == nil {
		img, err := images.Get(ctx, client, nameOrID).Extract()
		return img, explain(err)
	}
	pages, err := images.List(client, images.ListOpts{Name: nameOrID}).AllPages(ctx)
	if err != nil {
		return nil, explain(err)
	}
	found, err := images.ExtractImages(pages)
	if err != nil {
		return nil, err
	}
	return one("image", nameOrID, found)
}

// findNetworks gives what a create says of its networks: auto, none, or those of these names or ids.
func findNetworks(ctx context.Context, provider *gophercloud.ProviderClient, endpoint gophercloud.EndpointOpts, namesOrIDs []string) (any, error) {
	if len(namesOrIDs) == 1 && (namesOrIDs[0] == "auto" || namesOrIDs[0] == "none") {
		return namesOrIDs[0], nil
	}
	var all []servers.Network
	for _, nameOrID := range namesOrIDs {
		id := nameOrID
		if _, err := uuid.Parse(nameOrID); err != nil {
			client, err := openstack.NewNetworkV2(provider, endpoint)
			if err != nil {
				return nil, fmt.Errorf("network %q: %w", nameOrID, explain(err))
			}
			pages, err := networks.List(client, networks.ListOpts{Name: nameOrID}).AllPages(ctx)
			if err != nil {
				return nil, explain(err)
			}
			named, err := networks.ExtractNetworks(pages)
			if err != nil {
				return nil, err
			}
			found, err := one("network", nameOrID, named)
			if err != nil {
				return nil, err
			}
			id = found.ID
		}
		all = append(all, servers.Network{UUID: id})
	}
	return all, nil
}

func one[T any](what, name string, found []T) (*T, error) {
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("there is no %s %q", what, name)
	case 1:
		return &found[0], nil
	}
	return nil, fmt.Errorf("there are %d %ss %q: name the one you mean by its id", len(found), what, name)
}
