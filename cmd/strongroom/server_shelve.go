package main

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

func (c serverShelve) Run(r *run) error { return c.move(r, c.DryRun, map[string]any{"shelve": nil}) }

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
	return c.move(r, c.DryRun, body)
}

type serverOffload struct {
	serverAction
	dryRun
}

func (c serverOffload) Run(r *run) error {
	return c.move(r, c.DryRun, map[string]any{"shelveOffload": nil})
}
