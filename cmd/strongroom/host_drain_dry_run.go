package main

import (
	"errors"
	"fmt"
	"net/http"

	hostservices "github.com/gophercloud/gophercloud/v2/openstack/compute/v2/services"
)

// drainForecast is what the api says of a drain.
type drainForecast struct {
	Action   string `json:"action"`
	Succeeds bool   `json:"succeeds"`
	Refusals []struct {
		Message string `json:"message"`
	} `json:"refusals"`
	Host struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"host"`
	Cold    bool  `json:"cold"`
	Bytes   int64 `json:"bytes"`
	Servers []struct {
		ID      string `json:"id"`
		Name    string `json:"name"`
		VMState string `json:"vm_state"`
		forecast
	} `json:"servers"`
}

// foretell asks what the drain would do, and prints it.
func (c hostDrain) foretell(r *run) error {
	client, err := c.compute(r)
	if err != nil {
		return err
	}
	pages, err := hostservices.List(client, hostservices.ListOpts{Binary: "nova-compute"}).AllPages(r)
	if err != nil {
		return explain(err)
	}
	hosts, err := hostservices.ExtractServices(pages)
	if err != nil {
		return err
	}
	id := ""
	for _, h := range hosts {
		if h.Host == c.Host || h.ID == c.Host {
			id = h.ID
		}
	}
	if id == "" {
		return fmt.Errorf("no host %s", c.Host)
	}
	url := client.ServiceURL("os-services", id, "drain")
	if c.Cold {
		url += "?cold=true"
	}
	var d drainForecast
	if err := dryRunOf(r, client, http.MethodGet, url, nil, &d); err != nil {
		return err
	}
	if err := c.print(d, d.table); err != nil {
		return err
	}
	if !d.Succeeds {
		return errors.New("servers would be left")
	}
	return nil
}

func (d drainForecast) table(w *sheet) {
	w.row("drain of host "+d.Host.Name, verdict(d.Succeeds))
	for _, why := range d.Refusals {
		w.row("it would fail", why.Message)
	}
	w.row("bytes", fmt.Sprintf("at most %d", d.Bytes))
	for _, s := range d.Servers {
		w.note()
		w.row("server", fmt.Sprintf("%s (%s, %s)", s.ID, s.Name, s.VMState))
		if s.Action != "" {
			s.table(w)
			continue
		}
		for _, why := range s.Refusals {
			w.row("stays", why.Message)
		}
	}
}
