package api

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"strongroom/api/fault"
	"strongroom/api/microversion"
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/compute"
	"strongroom/schema"
)

// computeBinary is the name under which clients look for the services of hosts.
const computeBinary = "nova-compute"

const (
	ruleUpdateService = "os_compute_api:os-services:update"
	serviceID         = "/os-services/:id"
)

// services are the host workers, as operators see and switch them.
func (a *API) services() Resource {
	const (
		list   = "os_compute_api:os-services:list"
		remove = "os_compute_api:os-services:delete"
	)
	return Resource{
		Rules: policy.Rules{list: policy.Admin, ruleUpdateService: policy.Admin, remove: policy.Admin},
		Routes: []Route{
			{Method: http.MethodGet, Path: "/os-services", Rule: list, Query: serviceQuery, Handle: a.listServices},
			{Method: http.MethodPut, Path: serviceID, Max: 52, Rule: ruleUpdateService, Body: serviceSwitch, Handle: a.switchService},
			{Method: http.MethodPut, Path: serviceID, Min: 53, Rule: ruleUpdateService, Body: serviceUpdate, Handle: a.updateService},
			{Method: http.MethodGet, Path: serviceID + "/drain", Min: 53, Rule: ruleUpdateService, Query: drainQuery, Own: true, Handle: a.foreseeDrain},
			{Method: http.MethodDelete, Path: serviceID, Rule: remove, Status: http.StatusNoContent, Handle: a.deleteService},
		},
	}
}

var serviceQuery = validation.Since(func(v microversion.Version) validation.Schema {
	p := validation.Properties{"host": validation.Repeated(validation.Text), "binary": validation.Repeated(validation.Text)}
	if v >= 75 {
		return validation.Object(nil, p)
	}
	return validation.Open(p)
}, 1, 75)

func (a *API) listServices(r *Request) (any, error) {
	hosts, err := a.db.HostsWithUse(r.Context(), nil)
	if err != nil {
		return nil, err
	}
	drains, err := a.drains(r)
	if err != nil {
		return nil, err
	}
	items := []map[string]any{}
	for _, h := range hosts {
		if wanted(r, "host", h.Name) && wanted(r, "binary", computeBinary) {
			view := a.viewService(r, withoutUse(h), h.Zone)
			if r.Extended {
				view["drain"] = drains[h.ID]
				view["fence_after"] = h.FenceAfter
			}
			items = append(items, view)
		}
	}
	return map[string]any{"services": items}, nil
}

// wanted reports whether a filter of the query lets a value pass. An empty
// filter does.
func wanted(r *Request, name, value string) bool {
	filter := r.Query.Get(name)
	return filter == "" || filter == value
}

func (a *API) viewService(r *Request, h schema.Host, zone string) map[string]any {
	view := map[string]any{
		"id": hostNumber(r, h), "binary": computeBinary, "host": h.Name, "zone": zone, "status": hostStatus(h),
		"state": a.hostState(h), "updated_at": microseconds(&h.LastSeen), "disabled_reason": h.DisabledReason,
	}
	if r.Version >= 11 {
		view["forced_down"] = h.ForcedDown
	}
	return view
}

// hostNumber is the id of a host and of its service: a number before 2.53.
func hostNumber(r *Request, h schema.Host) any {
	if r.Version >= 53 {
		return h.ID
	}
	return h.Number
}

func hostStatus(h schema.Host) string {
	if h.Disabled {
		return "disabled"
	}
	return "enabled"
}

func (a *API) hostState(h schema.Host) string {
	if a.hostUp(h) {
		return "up"
	}
	return "down"
}

func (a *API) hostUp(h schema.Host) bool {
	return compute.Host{LastSeen: h.LastSeen, ForcedDown: h.ForcedDown}.Up(a.config.Now())
}

// hostByID finds a host by its id in the API: a uuid from 2.53 on, else a
// number. The error of one that is not there is missing.
func (a *API) hostByID(r *Request, id string, missing error) (schema.HostsWithUseRow, error) {
	hosts, err := a.db.HostsWithUse(r.Context(), nil)
	if err != nil {
		return schema.HostsWithUseRow{}, err
	}
	var named uuid.UUID
	if r.Version >= 53 {
		if named, err = uuid.Parse(id); err != nil {
			return schema.HostsWithUseRow{}, fault.BadRequest("Invalid uuid %s", id)
		}
	}
	for _, h := range hosts {
		if r.Version >= 53 && h.ID.UUID == named || r.Version < 53 && strconv.FormatInt(h.Number, 10) == id {
			return h, nil
		}
	}
	return schema.HostsWithUseRow{}, missing
}

func (a *API) serviceByID(r *Request) (schema.HostsWithUseRow, error) {
	id := r.Param("id")
	return a.hostByID(r, id, fault.NotFound("Service %s not found.", id))
}

// deleteService deletes a host that has no servers, whatever its state. A worker that still
// runs there registers it anew, so the operator stops it first. What waits for a host that is
// down is released, its certificates are revoked, and the keys of the volume with its own state are deleted, as
// "strongroom host forget" does: nobody will remove it, and a gateway no longer tells the host which of its guests run elsewhere (H9).
func (a *API) deleteService(r *Request) (any, error) {
	h, err := a.serviceByID(r)
	if err != nil {
		return nil, err
	}
	return nil, pgx.BeginFunc(r.Context(), a.config.Pool, func(tx pgx.Tx) error {
		db := a.db.WithTx(tx)
		// The lock is the one that claims take: no server comes in between.
		row, err := db.LockHost(r.Context(), h.ID)
		if errors.Is(err, pgx.ErrNoRows) {
			return fault.NotFound("Service %s not found.", r.Param("id"))
		}
		if err != nil {
			return err
		}
		if err := a.mayDelete(r, db, row); err != nil {
			return err
		}
		if err := db.DeleteClaimsOfDeleted(r.Context(), h.ID); err != nil {
			return err
		}
		if err := db.ForgetHostOfDeleted(r.Context(), &h.ID); err != nil {
			return err
		}
		if _, err := schema.LetGo(r.Context(), db, h.ID); err != nil {
			return err
		}
		if err := db.CompleteEvacuations(r.Context(), schema.CompleteEvacuationsParams{HostID: &h.ID}); err != nil {
			return err
		}
		if !a.hostUp(row) {
			if _, err := schema.LockOut(r.Context(), db, h.ID.String()); err != nil {
				return err
			}
			if err := schema.GiveUpVolume(r.Context(), db, h.ID); err != nil {
				return err
			}
		}
		_, err = db.DeleteHost(r.Context(), h.ID)
		return err
	})
}

// mayDelete refuses to delete a host that something is still on, and says what to do.
func (a *API) mayDelete(r *Request, db *schema.Queries, h schema.Host) error {
	here, err := db.ServersHere(r.Context(), &h.ID)
	if err != nil {
		return err
	}
	waiting, err := db.CountWaitingOn(r.Context(), &h.ID)
	switch {
	case err != nil:
		return err
	case here.Servers > 0:
		return fault.Conflict("Unable to delete compute service that is hosting instances. Migrate or delete the instances first.")
	case here.Things > 0:
		return fault.Conflict("Unable to delete compute service on whose host operations are at work. Wait until they have ended.")
	case waiting > 0 && a.hostUp(h):
		return fault.Conflict("Unable to delete compute service on whose host %d things are still to be removed. Wait until they are, or stop its worker and force it down first.", waiting)
	}
	return nil
}

func withoutUse(h schema.HostsWithUseRow) schema.Host {
	return schema.Host{
		ID: h.ID, Number: h.Number, Name: h.Name,
		Disabled: h.Disabled, DisabledReason: h.DisabledReason, ForcedDown: h.ForcedDown, LastSeen: h.LastSeen,
	}
}
