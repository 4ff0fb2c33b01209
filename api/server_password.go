package api

import (
	"net/http"

	"strongroom/api/fault"
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/compute"
)

const (
	ruleChangePassword = "os_compute_api:os-admin-password"
	ruleShowPassword   = "os_compute_api:os-server-password:show"
	ruleClearPassword  = "os_compute_api:os-server-password:clear"
)

var changePasswordBody = validation.Always(validation.Object([]string{"changePassword"}, validation.Properties{
	"changePassword": validation.Object([]string{"adminPass"}, validation.Properties{"adminPass": {"type": "string"}}),
}))

// noGuestAgent is what Nova says of a server that has none. A machine may have the agent's channel (hw_qemu_guest_agent), and nobody asks anything there.
const noGuestAgent = "QEMU guest agent is not enabled"

var changePassword = compute.Facts{Kind: "changePassword", Transition: compute.Transition{From: []compute.VMState{compute.VMActive}}}

// changePasswordAction refuses: the password would have to reach the guest through an agent.
func (a *API) changePasswordAction() Resource {
	route := actionRoute("changePassword", changePasswordBody, func(r *Request) (any, error) {
		row, err := a.findServer(r, ruleChangePassword)
		if err != nil {
			return nil, err
		}
		if err := mayBegin(r, changePassword, row.Server); err != nil {
			return nil, err
		}
		return nil, fault.Conflict(noGuestAgent)
	})
	route.Refused = noGuestAgent
	return Resource{Rules: policy.Rules{ruleChangePassword: policy.ProjectMemberOrAdmin}, Routes: []Route{route}}
}

// serverPassword is the password that a guest has left with the metadata service, which takes none.
func (a *API) serverPassword() Resource {
	const path = "/servers/:id/os-server-password"
	return Resource{
		Rules: policy.Rules{ruleShowPassword: policy.ProjectReaderOrAdmin, ruleClearPassword: policy.ProjectMemberOrAdmin},
		Routes: []Route{
			{Method: http.MethodGet, Path: path, Handle: func(r *Request) (any, error) {
				_, err := a.findServer(r, ruleShowPassword)
				return map[string]any{"password": ""}, err
			}},
			{Method: http.MethodDelete, Path: path, Status: http.StatusNoContent, Handle: func(r *Request) (any, error) {
				_, err := a.findServer(r, ruleClearPassword)
				return nil, err
			}},
		},
	}
}
