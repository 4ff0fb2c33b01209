package main

type serverLiveMigrate struct {
	serverAction
	dryRun
	Host string `help:"Host to move to; any other one by default."`
}

// Help is shown by --help.
func (serverLiveMigrate) Help() string {
	return `  strongroom server live-migrate vault --dry-run
  strongroom server live-migrate vault --host compute2 --wait`
}

func (c serverLiveMigrate) Run(r *run) error {
	target := map[string]any{"block_migration": "auto", "host": nil}
	if c.Host != "" {
		target["host"] = c.Host
	}
	return c.move(r, c.DryRun, map[string]any{"os-migrateLive": target})
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
	return c.move(r, c.DryRun, map[string]any{"evacuate": target})
}

// move asks for a move, or foretells it, in the version that has its target.
func (c serverAction) move(r *run, foretell bool, body map[string]any) error {
	if foretell {
		return c.foretell(r, body)
	}
	return c.body(r, body)
}
