package api

import (
	"strongroom/api/policy"
	"strongroom/compute"
)

const ruleSuspend = "os_compute_api:os-suspend-server:suspend"

// suspendAction suspends a server, if nothing that it has is encrypted or its host encrypts the memory of its guest, too.
func (a *API) suspendAction() Resource {
	route := actionRoute("suspend", bare("suspend"), func(r *Request) (any, error) {
		return a.act(r, action{
			Facts: compute.Suspend.Facts, rule: ruleSuspend, arguments: compute.None{},
			check: func(row serverRow) error {
				s, err := a.withDisks(r, row.Server)
				if err != nil {
					return err
				}
				traits, err := a.hostTraits(r, s)
				if err != nil {
					return err
				}
				return s.CheckSuspend(traits)
			},
		})
	})
	return Resource{Rules: policy.Rules{ruleSuspend: policy.ProjectMemberOrAdmin}, Routes: []Route{route}}
}
