package api

import (
	"strongroom/api/fault"
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/compute"
)

const ruleResize = "os_compute_api:servers:resize"

var resizeBody = validation.Always(validation.Object([]string{"resize"}, validation.Properties{
	"resize": validation.Object([]string{"flavorRef"}, validation.Properties{
		"flavorRef": {"type": []string{"string", "integer"}, "minLength": 1}, "OS-DCF:diskConfig": validation.Enum("AUTO", "MANUAL"),
	}),
}))

func (a *API) resizeAction() Resource {
	return Resource{
		Rules:  policy.Rules{ruleResize: policy.ProjectMemberOrAdmin},
		Routes: []Route{actionRoute("resize", resizeBody, a.resizeServer)},
	}
}

// resizeServer gives a server another flavor, until that is confirmed or reverted. What can be
// refused is refused before anything is changed (EE-33).
func (a *API) resizeServer(r *Request) (any, error) {
	var body struct {
		Resize struct {
			FlavorRef  validation.TextOrNumber `json:"flavorRef"`
			DiskConfig *string                 `json:"OS-DCF:diskConfig"`
		}
	}
	if err := r.Decode(&body); err != nil {
		return nil, err
	}
	in := compute.ResizeArguments{DiskConfig: body.Resize.DiskConfig, SameHost: a.config.ResizeToSameHost, ConfirmAfter: a.config.ResizeWindow}
	return a.act(r, action{
		Facts: compute.Resize.Facts, rule: ruleResize, arguments: &in,
		check: func(row serverRow) (err error) {
			if in.Flavor, err = a.flavorOf(r, string(body.Resize.FlavorRef)); err != nil {
				return err
			}
			return a.mayResize(r, row, in.Flavor)
		},
		grows: func(row serverRow) (*growth, error) { return a.growthTo(r.Context(), row.Server, in.Flavor) },
		plan: func(s compute.Server, has []compute.Thing) (compute.MovePlan, error) {
			will, err := s.ResizedTo(r.ID, in.Flavor)
			return s.PlanMove(will, has, in.SameHost, nil), err
		},
	})
}

// mayResize asks the rules of a create for the flavor, and those of a resize.
func (a *API) mayResize(r *Request, row serverRow, flavor compute.Flavor) error {
	was, err := a.withDisks(r, row.Server)
	if err != nil {
		return err
	}
	will, err := was.ResizedTo(r.ID, flavor)
	if err != nil {
		return err
	}
	plan := &serverPlan{flavor: flavor, image: row.Server.Image, delegated: was.Delegates()}
	if err := a.decide(plan); err != nil {
		return err
	}
	if err := was.CheckMover(will, r.Credential()); err != nil {
		return err
	}
	if err := a.isUp(row); err != nil {
		return err
	}
	if was.TPM != nil || plan.tpm == nil {
		return nil
	}
	plan.encryption = compute.Encryption{} // its disks have their keys
	return a.probe(r, plan)
}

// isUp refuses to move a server from a host that is down.
func (a *API) isUp(row serverRow) error {
	h := compute.Host{ForcedDown: row.HostForcedDown != nil && *row.HostForcedDown}
	if row.HostLastSeen != nil {
		h.LastSeen = *row.HostLastSeen
	}
	if row.Server.HostID != nil && !h.Up(a.config.Now()) {
		return fault.Conflict("Service is unavailable at this time.")
	}
	return nil
}
