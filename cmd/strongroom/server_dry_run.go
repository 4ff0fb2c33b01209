package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"text/tabwriter"

	"github.com/gophercloud/gophercloud/v2"
)

// dryRun is for moves of servers that can be foretold.
type dryRun struct {
	DryRun bool `help:"Only tell which host it would go to, what would travel, which keys must be readable by whom, and whether it would succeed. Nothing is changed. Exit code 1: it would not."`
}

// movesVersion is the version in which moves are asked for: it has all of their targets.
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

// foretell asks what a move would do, and prints it. move is the body that asks for the move, in
// the newest version that a move's target needs (movesVersion).
func (c serverAction) foretell(r *run, move map[string]any) error {
	client, s, err := c.server(r, c.Server)
	if err != nil {
		return err
	}
	plain := *client // the client would put its own version header in the place of ours
	plain.Microversion = ""
	resp, err := plain.Post(r, client.ServiceURL("servers", s.ID, "action"), map[string]any{"dryRun": move}, nil, &gophercloud.RequestOpts{
		MoreHeaders: map[string]string{"OpenStack-API-Version": "compute " + movesVersion + ", strongroom 1.0"}, OkCodes: []int{http.StatusOK}, KeepResponseBody: true,
	})
	if err != nil {
		return explain(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	var answer struct {
		DryRun forecast `json:"dry_run"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return err
	}
	f := answer.DryRun
	if err := c.print(f, f.table); err != nil {
		return err
	}
	if !f.Succeeds {
		return errors.New("it would not succeed")
	}
	return nil
}

func (f forecast) table(w *tabwriter.Writer) {
	verdict := "would succeed"
	if !f.Succeeds {
		verdict = "would not succeed"
	}
	row(w, f.Action, verdict)
	for _, why := range f.Refusals {
		when := "it would fail"
		if why.Code != 0 {
			when = fmt.Sprintf("refused with %d", why.Code)
		}
		row(w, when, why.Message)
	}
	if f.Host != nil {
		row(w, "host", f.Host.Name)
	}
	for _, h := range f.Unfit {
		row(w, "not "+h.Name, h.Why)
	}
	if f.Stops {
		row(w, "guest", "is shut down")
	}
	for _, d := range f.Data {
		row(w, d.What, d.size())
	}
	for _, d := range f.Lost {
		row(w, "lost: "+d.What, d.size())
	}
	for _, k := range f.Keys {
		readable := "yes"
		if !k.Readable {
			readable = "no"
		}
		row(w, "key of "+k.Of, fmt.Sprintf("%s (%s), read by %s: %s", k.Secret, cmp.Or(k.Security, "user"), k.ReadBy, readable))
	}
}
