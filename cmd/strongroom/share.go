package main

import (
	"fmt"
	"os"

	"github.com/google/uuid"

	"strongroom/activities/share/local"
	"strongroom/compute"
)

type shareCommand struct {
	Create shareCreate `cmd:"" help:"Make a share of a project."`
	List   shareList   `cmd:"" help:"List the shares of a project."`
	Delete shareDelete `cmd:"" help:"Delete a share that no server has."`
}

// Help is shown by --help.
func (shareCommand) Help() string {
	return `Works where shares.backend is local: a share is a folder below shares.path, and the hosts
of the same machine mount it. Servers get shares with the compute API (docs/shares.md).`
}

// ofProject opens the shares, for one project.
type ofProject struct {
	Project string `required:"" help:"Id of the project."`
}

func (p ofProject) open(r *run) (*local.Service, compute.Credential, error) {
	cfg, err := r.config()
	if err != nil {
		return nil, compute.Credential{}, err
	}
	if cfg.Shares.Backend != "local" {
		return nil, compute.Credential{}, fmt.Errorf("shares.backend is %s: shares are made here only where it is local", cfg.Shares.Backend)
	}
	s, err := local.Open(cfg.Shares.Path)
	return s, compute.Credential{ProjectID: p.Project}, err
}

type shareCreate struct {
	ofProject
	Name string `arg:"" help:"Name of the share."`
	Size int    `default:"1" help:"Size in GiB. It is noted, and nothing enforces it."`
}

func (c shareCreate) Run(r *run) error {
	s, cred, err := c.open(r)
	if err != nil {
		return err
	}
	made, err := s.Create(r, cred, c.Name, c.Size)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(os.Stdout, made.ID)
	return err
}

type shareList struct {
	ofProject
	output
}

func (c shareList) Run(r *run) error {
	s, cred, err := c.open(r)
	if err != nil {
		return err
	}
	shares, err := s.Shares(r, cred)
	if err != nil {
		return err
	}
	return c.print(shares, func(w *sheet) {
		w.header("ID", "NAME", "GIB", "STATUS")
		for _, one := range shares {
			w.row(one.ID, one.Name, one.SizeGiB, one.Status)
		}
	})
}

type shareDelete struct {
	ofProject
	ID string `arg:"" help:"Id of the share."`
}

func (c shareDelete) Run(r *run) error {
	id, err := uuid.Parse(c.ID)
	if err != nil {
		return fmt.Errorf("%q is no share's id", c.ID)
	}
	s, cred, err := c.open(r)
	if err != nil {
		return err
	}
	return s.Delete(r, cred, compute.ShareID{UUID: id})
}
