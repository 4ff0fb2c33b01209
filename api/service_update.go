package api

import (
	"errors"

	"github.com/jackc/pgx/v5"

	"strongroom/api/fault"
	"strongroom/api/microversion"
	"strongroom/api/validation"
	"strongroom/compute"
	"strongroom/schema"
)

var serviceReason = validation.Schema{"type": "string", "minLength": 1, "maxLength": 255}

// serviceSwitch is the body before 2.53, where the path names the switch.
var serviceSwitch = validation.Since(func(v microversion.Version) validation.Schema {
	p := validation.Properties{
		"host": validation.Hostname, "binary": {"type": "string", "minLength": 1, "maxLength": 255}, "disabled_reason": serviceReason,
	}
	if v >= 11 {
		p["forced_down"] = validation.BooleanOrText
	}
	return validation.Object([]string{"host", "binary"}, p)
}, 1, 11)

var serviceUpdate = validation.Always(validation.Object(nil, validation.Properties{
	"status": validation.Enum("enabled", "disabled"), "disabled_reason": serviceReason, "forced_down": validation.BooleanOrText,
}))

// switchService answers PUT /os-services/{enable|disable|disable-log-reason|force-down}.
func (a *API) switchService(r *Request) (any, error) {
	var body struct {
		Host           string              `json:"host"`
		Binary         string              `json:"binary"`
		DisabledReason *string             `json:"disabled_reason"`
		ForcedDown     *validation.Boolean `json:"forced_down"`
	}
	if err := r.Decode(&body); err != nil {
		return nil, err
	}
	yes, no := true, false
	change := schema.SwitchHostParams{}
	view := map[string]any{"host": body.Host, "binary": body.Binary}
	switch action := r.Param("id"); {
	case action == "enable":
		change.Disabled = &no
		view["status"] = "enabled"
	case action == "disable":
		change.Disabled = &yes
		view["status"] = "disabled"
	case action == "disable-log-reason":
		if body.DisabledReason == nil {
			return nil, fault.BadRequest("Missing disabled reason field")
		}
		change.Disabled, change.DisabledReason = &yes, body.DisabledReason
		view["status"], view["disabled_reason"] = "disabled", *body.DisabledReason
	case action == "force-down" && r.Version >= 11:
		if body.ForcedDown == nil {
			return nil, fault.BadRequest("Missing forced_down field")
		}
		change.ForcedDown = (*bool)(body.ForcedDown)
		view["forced_down"] = bool(*body.ForcedDown)
	default:
		return nil, fault.NotFound("Unknown action")
	}
	id, err := a.serviceNamed(r, body.Host, body.Binary)
	if err != nil {
		return nil, err
	}
	change.ID = id
	if _, err := a.switchHost(r, change); err != nil {
		return nil, err
	}
	return map[string]any{"service": view}, nil
}

func (a *API) serviceNamed(r *Request, host, binary string) (compute.HostID, error) {
	hosts, err := a.db.HostsWithUse(r.Context(), nil)
	if err != nil {
		return compute.HostID{}, err
	}
	for _, h := range hosts {
		if h.Name == host && binary == computeBinary {
			return h.ID, nil
		}
	}
	return compute.HostID{}, fault.NotFound("Could not find binary %s on host %s.", binary, host)
}

// updateService answers PUT /os-services/{uuid}, from 2.53 on.
func (a *API) updateService(r *Request) (any, error) {
	var body struct {
		Status         string              `json:"status"`
		DisabledReason *string             `json:"disabled_reason"`
		ForcedDown     *validation.Boolean `json:"forced_down"`
	}
	if err := r.Decode(&body); err != nil {
		return nil, err
	}
	h, err := a.serviceByID(r)
	if err != nil {
		return nil, err
	}
	change := schema.SwitchHostParams{ID: h.ID, ForcedDown: (*bool)(body.ForcedDown)}
	switch disabled := body.Status == "disabled"; {
	case body.Status == "" && body.ForcedDown == nil:
		return nil, fault.BadRequest("No updates were requested. Fields 'status' or 'forced_down' should be specified.")
	case body.Status == "enabled" && body.DisabledReason != nil:
		return nil, fault.BadRequest("Specifying 'disabled_reason' with status 'enabled' is invalid.")
	case body.Status != "":
		change.Disabled, change.DisabledReason = &disabled, body.DisabledReason
	}
	row, err := a.switchHost(r, change)
	if err != nil {
		return nil, err
	}
	return map[string]any{"service": a.viewService(r, row, h.Zone)}, nil
}

// switchHost writes the operator's switches of a host. One that is being drained is not enabled.
func (a *API) switchHost(r *Request, change schema.SwitchHostParams) (row schema.Host, err error) {
	err = pgx.BeginFunc(r.Context(), a.config.Pool, func(tx pgx.Tx) (err error) {
		db := a.db.WithTx(tx)
		if change.Disabled != nil && !*change.Disabled {
			if err := schema.MayEnable(r.Context(), db, change.ID); err != nil {
				return err
			}
		}
		row, err = db.SwitchHost(r.Context(), change)
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) { // it was deleted meanwhile
		return row, fault.NotFound("Service %s not found.", r.Param("id"))
	}
	return row, err
}
