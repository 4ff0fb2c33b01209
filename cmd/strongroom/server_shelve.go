package main

import (
	"net/http"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
)

type serverShelve struct {
	serverAction
	dryRun
}

// Help is shown by --help.
func (serverShelve) Help() string {
	return `The guest is shut down, its disks are kept as images with their own keys and the state
of its vTPM as an object, all of it in its owner's project. Then it leaves its host, at
once or later (api.shelved_offload_time).

  strongroom server shelve vault --dry-run
  strongroom server shelve vault --wait`
}

func (c serverShelve) Run(r *run) error {
	if c.DryRun {
		return c.foretell(r, map[string]any{"shelve": nil})
	}
	return c.actTo(r, []string{"SHELVED", "SHELVED_OFFLOADED"}, func(client *gophercloud.ServiceClient, id string) error {
		return servers.Shelve(r, client, id).ExtractErr()
	})
}

type serverUnshelve struct {
	serverAction
	dryRun
	Host string `help:"Host to come to; any one by default (administrators)."`
}

func (c serverUnshelve) Run(r *run) error {
	body := map[string]any{"unshelve": nil}
	if c.Host != "" {
		body["unshelve"] = map[string]any{"host": c.Host}
	}
	return c.move(r, c.DryRun, body, http.StatusAccepted, "ACTIVE")
}

type serverOffload struct {
	serverAction
	dryRun
}

func (c serverOffload) Run(r *run) error {
	return c.move(r, c.DryRun, map[string]any{"shelveOffload": nil}, http.StatusAccepted, "SHELVED_OFFLOADED")
}
