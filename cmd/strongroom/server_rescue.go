package main

import (
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
)

type serverRescue struct {
	serverAction
	Image string `help:"Image to boot from, by id or name; the server's own by default."`
}

func (c serverRescue) Run(r *run) error {
	var opts servers.RescueOpts
	if c.Image != "" {
		provider, endpoint, err := c.provider(r)
		if err != nil {
			return err
		}
		image, err := findImage(r, provider, endpoint, c.Image)
		if err != nil {
			return err
		}
		opts.RescueImageRef = image.ID
	}
	return c.act(r, "RESCUE", func(client *gophercloud.ServiceClient, id string) error {
		_, err := servers.Rescue(r, client, id, opts).Extract()
		return err
	})
}

type serverUnrescue struct{ serverAction }

func (c serverUnrescue) Run(r *run) error {
	return c.act(r, "ACTIVE", func(client *gophercloud.ServiceClient, id string) error {
		return servers.Unrescue(r, client, id).ExtractErr()
	})
}
