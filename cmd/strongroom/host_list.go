package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"strongroom/client"
)

// hostsVersion is the last one in which the compute API tells what of a host is used.
const hostsVersion = "compute 2.87, strongroom 1.0"

// hostView is a compute host as the compute API tells of it.
type hostView struct {
	ID             string     `json:"id"`
	Host           string     `json:"host"`
	Zone           string     `json:"zone"`
	Status         string     `json:"status"`
	State          string     `json:"state"`
	ForcedDown     bool       `json:"forced_down"`
	DisabledReason string     `json:"disabled_reason"`
	UpdatedAt      string     `json:"updated_at"`
	FenceAfter     int        `json:"fence_after"`
	Drain          *drainView `json:"drain"`

	hostUse
}

// drainView is how far a drain is.
type drainView struct {
	Operation string `json:"operation_id"`
	State     string `json:"state"`
	Moving    int    `json:"moving"`
	Moved     int    `json:"moved"`
	Left      int    `json:"left"`
	Failed    int    `json:"failed"`
	ToRemove  int    `json:"to_remove"`
}

func (d *drainView) String() string {
	if d == nil {
		return ""
	}
	line := fmt.Sprintf("%s (%s): %d moved, %d moving, %d left, %d failed", d.State, d.Operation, d.Moved, d.Moving, d.Left, d.Failed)
	if d.ToRemove > 0 {
		line += fmt.Sprintf(", %d things still to be removed there", d.ToRemove)
	}
	return line
}

// hostUse is what a host has and what its servers were given of it.
type hostUse struct {
	Name       string `json:"hypervisor_hostname"`
	Address    string `json:"host_ip"`
	VCPUs      int    `json:"vcpus"`
	VCPUsUsed  int    `json:"vcpus_used"`
	Memory     int    `json:"memory_mb"`
	MemoryUsed int    `json:"memory_mb_used"`
	Disk       int    `json:"local_gb"`
	DiskUsed   int    `json:"local_gb_used"`
	Servers    int    `json:"running_vms"`
}

type hostList struct {
	cloud
	output
	long
}

// Help is shown by --help.
func (hostList) Help() string {
	return `For administrators, of the compute API: no database is needed.

  strongroom host list --long --os-cloud admin
  strongroom host list -o value -c host`
}

func (c hostList) Run(r *run) error {
	all, err := c.hosts(r)
	if err != nil {
		return err
	}
	return c.print(all, func(w *sheet) {
		columns := []string{"ID", "HOST", "ZONE", "STATUS", "STATE", "SERVERS"}
		if c.Long {
			columns = append(columns, "VCPUS", "MEMORY MB", "DISK GB", "ADDRESS", "REASON", "DRAIN")
		}
		w.header(columns...)
		for _, h := range all {
			cells := []any{h.ID, h.Host, h.Zone, h.Status, h.state(), h.Servers}
			if c.Long {
				cells = append(cells, of(h.VCPUsUsed, h.VCPUs), of(h.MemoryUsed, h.Memory), of(h.DiskUsed, h.Disk), h.Address, h.DisabledReason, h.Drain.String())
			}
			w.row(cells...)
		}
	})
}

// of is how much of something is used.
func of(used, all int) string { return fmt.Sprintf("%d of %d", used, all) }

// state says whether somebody said that the host is down.
func (h hostView) state() string {
	if h.ForcedDown {
		return h.State + " (forced)"
	}
	return h.State
}

type hostShow struct {
	cloud
	output
	Hosts []string `arg:"" name:"host" help:"Hosts, by name or uuid."`
}

func (c hostShow) Run(r *run) error {
	all, err := c.hosts(r)
	if err != nil {
		return err
	}
	b, found := newBatch("host", c.Hosts), []hostView{}
	b.each(c.Hosts, func(name string) error {
		for _, h := range all {
			if h.Host == name || h.ID == strings.ToLower(name) {
				found = append(found, h)
				return nil
			}
		}
		return fmt.Errorf("there is no host %q", name)
	})
	switch {
	case len(found) == 0:
		return b.err()
	case b.total == 1:
		err = c.print(found[0], found[0].table)
	default:
		err = c.print(found, func(w *sheet) {
			for i, h := range found {
				if i > 0 {
					w.note()
				}
				h.table(w)
			}
		})
	}
	return errors.Join(err, b.err())
}

func (h hostView) table(w *sheet) {
	w.row("id", h.ID)
	w.row("host", h.Host)
	w.row("zone", h.Zone)
	w.row("status", h.Status)
	w.row("reason", h.DisabledReason)
	w.row("state", h.state())
	w.row("seen", h.UpdatedAt)
	w.row("address", h.Address)
	w.row("servers", h.Servers)
	w.row("vcpus", of(h.VCPUsUsed, h.VCPUs))
	w.row("memory MB", of(h.MemoryUsed, h.Memory))
	w.row("disk GB", of(h.DiskUsed, h.Disk))
	fence := "never"
	if h.FenceAfter > 0 {
		fence = fmt.Sprintf("%d s without a gateway", h.FenceAfter)
	}
	w.row("fences itself", fence)
	w.row("drain", h.Drain.String())
}

// hosts are all compute hosts.
func (c cloud) hosts(r *run) ([]hostView, error) {
	compute, err := c.compute(r)
	if err != nil {
		return nil, err
	}
	own := client.Extend(compute)
	own.MoreHeaders["OpenStack-API-Version"] = hostsVersion
	var services struct {
		Services []hostView `json:"services"`
	}
	var hypervisors struct {
		Hypervisors []hostUse           `json:"hypervisors"`
		Links       []map[string]string `json:"hypervisors_links"`
	}
	if err := read(r, own, own.ServiceURL("os-services")+"?binary=nova-compute", &services); err != nil {
		return nil, err
	}
	use := map[string]hostUse{}
	for next := own.ServiceURL("os-hypervisors", "detail"); next != ""; {
		hypervisors.Hypervisors, hypervisors.Links = nil, nil
		if err := read(r, own, next, &hypervisors); err != nil {
			return nil, err
		}
		for _, h := range hypervisors.Hypervisors {
			use[h.Name] = h
		}
		next = ""
		for _, link := range hypervisors.Links {
			next = link["href"]
		}
	}
	for i, h := range services.Services {
		services.Services[i].hostUse = use[h.Host]
	}
	return append([]hostView{}, services.Services...), nil
}

func read(ctx context.Context, c *gophercloud.ServiceClient, url string, into any) error {
	resp, err := c.Get(ctx, url, into, nil)
	if err != nil {
		return explain(err)
	}
	return resp.Body.Close()
}
