package main

import (
	"strongroom/activities/port"
	"strongroom/devcloud"
)

type devcloudCommand struct{}

func (devcloudCommand) Run(r *run) error {
	cfg, pool, err := r.database(otherConnections)
	if err != nil {
		return err
	}
	defer pool.Close()
	s := &services{Config: cfg, run: r, pool: pool}
	images, err := s.images()
	if err != nil {
		return err
	}
	networks, err := s.networks()
	if err != nil {
		return err
	}
	if _, none := networks.(port.None); none {
		networks = nil
	}
	server, err := devcloud.New(devcloud.Config{
		Listen: cfg.DevCloud.Listen, UsersFile: cfg.DevCloud.Users, TokenKeyFile: cfg.DevCloud.TokenKey, Region: cfg.Identity.Region,
		Images: images, Networks: networks, Logger: r.log,
		Endpoints: map[string]string{
			"compute": "http://" + cfg.API.Listen + "/v2.1", "volumev3": "http://" + cfg.API.Listen + "/volume/v3/$(project_id)s",
		},
	})
	if err != nil {
		return err
	}
	return server.Serve(r)
}
