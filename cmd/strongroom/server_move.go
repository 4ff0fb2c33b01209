package main

import (
	"net/http"

	"github.com/gophercloud/gophercloud/v2"
)

type serverLiveMigrate struct {
	serverAction
	dryRun
	Host string `help:"Host to move to; any other one by default."`
}

func (c serverLiveMigrate) Run(r *run) error {
	target := map[string]any{"block_migration": "auto", "host": nil}
	if c.Host != "" {
		target["host"] = c.Host
	}
	return c.move(r, c.DryRun, map[string]any{"os-migrateLive": target}, http.StatusAccepted, "ACTIVE", "PAUSED")
}

type serverEvacuate struct {
	serverAction
	dryRun
	Host string `help:"Host to come to; any other one by default."`
}

// Help is shown by --help.
func (serverEvacuate) Help() string {
	return `For a server whose host is dead, fenced and forced down. What it had on disks of its own
is lost, and so is the state of its vTPM. One that ran is started again.

  strongroom server evacuate vault --dry-run
  strongroom server evacuate vault --wait`
}

func (c serverEvacuate) Run(r *run) error {
	target := map[string]any{}
	if c.Host != "" {
		target["host"] = c.Host
	}
	return c.move(r, c.DryRun, map[string]any{"evacuate": target}, http.StatusOK, atRest...)
}

// move asks for a move, or foretells it, in the version that has its target.
func (c serverAction) move(r *run, foretell bool, body map[string]any, answer int, targets ...string) error {
	if foretell {
		return c.foretell(r, body)
	}
	return c.actTo(r, targets, func(client *gophercloud.ServiceClient, id string) error {
		to := *client
		to.Microversion = movesVersion
		resp, err := to.Post(r, to.ServiceURL("servers", id, "action"), body, nil, &gophercloud.RequestOpts{OkCodes: []int{answer}})
		if err != nil {
			return err
		}
		return resp.Body.Close()
	})
}
