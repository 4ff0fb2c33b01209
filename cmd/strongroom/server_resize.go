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

func (c serverMigrate) Run(r *run) error {
	move := map[string]any{"migrate": nil}
	if c.Host != "" {
		move["migrate"] = map[string]any{"host": c.Host}
	}
	return c.move(r, c.DryRun, move, http.StatusAccepted, "VERIFY_RESIZE")
}

// atRest are the statuses that a decision on a move leads to.
var atRest = []string{"ACTIVE", "SHUTOFF"}

type serverConfirm struct {
	serverAction
	dryRun
}

func (c serverConfirm) Run(r *run) error {
	return c.move(r, c.DryRun, map[string]any{"confirmResize": nil}, http.StatusNoContent, atRest...)
}

type serverRevert struct {
	serverAction
	dryRun
}

func (c serverRevert) Run(r *run) error {
	return c.move(r, c.DryRun, map[string]any{"revertResize": nil}, http.StatusAccepted, atRest...)
}
