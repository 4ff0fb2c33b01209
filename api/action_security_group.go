package api

import (
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/compute"
	"strongroom/schema"
)

// addGroupAction and removeGroupAction change the security groups of all of a server's ports, at once and with the
// requester's token: who asks twice changes nothing.
func (a *API) addGroupAction() Resource {
	return a.groupAction("addSecurityGroup", "os_compute_api:os-security-groups:add", Networks.AddGroup)
}

func (a *API) removeGroupAction() Resource {
	return a.groupAction("removeSecurityGroup", "os_compute_api:os-security-groups:remove", Networks.RemoveGroup)
}

func (a *API) groupAction(key, rule string, change changeGroup) Resource {
	body := validation.Always(validation.Object([]string{key}, validation.Properties{
		key: validation.Object([]string{"name"}, validation.Properties{"name": validation.Name}),
	}))
	return Resource{
		Rules: policy.Rules{rule: policy.ProjectMemberOrAdmin},
		Routes: []Route{actionRoute(key, body, func(r *Request) (any, error) {
			var body map[string]struct {
				Name string `json:"name"`
			}
			if err := r.Decode(&body); err != nil {
				return nil, err
			}
			row, err := a.findServer(r, rule)
			if err != nil {
				return nil, err
			}
			return nil, a.changeGroup(r, row.Server, body[key].Name, change)
		})},
	}
}

func (a *API) changeGroup(r *Request, s schema.Server, name string, change changeGroup) error {
	if a.config.Networks == nil || !(compute.Server{Networks: s.Networks}).UsesPorts() {
		return compute.HasNoPorts(s.ID)
	}
	if err := change(a.config.Networks, r.Context(), r.Credential(), s.ID, name); err != nil {
		return err
	}
	if err := a.renewPorts(r.Context(), s); err != nil {
		a.config.Logger.WarnContext(r.Context(), "the security groups of a server are shown as they were", "server", s.ID, "error", err)
	}
	return nil
}
