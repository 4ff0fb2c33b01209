package api

import (
	"strings"

	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/compute"
)

const ruleReboot = "os_compute_api:servers:reboot"

var rebootBody = validation.Always(validation.Object([]string{"reboot"}, validation.Properties{
	"reboot": validation.Object([]string{"type"}, validation.Properties{
		"type": validation.Enum("HARD", "Hard", "hard", "SOFT", "Soft", "soft"),
	}),
}))

func (a *API) rebootAction() Resource {
	return Resource{
		Rules:  policy.Rules{ruleReboot: policy.ProjectMemberOrAdmin},
		Routes: []Route{actionRoute("reboot", rebootBody, a.rebootServer)},
	}
}

func (a *API) rebootServer(r *Request) (any, error) {
	var body struct{ Reboot struct{ Type string } }
	if err := r.Decode(&body); err != nil {
		return nil, err
	}
	in := compute.RebootArguments{Hard: strings.EqualFold(body.Reboot.Type, "hard")}
	return a.act(r, action{Facts: compute.Reboot.With(in), rule: ruleReboot, arguments: in})
}
