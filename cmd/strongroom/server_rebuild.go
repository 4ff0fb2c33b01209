package main

import (
	"fmt"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
)

type serverRebuild struct {
	cloud
	output
	wait
	Server            string            `arg:"" help:"Server, by id or name."`
	Image             string            `required:"" help:"Image, by id or name. To one with other encryption only the server's owner may rebuild."`
	Name              string            `help:"New name."`
	Property          map[string]string `help:"Metadata instead of what there is, key=value; repeatable."`
	PreserveEphemeral bool              `help:"Keep the ephemeral disks."`
}

func (c serverRebuild) Run(r *run) error {
	provider, endpoint, err := c.provider(r)
	if err != nil {
		return err
	}
	client, s, err := c.server(r, c.Server)
	if err != nil {
		return err
	}
	image, err := findImage(r, provider, endpoint, c.Image)
	if err != nil {
		return err
	}
	opts := preserving{servers.RebuildOpts{ImageRef: image.ID, Name: c.Name, Metadata: c.Property}, c.PreserveEphemeral}
	asked := servers.Rebuild(r, client, s.ID, opts)
	if asked.Err != nil {
		return explain(asked.Err)
	}
	if c.Wait {
		target := "ACTIVE"
		if s.Status == "SHUTOFF" {
			target = s.Status
		}
		if s, err = await(r, client, s.ID, c.Timeout, target); err != nil {
			return err
		}
		// One that failed leaves a server that looks well.
		if err := succeeded(r, client, s.ID, asked.Header.Get("X-Openstack-Request-Id")); err != nil {
			return err
		}
	}
	return serverShow{cloud: c.cloud, output: c.output, Server: s.ID}.Run(r)
}

// succeeded asks how an operation ended.
func succeeded(r *run, client *gophercloud.ServiceClient, server, request string) error {
	operations, err := serverOperations(r, client, server)
	if err != nil {
		return err
	}
	for _, o := range operations {
		if o.RequestID == request && o.Message != "" {
			return fmt.Errorf("server %s is as it was: its %s %s failed: %s", server, o.Action, request, o.Message)
		}
	}
	return nil
}

// preserving adds to a rebuild what gophercloud has no field for.
type preserving struct {
	servers.RebuildOpts
	ephemeral bool
}

// ToServerRebuildMap builds the request's body.
func (p preserving) ToServerRebuildMap() (map[string]any, error) {
	body, err := p.RebuildOpts.ToServerRebuildMap()
	if err == nil && p.ephemeral {
		body["rebuild"].(map[string]any)["preserve_ephemeral"] = true
	}
	return body, err
}
