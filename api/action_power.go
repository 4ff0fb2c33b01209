package api

import (
	"strings"

	"strongroom/api/validation"
	"strongroom/compute"
)

const (
	ruleStart  = "os_compute_api:servers:start"
	ruleStop   = "os_compute_api:servers:stop"
	ruleReboot = "os_compute_api:servers:reboot"
)

func (a *API) startServer(r *Request) (any, error) {
	return a.act(r, action{rule: ruleStart, kind: compute.OpStart, task: compute.TaskPoweringOn, arguments: struct{}{}})
}

func (a *API) stopServer(r *Request) (any, error) {
	return a.act(r, action{rule: ruleStop, kind: compute.OpStop, task: compute.TaskPoweringOff, arguments: struct{}{}})
}

var rebootBody = validation.Always(validation.Object([]string{"reboot"}, validation.Properties{
	"reboot": validation.Object([]string{"type"}, validation.Properties{
		"type": validation.Enum("HARD", "Hard", "hard", "SOFT", "Soft", "soft"),
	}),
}))

func (a *API) rebootServer(r *Request) (any, error) {
	var body struct{ Reboot struct{ Type string } }
	if err := r.Decode(&body); err != nil {
		return nil, err
	}
	act := action{rule: ruleReboot, kind: compute.OpReboot, task: compute.TaskRebooting}
	if strings.EqualFold(body.Reboot.Type, "hard") {
		act.hard, act.task = true, compute.TaskRebootingHard
	}
	act.arguments = compute.RebootArguments{Hard: act.hard}
	return a.act(r, act)
}
