package api

import (
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"strongroom/api/fault"
	"strongroom/api/microversion"
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/compute"
	"strongroom/schema"
)

const (
	ruleShelve         = "os_compute_api:os-shelve:shelve"
	ruleShelveOffload  = "os_compute_api:os-shelve:shelve_offload"
	ruleUnshelve       = "os_compute_api:os-shelve:unshelve"
	ruleUnshelveToHost = "os_compute_api:os-shelve:unshelve_to_host"
)

func (a *API) shelveAction() Resource {
	return Resource{
		Rules:  policy.Rules{ruleShelve: policy.ProjectMemberOrAdmin},
		Routes: []Route{actionRoute("shelve", bare("shelve"), a.shelveServer)},
	}
}

// shelveServer keeps a server's data in the image store and the object store.
func (a *API) shelveServer(r *Request) (any, error) {
	in := compute.ShelveArguments{OffloadAfter: a.config.ShelvedOffloadTime}
	return a.act(r, action{
		Facts: compute.Shelve.Facts, rule: ruleShelve, arguments: in,
		check: func(row serverRow) error {
			s, err := schema.LoadServer(r.Context(), a.db, row.Server.ID) // whether its vTPM has a state is in its system metadata (N1)
			if err != nil {
				return err
			}
			return s.CheckShelve()
		},
		plan: func(s compute.Server, _ []compute.Thing) (compute.MovePlan, error) { return s.PlanShelve(), nil },
	})
}

func (a *API) shelveOffloadAction() Resource {
	return Resource{
		Rules: policy.Rules{ruleShelveOffload: policy.Admin},
		Routes: []Route{actionRoute("shelveOffload", bare("shelveOffload"), func(r *Request) (any, error) {
			return a.act(r, action{
				Facts: compute.ShelveOffload.Facts, rule: ruleShelveOffload, arguments: compute.None{},
				plan: func(s compute.Server, has []compute.Thing) (compute.MovePlan, error) { return s.PlanOffload(has), nil },
			})
		})},
	}
}

// The versions that brought targets of an unshelve.
const (
	unshelveToZone microversion.Version = 77
	unshelveToHost microversion.Version = 91
)

var unshelveBody = validation.Since(func(v microversion.Version) validation.Schema {
	if v < unshelveToZone {
		return validation.Object([]string{"unshelve"}, validation.Properties{"unshelve": {}})
	}
	p, required := validation.Properties{"availability_zone": validation.Name}, []string{"availability_zone"}
	if v >= unshelveToHost {
		required = nil
		zone := validation.Schema{"anyOf": []any{validation.Name, validation.Schema{"type": "null"}}}
		p = validation.Properties{"availability_zone": zone, "host": validation.Name}
	}
	target := validation.Object(required, p)
	target["type"] = []string{"object", "null"}
	return validation.Object([]string{"unshelve"}, validation.Properties{"unshelve": target})
}, microversion.Min, unshelveToZone, unshelveToHost)

func (a *API) unshelveAction() Resource {
	return Resource{
		Rules:  policy.Rules{ruleUnshelve: policy.ProjectMemberOrAdmin, ruleUnshelveToHost: policy.Admin},
		Routes: []Route{actionRoute("unshelve", unshelveBody, a.unshelveServer)},
	}
}

// unshelveTarget is where a server is to be.
type unshelveTarget struct {
	Zone json.RawMessage `json:"availability_zone"` // null is a wish, too
	Host *string         `json:"host"`
}

func (a *API) unshelveServer(r *Request) (any, error) {
	var body struct{ Unshelve json.RawMessage }
	if err := r.Decode(&body); err != nil {
		return nil, err
	}
	var want unshelveTarget
	if r.Version >= unshelveToZone { // before, whatever stands there is not looked at
		if err := json.Unmarshal(body.Unshelve, &want); err != nil {
			return nil, err
		}
	}
	if want.Host != nil {
		if err := r.Enforce(ruleUnshelveToHost); err != nil {
			return nil, err
		}
	}
	var in compute.UnshelveArguments
	return a.act(r, action{
		Facts: compute.Unshelve.Facts, rule: ruleUnshelve, arguments: &in,
		check: func(row serverRow) (err error) {
			if in, err = a.unshelveArguments(r, row, want); err != nil {
				return err
			}
			return a.checkUnshelve(r, row.Server)
		},
		plan: func(s compute.Server, _ []compute.Thing) (compute.MovePlan, error) { return s.PlanUnshelve(r.ID, in) },
	})
}

// unshelveArguments reads where an offloaded server is to be.
func (a *API) unshelveArguments(r *Request, row serverRow, want unshelveTarget) (in compute.UnshelveArguments, err error) {
	if want.Zone == nil && want.Host == nil {
		return in, nil
	}
	if row.Server.VMState != compute.VMShelvedOffloaded && (row.Server.VMState != compute.VMError || row.Server.HostID != nil) {
		what := "an availability zone"
		if r.Version >= unshelveToHost {
			what = "an availability zone or a host"
		}
		return in, fault.Conflict("Specifying %s when unshelving server '%s' with status \"%s\" is not supported. "+
			"The server status must be SHELVED_OFFLOADED.", what, row.Server.ID, compute.Status(row.Server.VMState, row.Server.TaskState))
	}
	zone := row.PinnedZone
	if want.Zone != nil {
		var name *string
		if err := json.Unmarshal(want.Zone, &name); err != nil {
			return in, err
		}
		zone = deref(name)
		in.Zone, in.Unpin = &zone, name == nil
		if err := a.checkZone(r, zone); err != nil {
			return in, err
		}
	}
	if want.Host != nil {
		in.Host, err = a.unshelveHost(r, *want.Host, zone)
	}
	return in, err
}

// unshelveHost finds a host by its name.
func (a *API) unshelveHost(r *Request, name, zone string) (*compute.HostID, error) {
	host, err := a.db.NamedHost(r.Context(), name)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, fault.BadRequest("Compute host %s could not be found.", name)
	case err != nil:
		return nil, err
	case zone != "" && host.Zone != zone:
		return nil, fault.Conflict("Host \"%s\" is not in the availability zone \"%s\".", name, zone)
	}
	return &host.ID, nil
}

// checkUnshelve refuses at once what the operation would fail for: images that ask for
// another vTPM (TPM-37). What cannot be read now is the operation's to tell.
func (a *API) checkUnshelve(r *Request, row schema.Server) error {
	s, err := a.withDisks(r, row)
	if err == nil {
		err = s.CheckUnshelve()
	}
	if err != nil || !s.IsOffloaded() {
		return err
	}
	for _, d := range s.Disks {
		if d.Shelved == nil {
			continue
		}
		img, err := a.config.Images.Image(r.Context(), r.Credential(), d.Shelved.Image)
		if err != nil {
			continue
		}
		if err := s.TPM.CheckShelvedImage(img); err != nil {
			return err
		}
	}
	return nil
}

// checkShelved refuses an action on a server that is shelved and does not say so, since its
// state was reset or an operation was terminated.
func (a *API) checkShelved(r *Request, of compute.Facts, row schema.Server) error {
	if of.Kind == compute.OpUnshelve || row.VMState == compute.VMShelved || row.VMState == compute.VMShelvedOffloaded {
		return nil
	}
	if row.VMState != compute.VMError && row.HostID != nil {
		return nil
	}
	s, err := a.withDisks(r, row)
	if err == nil && s.IsShelved() {
		err = s.WhileShelved(of.Kind)
	}
	return err
}

func (a *API) withDisks(r *Request, row schema.Server) (compute.Server, error) {
	disks, err := a.db.GetServerDisks(r.Context(), row.ID)
	if err != nil {
		return compute.Server{}, err
	}
	return row.WithDisks(disks)
}
