package main

type serverRescue struct {
	serverAction
	Image string `help:"Image to boot from, by id or name; the server's own by default."`
}

// Help is shown by --help.
func (serverRescue) Help() string {
	return `  strongroom server rescue vault --image debian --wait
  strongroom server unrescue vault --wait`
}

func (c serverRescue) Run(r *run) error {
	from := map[string]any{}
	if c.Image != "" {
		provider, endpoint, err := c.provider(r)
		if err != nil {
			return err
		}
		image, err := findImage(r, provider, endpoint, c.Image)
		if err != nil {
			return err
		}
		from["rescue_image_ref"] = image.ID
	}
	return c.body(r, map[string]any{"rescue": from})
}

type serverUnrescue struct{ serverAction }

func (c serverUnrescue) Run(r *run) error { return c.body(r, map[string]any{"unrescue": nil}) }
