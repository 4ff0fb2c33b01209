package main

import (
	"net/http"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
)

type serverResize struct {
	serverAction
	dryRun
	Flavor string `required:"" help:"Flavor, by id or name."`
}

func (c serverResize) Run(r *run) error {
	if c.DryRun {
		client, err := c.compute(r)
		if err != nil {
			return err
		}
		flavor, err := findFlavor(r, client, c.Flavor)
		if err != nil {
			return err
		}
		return c.foretell(r, map[string]any{"resize": map[string]any{"flavorRef": flavor.ID}})
	}
	return c.act(r, "VERIFY_RESIZE", func(client *gophercloud.ServiceClient, id string) error {
		flavor, err := findFlavor(r, client, c.Flavor)
		if err != nil {
			return err
		}
		return servers.Resize(r, client, id, servers.ResizeOpts{FlavorRef: flavor.ID}).ExtractErr()
	})
}

type serverMigrate struct {
	serverAction
	dryRun
	Host string `help:"Host to move to; any other one by default."`
}

// migrateToHost is the version that brought the target of a migrate.
const migrateToHost = "2.56"

func (c serverMigrate) Run(r *run) error {
	if c.DryRun {
		move := map[string]any{"migrate": nil}
		if c.Host != "" {
			move["migrate"] = map[string]any{"host": c.Host}
		}
		return c.foretell(r, move)
	}
	return c.act(r, "VERIFY_RESIZE", func(client *gophercloud.ServiceClient, id string) error {
		if c.Host == "" {
			return servers.Migrate(r, client, id).ExtractErr()
		}
		to := *client
		to.Microversion = migrateToHost
		body := map[string]any{"migrate": map[string]any{"host": c.Host}}
		resp, err := to.Post(r, to.ServiceURL("servers", id, "action"), body, nil, &gophercloud.RequestOpts{OkCodes: []int{http.StatusAccepted}})
		if err != nil {
			return err
		}
		return resp.Body.Close()
	})
}

// atRest are the statuses that a decision on a move leads to.
var atRest = []string{"ACTIVE", "SHUTOFF"}

type serverConfirm struct{ serverAction }

func (c serverConfirm) Run(r *run) error {
	return c.actTo(r, atRest, func(client *gophercloud.ServiceClient, id string) error {
		return servers.ConfirmResize(r, client, id).ExtractErr()
	})
}

type serverRevert struct{ serverAction }

func (c serverRevert) Run(r *run) error {
	return c.actTo(r, atRest, func(client *gophercloud.ServiceClient, id string) error {
		return servers.RevertResize(r, client, id).ExtractErr()
	})
}
