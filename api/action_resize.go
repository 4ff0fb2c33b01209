package api

import (
	"net/http"

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

// resizeServer says which resizes there cannot be, before anything is changed
// (EE-33). The others are not offered yet.
func (a *API) resizeServer(r *Request) (any, error) {
	var body struct {
		Resize struct {
			FlavorRef validation.TextOrNumber `json:"flavorRef"`
		}
	}
	if err := r.Decode(&body); err != nil {
		return nil, err
	}
	row, err := a.findServer(r, ruleResize)
	if err != nil {
		return nil, err
	}
	if err := checkLock(r, row.Server); err != nil {
		return nil, err
	}
	flavor, err := a.flavorOf(r, string(body.Resize.FlavorRef))
	if err != nil {
		return nil, err
	}
	if err := compute.CheckResize(row.Server.Flavor, flavor, row.Server.Image); err != nil {
		return nil, err
	}
	return nil, fault.Errorf(http.StatusNotImplemented, "Resizing servers is not supported yet. Make an image of the server and create a new one from it.")
}
