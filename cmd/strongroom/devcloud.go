package main

import "strongroom/devcloud"

type devcloudCommand struct{}

func (devcloudCommand) Run(r *run) error {
	cfg, err := r.config()
	if err != nil {
		return err
	}
	images, err := (&services{Config: cfg, run: r}).images()
	if err != nil {
		return err
	}
	server, err := devcloud.New(devcloud.Config{
		Listen: cfg.DevCloud.Listen, UsersFile: cfg.DevCloud.Users, TokenKeyFile: cfg.DevCloud.TokenKey, Region: cfg.Identity.Region,
		Images: images, Logger: r.log,
		Endpoints: map[string]string{
			"compute": "http://" + cfg.API.Listen + "/v2.1", "volumev3": "http://" + cfg.API.Listen + "/volume/v3/$(project_id)s",
		},
	})
	if err != nil {
		return err
	}
	return server.Serve(r)
}
