package main

type serverRebuild struct {
	serverAction
	Image             string            `required:"" help:"Image, by id or name. To one with other encryption only the server's owner may rebuild."`
	Name              string            `help:"New name."`
	Property          map[string]string `mapsep:"none" help:"Metadata instead of what there is, key=value; repeatable."`
	PreserveEphemeral bool              `help:"Keep the ephemeral disks."`
}

// Help is shown by --help.
func (serverRebuild) Help() string {
	return `One that fails leaves the server as it was, and says why.

  strongroom server rebuild vault --image debian --wait
  strongroom server rebuild vault --image debian --preserve-ephemeral --wait`
}

func (c serverRebuild) Run(r *run) error {
	provider, endpoint, err := c.provider(r)
	if err != nil {
		return err
	}
	image, err := findImage(r, provider, endpoint, c.Image)
	if err != nil {
		return err
	}
	to := map[string]any{"imageRef": image.ID}
	if c.Name != "" {
		to["name"] = c.Name
	}
	if len(c.Property) > 0 {
		to["metadata"] = c.Property
	}
	if c.PreserveEphemeral {
		to["preserve_ephemeral"] = true
	}
	return c.body(r, map[string]any{"rebuild": to})
}
