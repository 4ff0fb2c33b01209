package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/gophercloud/gophercloud/v2"
)

// dryRun is for moves of servers that can be foretold.
type dryRun struct {
	DryRun bool `help:"Only tell which host it would go to, what would travel, which keys must be readable by whom, and whether it would succeed. Nothing is changed. Exit code 1: it would not."`
}

// movesVersion is the version in which client commands speak: it has all targets of moves, and a server that is
// evacuated starts again.
const movesVersion = "2.91"

// forecast is what the api says of a move.
type forecast struct {
	Action   string `json:"action"`
	Succeeds bool   `json:"succeeds"`
	Refusals []struct {
		Code    int    `json:"code,omitempty"`
		Message string `json:"message"`
	} `json:"refusals"`
	Stops bool `json:"stops_guest"`
	Host  *struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"host"`
	Unfit []struct {
		Name string `json:"name"`
		Why  string `json:"why"`
	} `json:"unfit_hosts"`
	Data  []carried `json:"data"`
	Bytes int64     `json:"bytes"`
	Lost  []carried `json:"lost"`
	Keys  []struct {
		Secret   string `json:"secret_uuid"`
		Of       string `json:"of"`
		Security string `json:"secret_security"`
		ReadBy   string `json:"read_by"`
		Readable bool   `json:"readable"`
	} `json:"keys"`
}

// carried is something that travels, or is lost.
type carried struct {
	What  string `json:"what"`
	Bytes *int64 `json:"bytes"`
	Exact bool   `json:"exact"`
}

func (c carried) size() string {
	switch {
	case c.Bytes == nil:
		return "little"
	case c.Exact:
		return fmt.Sprintf("%d bytes", *c.Bytes)
	}
	return fmt.Sprintf("at most %d bytes", *c.Bytes)
}

// foretell asks what a move would do with each server, and prints it. move is the body that asks for the move.
func (c serverAction) foretell(r *run, move map[string]any) error {
	compute, err := c.compute(r)
	if err != nil {
		return err
	}
	b, all := newBatch("server", c.Servers), []forecast{}
	b.each(c.Servers, func(name string) error {
		s, err := findServer(r, compute, name)
		if err != nil {
			return err
		}
		var f forecast
		if err := dryRunOf(r, compute, http.MethodPost, compute.ServiceURL("servers", s.ID, "action"), map[string]any{"dryRun": move}, &f); err != nil {
			return err
		}
		all = append(all, f)
		if !f.Succeeds {
			return errors.New("it would not succeed")
		}
		return nil
	})
	switch {
	case len(all) == 0:
		return b.err()
	case b.total == 1:
		err = c.print(all[0], all[0].table)
	default:
		err = c.print(all, func(w *sheet) {
			for _, f := range all {
				f.table(w)
			}
		})
	}
	return errors.Join(err, b.err())
}

// dryRunOf asks the api for a dry run.
func dryRunOf(r *run, client *gophercloud.ServiceClient, method, url string, body, into any) error {
	plain := *client // the client would put its own version header in the place of ours
	plain.Microversion = ""
	resp, err := plain.Request(r, method, url, &gophercloud.RequestOpts{
		JSONBody:    body,
		MoreHeaders: map[string]string{"OpenStack-API-Version": "compute " + movesVersion + ", strongroom 1.0"}, OkCodes: []int{http.StatusOK}, KeepResponseBody: true,
	})
	if err != nil {
		return explain(err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer := struct {
		DryRun any `json:"dry_run"`
	}{into}
	return json.NewDecoder(resp.Body).Decode(&answer)
}

func verdict(succeeds bool) string {
	if succeeds {
		return "would succeed"
	}
	return "would not succeed"
}

func (f forecast) table(w *sheet) {
	w.row(f.Action, verdict(f.Succeeds))
	for _, why := range f.Refusals {
		when := "it would fail"
		if why.Code != 0 {
			when = fmt.Sprintf("refused with %d", why.Code)
		}
		w.row(when, why.Message)
	}
	if f.Host != nil {
		w.row("host", f.Host.Name)
	}
	for _, h := range f.Unfit {
		w.row("not "+h.Name, h.Why)
	}
	if f.Stops {
		w.row("guest", "is shut down")
	}
	for _, d := range f.Data {
		w.row(d.What, d.size())
	}
	for _, d := range f.Lost {
		w.row("lost: "+d.What, d.size())
	}
	for _, k := range f.Keys {
		readable := "yes"
		if !k.Readable {
			readable = "no"
		}
		w.row("key of "+k.Of, fmt.Sprintf("%s (%s), read by %s: %s", k.Secret, cmp.Or(k.Security, "user"), k.ReadBy, readable))
	}
}
