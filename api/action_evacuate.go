package api

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"strongroom/api/fault"
	"strongroom/api/microversion"
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/compute"
)

const ruleEvacuate = "os_compute_api:os-evacuate"

// The versions that changed an evacuate.
const (
	evacuateUnshared microversion.Version = 14 // without onSharedStorage, and no password in the answer
	evacuateForce    microversion.Version = 29
	evacuateUnforced microversion.Version = 68
	evacuateStopped  microversion.Version = 95 // the server stays off
)

var evacuateBody = validation.Since(func(v microversion.Version) validation.Schema {
	p := validation.Properties{"host": validation.Name, "adminPass": validation.Text}
	var required []string
	if v < evacuateUnshared {
		p["onSharedStorage"] = validation.BooleanOrText
		required = []string{"onSharedStorage"}
	}
	if v >= evacuateForce && v < evacuateUnforced {
		p["force"] = validation.BooleanOrText
	}
	return validation.Object([]string{"evacuate"}, validation.Properties{"evacuate": validation.Object(required, p)})
}, microversion.Min, evacuateUnshared, evacuateForce, evacuateUnforced)

func (a *API) evacuateAction() Resource {
	route := actionRoute("evacuate", evacuateBody, a.evacuateServer)
	route.Status = http.StatusOK
	return Resource{Rules: policy.Rules{ruleEvacuate: policy.Admin}, Routes: []Route{route}}
}

// evacuateRequest is the body of an evacuate, below "evacuate".
type evacuateRequest struct {
	Host      string             `json:"host"`
	AdminPass *string            `json:"adminPass"`
	Shared    validation.Boolean `json:"onSharedStorage"`
	Force     validation.Boolean `json:"force"`
}

// evacuateServer has a server run on another host, since its own one is down and fenced. What
// can be refused is refused before anything changes. A host that is forced is still asked
// whether it has room.
func (a *API) evacuateServer(r *Request) (any, error) {
	var body struct{ Evacuate evacuateRequest }
	if err := r.Decode(&body); err != nil {
		return nil, err
	}
	asked := body.Evacuate
	switch {
	case bool(asked.Shared) && asked.AdminPass != nil:
		return nil, fault.BadRequest("admin password can't be changed on existing disk")
	case bool(asked.Force) && asked.Host == "":
		return nil, fault.BadRequest("Can't force to a non-provided destination")
	}
	in := compute.EvacuateArguments{Stopped: r.Version >= evacuateStopped}
	if r.Version < evacuateUnshared {
		shared := bool(asked.Shared)
		in.Shared = &shared
	}
	foreseen, err := a.act(r, action{
		Facts: compute.Evacuate.Facts, rule: ruleEvacuate, arguments: &in,
		check: func(row serverRow) (err error) {
			if err := a.mayEvacuate(r, row); err != nil {
				return err
			}
			if asked.Host != "" {
				if in.Host, err = a.evacuationTarget(r, row, asked.Host); err != nil {
					return err
				}
			}
			return a.saysShared(r, row, in)
		},
		plan: func(s compute.Server, has []compute.Thing) (compute.MovePlan, error) {
			return s.PlanEvacuate(r.ID, in, has)
		},
	})
	if err != nil || r.dry || r.Version >= evacuateUnshared {
		return foreseen, err
	}
	var password string
	if asked.AdminPass != nil {
		password = *asked.AdminPass
	}
	return map[string]string{"adminPass": adminPassword(password)}, nil
}

// mayEvacuate asks the rules of an evacuate for the server, and whether its host is fenced.
func (a *API) mayEvacuate(r *Request, row serverRow) error {
	s, err := a.withDisks(r, row.Server)
	if err != nil {
		return err
	}
	will, err := s.EvacuatedAs(r.ID)
	if err != nil {
		return err
	}
	if err := s.CheckEvacuator(will, r.Credential()); err != nil {
		return err
	}
	if row.Server.HostID == nil || row.HostName == nil || row.HostLastSeen == nil {
		return fault.Conflict("Instance %s is on no host.", s.ID)
	}
	if err := fencing(row, a.config.Now()).Check(*row.HostName); err != nil {
		return forNow{err}
	}
	return nil
}

// saysShared refuses a wrong word on where the disks are, as far as it shows before a host is chosen.
func (a *API) saysShared(r *Request, row serverRow, in compute.EvacuateArguments) error {
	if in.Shared == nil {
		return nil
	}
	peers, err := a.db.DiskPeers(r.Context(), *row.Server.HostID)
	if err != nil {
		return err
	}
	has := len(peers) > 0
	if in.Host != nil {
		has = slices.Contains(peers, *in.Host)
	}
	if *in.Shared && !has || !*in.Shared && in.Host != nil && has {
		return fault.BadRequest("%s", compute.InvalidShared)
	}
	return nil
}

// fencing is what is known of the host of a server, by this process's clock. The operation looks again, by
// the database's.
func fencing(row serverRow, now time.Time) compute.Fencing {
	is := compute.Fencing{Silent: now.Sub(*row.HostLastSeen)}
	if row.HostForcedDown != nil {
		is.ForcedDown = *row.HostForcedDown
	}
	if row.HostFenceAfter != nil {
		is.After = time.Duration(*row.HostFenceAfter) * time.Second
	}
	return is
}

// evacuationTarget finds the host that a server is to be evacuated to.
func (a *API) evacuationTarget(r *Request, row serverRow, name string) (*compute.HostID, error) {
	host, err := a.db.NamedHost(r.Context(), name)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, fault.BadRequest("Compute host %s not found.", name)
	case err != nil:
		return nil, err
	case *row.Server.HostID == host.ID:
		return nil, fault.BadRequest("The target host can't be the same one.")
	}
	return &host.ID, nil
}
