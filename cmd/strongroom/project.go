package main

import (
	"fmt"
	"os"

	"strongroom/activities/ledger"
	"strongroom/compute"
)

type projectCommand struct {
	Forget projectForget `cmd:"" help:"Let go what waits to be removed in a project that was deleted in Keystone."`
}

type projectForget struct {
	output
	Project string `arg:"" name:"project" help:"Its id."`
	Yes     bool   `short:"y" help:"Do not ask."`
}

// Help is shown by --help.
func (projectForget) Help() string {
	return `For a project that was deleted in Keystone while strongroom still had to remove something
of it from Barbican, Glance or Swift. No credential opens it any more, so that waits on the
ledger, and the audit reports it for ever. This releases what waits there and lists
it: it may still be in those services, whose administrators can delete it by its
reference. What waits on hosts is not touched: it needs no credential.

Nothing is let go unless Keystone answers that it does not know the project, which
needs the role reader on the system; a project that is disabled is not gone. A project
that has servers, or of which operations are at work, is not forgotten either: delete
its servers first (openstack server list --all-projects --project PROJECT).

Run it where a control worker is configured.

Exit code 0: the project is forgotten; 1: it is not, and nothing was changed.`
}

// forgottenProject is what forget prints.
type forgottenProject struct {
	Project string          `json:"project"`
	Things  []compute.Thing `json:"things"`
}

func (c projectForget) Run(r *run) error {
	cfg, pool, err := r.database()
	if err != nil {
		return err
	}
	defer pool.Close()
	s, err := r.services(cfg, pool)
	if err != nil {
		return err
	}
	registry, err := s.projects()
	if err != nil {
		return err
	}
	if registry == nil {
		return fmt.Errorf("trusts.backend is %q: projects are those of Keystone", cfg.Trusts.Backend)
	}
	gone, err := registry.GoneProjects(r, []string{c.Project})
	if err != nil {
		return fmt.Errorf("project %s: %w", c.Project, err)
	}
	if len(gone) == 0 {
		return fmt.Errorf("Keystone still knows project %s, or gives no clear answer about it", c.Project)
	}
	if !c.Yes {
		things, err := ledger.ForgettableOf(r, pool, c.Project)
		if err != nil {
			return err
		}
		question := fmt.Sprintf("Project %s will be forgotten. What waits to be removed there stays in the cloud's services: %s.", c.Project, kindsOf(things))
		if err := ask(os.Stdin, os.Stderr, question); err != nil {
			return err
		}
	}
	things, err := ledger.ForgetProject(r, pool, c.Project)
	if err != nil {
		return err
	}
	return c.print(forgottenProject{Project: c.Project, Things: things}, func(w *sheet) {
		if len(things) > 0 {
			w.header("KIND", "PLACE", "NAME", "REFERENCE", "OWNER")
		}
		for _, t := range things {
			w.row(t.Kind, t.Place, t.Name, t.Reference, t.Owner)
		}
		w.note(fmt.Sprintf("project %s is forgotten; things that may still be in the cloud's services: %d", c.Project, len(things)))
	})
}
