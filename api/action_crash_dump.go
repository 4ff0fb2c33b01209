package api

import (
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/compute"
)

const ruleCrashDump = "os_compute_api:servers:trigger_crash_dump"

var crashDumpBody = validation.Always(validation.Object([]string{"trigger_crash_dump"}, validation.Properties{"trigger_crash_dump": validation.Null}))

func (a *API) crashDumpAction() Resource {
	route := actionRoute("trigger_crash_dump", crashDumpBody, func(r *Request) (any, error) {
		return a.act(r, action{Facts: compute.CrashDump.Facts, rule: ruleCrashDump, arguments: compute.None{}})
	})
	route.Min = 17
	return Resource{Rules: policy.Rules{ruleCrashDump: policy.ProjectMemberOrAdmin}, Routes: []Route{route}}
}
