package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"strongroom/client"
)

type serverShow struct {
	cloud
	output
	Servers []string `arg:"" name:"server" help:"Servers, by id or name."`
}

// Help is shown by --help.
func (serverShow) Help() string {
	return `  strongroom server show vault
  strongroom server show vault -o value -c status
  strongroom server show web-1 web-2 -o json

How the disks are encrypted, and the operations with the reasons why they failed, strongroom alone tells.`
}

// serverView is what show prints.
type serverView struct {
	servers.Server
	Disks      []client.Disk      `json:"disks,omitempty"`
	Operations []client.Operation `json:"operations"`
}

// shownOperations is how many of a server's newest operations a show tells.
const shownOperations = 10

func (c serverShow) Run(r *run) error {
	compute, err := c.compute(r)
	if err != nil {
		return err
	}
	b, views := newBatch("server", c.Servers), []serverView{}
	b.each(c.Servers, func(name string) error {
		s, err := findServer(r, compute, name)
		if err != nil {
			return err
		}
		view, err := inside(r, client.Extend(compute), s)
		views = append(views, view)
		return err
	})
	switch {
	case len(views) == 0:
		return b.err()
	case b.total == 1:
		err = c.print(views[0], views[0].table)
	default:
		err = c.print(views, func(w *sheet) {
			for i, view := range views {
				if i > 0 {
					w.note()
				}
				view.table(w)
			}
		})
	}
	return errors.Join(err, b.err())
}

// inside adds to a server what strongroom alone tells.
func inside(r *run, own *gophercloud.ServiceClient, s *servers.Server) (view serverView, err error) {
	view.Server = *s
	if view.Disks, err = client.ListDisks(r, own, s.ID); err == nil {
		view.Operations, err = client.ListOperations(r, own, s.ID)
	}
	if gophercloud.ResponseCodeIs(err, 404) {
		err = nil // another compute service
	}
	view.Operations = append([]client.Operation{}, view.Operations[:min(len(view.Operations), shownOperations)]...)
	for i := range view.Operations {
		view.Operations[i].Events = nil
	}
	return view, explain(err)
}

func (v serverView) table(w *sheet) {
	w.row("id", v.ID)
	w.row("name", v.Name)
	w.row("status", v.Status)
	if v.TaskState != "" {
		w.row("task", v.TaskState)
	}
	if v.Fault.Message != "" {
		w.row("fault", v.Fault.Message)
	}
	w.row("created", v.Created.Format(time.RFC3339))
	w.row("flavor", known(v.Flavor["original_name"]))
	w.row("image", known(v.Image["id"]))
	w.row("zone", v.AvailabilityZone)
	if v.Host != "" {
		w.row("host", v.Host)
	}
	w.row("addresses", addresses(v.Server))
	for _, d := range v.Disks {
		encryption := "not encrypted"
		if d.Encrypted {
			encryption = strings.TrimSpace("encrypted " + d.Format + " " + d.Options["cipher-alg"] + " " + d.Options["cipher-mode"])
		}
		w.row("disk "+d.DeviceName, fmt.Sprintf("%s, %d MiB, %s", d.Role, d.SizeMB, encryption))
	}
	for _, o := range v.Operations {
		w.row("operation", strings.TrimSpace(fmt.Sprintf("%s %s %s %s %s", o.AcceptedAt.Format(time.RFC3339), o.Kind, o.ID, o.State, o.Message)))
	}
}
