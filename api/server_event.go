package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"strongroom/api/fault"
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/compute"
	"strongroom/schema"
)

const ruleEvents = "os_compute_api:os-server-external-events:create"

// The events that the network service tells of servers.
const (
	eventChanged   = "network-changed"
	eventPlugged   = "network-vif-plugged"
	eventUnplugged = "network-vif-unplugged"
	eventDeleted   = "network-vif-deleted"
)

// mostEvents bounds how many a request tells: Neutron sends what came up in send_events_interval.
const mostEvents = 1000

var eventsBody = validation.Always(validation.Object([]string{"events"}, validation.Properties{
	"events": {"type": "array", "minItems": 1, "maxItems": mostEvents, "items": validation.Object([]string{"name", "server_uuid"}, validation.Properties{
		"name": validation.Enum(eventChanged, eventPlugged, eventUnplugged, eventDeleted), "server_uuid": validation.UUID,
		"status": validation.Enum("failed", "completed", "in-progress"), "tag": validation.Name,
	})},
}))

// serverEvents is how the network service tells what became of servers' ports. Events can be
// early, late, doubled or stale: each only says that the ports are to be looked at.
func (a *API) serverEvents() Resource {
	return Resource{
		Rules: policy.Rules{ruleEvents: policy.Admin + " or role:service"},
		Routes: []Route{{
			Method: http.MethodPost, Path: "/os-server-external-events", Rule: ruleEvents, Body: eventsBody, Handle: a.takeEvents,
		}},
	}
}

// serverEvent is one of a request.
type serverEvent struct {
	Name   string    `json:"name"`
	Server uuid.UUID `json:"server_uuid"`
	Status string    `json:"status"`
	Tag    string    `json:"tag"`
}

// view is the event as it is answered.
func (e serverEvent) view(code int) map[string]any {
	out := map[string]any{"name": e.Name, "server_uuid": e.Server.String(), "status": e.Status, "code": code}
	if code != http.StatusOK {
		out["status"] = "failed"
	}
	if e.Tag != "" {
		out["tag"] = e.Tag
	}
	return out
}

// takeEvents answers 200, or 207 where some name servers that are not there or have no host; 404
// where all do.
func (a *API) takeEvents(r *Request) (any, error) {
	var body struct{ Events []serverEvent }
	if err := r.Decode(&body); err != nil {
		return nil, err
	}
	var failure error // of one event, which holds up no other: whoever tells them does so once
	events, accepted := []map[string]any{}, 0
	taken := map[serverEvent]int{}               // what became of each event of a server, whatever its port
	for _, waited := range []bool{true, false} { // first those that creates wait for
		for _, e := range body.Events {
			once := serverEvent{Name: e.Name, Server: e.Server}
			if taken[once] == 0 && waited == (e.Name == eventPlugged) {
				code, err := a.takeEvent(r.Context(), once)
				taken[once], failure = code, cmp.Or(failure, err)
			}
		}
	}
	for _, e := range body.Events {
		if e.Status == "" {
			e.Status = "completed"
		}
		once := serverEvent{Name: e.Name, Server: e.Server}
		if taken[once] == http.StatusOK {
			accepted++
		}
		events = append(events, e.view(taken[once]))
	}
	switch {
	case failure != nil:
		return nil, failure
	case accepted == 0:
		return nil, fault.NotFound("No instances found for any event")
	case accepted < len(events):
		return Answer{Status: http.StatusMultiStatus, Body: map[string]any{"events": events}}, nil
	}
	return map[string]any{"events": events}, nil
}

// takeEvent tells a create that waits for its ports, and renews what is known of the ports of a
// server that nothing is done to. code is the event's own: 404 without the server, 422 where it has no host.
func (a *API) takeEvent(ctx context.Context, e serverEvent) (code int, err error) {
	row, err := a.db.FindServer(ctx, compute.ServerID{UUID: e.Server})
	s := row.Server
	switch {
	case errors.Is(err, pgx.ErrNoRows) || err == nil && s.DeletedAt != nil:
		return http.StatusNotFound, nil
	case err != nil:
		return 0, err
	case e.Name == eventPlugged && s.VMState == compute.VMBuilding && s.HostID != nil:
		err = a.config.Operations.PortPlugged(ctx, s.ID)
	case (e.Name == eventChanged || e.Name == eventDeleted) && a.config.Networks != nil:
		err = a.renewPorts(ctx, s)
	}
	if s.HostID == nil { // of one that is shelved its ports are shown all the same
		return http.StatusUnprocessableEntity, err
	}
	return http.StatusOK, err
}

// renewTries is how often a server's ports are looked at for an event while other events change them, too.
const renewTries = 3

// renewPorts keeps what the network service says of a server's ports. While an operation is at work on the server, and where
// they cannot be looked at, the change stays on record: control workers look once nothing is (portwatch).
func (a *API) renewPorts(ctx context.Context, s schema.Server) error {
	told, err := a.db.TellNetworkChange(ctx, s.ID)
	for range renewTries {
		if err != nil || told.CurrentOperation != "" {
			return err
		}
		now, failure := a.config.Networks.Renew(ctx, s.ProjectID, s.ID, told.Networks)
		if now == nil && failure != nil {
			return failure
		}
		if now == nil {
			now = told.Networks
		}
		was, err := json.Marshal(told.Networks)
		if err != nil {
			return err
		}
		kept, err := a.db.RenewServerNetworks(ctx, schema.RenewServerNetworksParams{ID: s.ID, Was: was, Networks: now, Seen: told.NetworkChanges, Whole: failure == nil})
		if err != nil || kept > 0 {
			return cmp.Or(err, failure)
		}
		row, err := a.db.FindServer(ctx, s.ID)
		if err != nil {
			return err
		}
		told.Networks, told.NetworkChanges, told.CurrentOperation = row.Server.Networks, row.Server.NetworkChanges, row.Server.CurrentOperation
	}
	return compute.Errorf(compute.Unavailable, "the ports of server %s change again and again", s.ID)
}
