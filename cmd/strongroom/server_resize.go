package main

type serverResize struct {
	serverAction
	dryRun
	Flavor string `required:"" help:"Flavor, by id or name."`
}

// Help is shown by --help.
func (serverResize) Help() string {
	return `  strongroom server resize vault --flavor large --dry-run
  strongroom server resize vault --flavor large --wait
  strongroom server confirm-resize vault --wait`
}

func (c serverResize) Run(r *run) error {
	client, err := c.compute(r)
	if err != nil {
		return err
	}
	flavor, err := findFlavor(r, client, c.Flavor)
	if err != nil {
		return err
	}
	return c.move(r, c.DryRun, map[string]any{"resize": map[string]any{"flavorRef": flavor.ID}})
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
	return c.move(r, c.DryRun, move)
}

type serverConfirm struct {
	serverAction
	dryRun
}

func (c serverConfirm) Run(r *run) error {
	return c.move(r, c.DryRun, map[string]any{"confirmResize": nil})
}

type serverRevert struct {
	serverAction
	dryRun
}

func (c serverRevert) Run(r *run) error {
	return c.move(r, c.DryRun, map[string]any{"revertResize": nil})
}
