package main

import (
	"cmp"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/instanceactions"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
)

type serverShow struct {
	cloud
	output
	Server string `arg:"" help:"Server, by id or name."`
}

// serverView is what show prints.
type serverView struct {
	servers.Server
	Disks      []diskView      `json:"disks,omitempty"`
	Operations []operationView `json:"operations"`
}

type diskView struct {
	DeviceName string            `json:"device_name"`
	Role       string            `json:"role"`
	SizeMB     int64             `json:"size_mb"`
	Encrypted  bool              `json:"encrypted"`
	Format     string            `json:"encryption_format"`
	Options    map[string]string `json:"encryption_options"`
}

type operationView struct {
	Action    string    `json:"action"`
	RequestID string    `json:"request_id"`
	Started   time.Time `json:"start_time"`
	Message   string    `json:"message,omitempty"`
}

func (c serverShow) Run(r *run) error {
	client, s, err := c.server(r, c.Server)
	if err != nil {
		return err
	}
	view := serverView{Server: *s}
	if view.Disks, err = serverDisks(r, client, s.ID); err != nil {
		return err
	}
	if view.Operations, err = serverOperations(r, client, s.ID); err != nil {
		return err
	}
	return c.print(view, view.table)
}

func (v serverView) table(w *tabwriter.Writer) {
	row(w, "id", v.ID)
	row(w, "name", v.Name)
	row(w, "status", v.Status)
	if v.Fault.Message != "" {
		row(w, "fault", v.Fault.Message)
	}
	row(w, "created", v.Created.Format(time.RFC3339))
	row(w, "flavor", v.Flavor["original_name"])
	for _, d := range v.Disks {
		encryption := "not encrypted"
		if d.Encrypted {
			encryption = strings.TrimSpace("encrypted " + d.Format + " " + d.Options["cipher-alg"] + " " + d.Options["cipher-mode"])
		}
		row(w, "disk "+d.DeviceName, fmt.Sprintf("%s, %d MiB, %s", d.Role, d.SizeMB, encryption))
	}
	for _, o := range v.Operations {
		row(w, "operation", fmt.Sprintf("%s %s %s %s", o.Started.Format(time.RFC3339), o.Action, o.RequestID, o.Message))
	}
}

// serverDisks reads the per-disk encryption view, which only strongroom has.
func serverDisks(r *run, client *gophercloud.ServiceClient, id string) ([]diskView, error) {
	var body struct {
		Disks []diskView `json:"disks"`
	}
	// The client would put its own version header in the place of ours.
	plain := *client
	plain.Microversion = ""
	resp, err := plain.Get(r, client.ServiceURL("servers", id, "disks"), &body, &gophercloud.RequestOpts{MoreHeaders: ownVersion})
	if err != nil {
		if gophercloud.ResponseCodeIs(err, 404) {
			return nil, nil // another compute service
		}
		return nil, explain(err)
	}
	return body.Disks, resp.Body.Close()
}

func serverOperations(r *run, client *gophercloud.ServiceClient, id string) ([]operationView, error) {
	pages, err := instanceactions.List(client, id, nil).AllPages(r)
	if err != nil {
		return nil, explain(err)
	}
	actions, err := instanceactions.ExtractInstanceActions(pages)
	if err != nil {
		return nil, err
	}
	out := []operationView{}
	var why map[string]string // asked for once, where one failed
	for _, a := range actions {
		if a.Message != "" && why == nil {
			why = reasons(r, client, id)
		}
		out = append(out, operationView{Action: a.Action, RequestID: a.RequestID, Started: a.StartTime, Message: cmp.Or(why[a.RequestID], a.Message)})
	}
	return out, nil
}
