package api

import (
	"net/http"

	"github.com/google/uuid"

	"strongroom/api/fault"
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/compute"
	"strongroom/schema"
)

const ruleRescue = "os_compute_api:os-rescue"

var rescueBody = validation.Always(validation.Object([]string{"rescue"}, validation.Properties{
	"rescue": {
		"type": []string{"object", "null"}, "additionalProperties": false,
		"properties": validation.Properties{"adminPass": validation.Text, "rescue_image_ref": {"type": "string", "format": "uuid"}},
	},
}))

func (a *API) rescueAction() Resource {
	route := actionRoute("rescue", rescueBody, a.rescueServer)
	route.Status = http.StatusOK
	return Resource{Rules: policy.Rules{ruleRescue: policy.ProjectMemberOrAdmin}, Routes: []Route{route}}
}

// rescueServer boots a server from an image, its own by default. The password of
// the answer is the compute API's custom; it is kept nowhere.
func (a *API) rescueServer(r *Request) (any, error) {
	var body struct {
		Rescue struct {
			AdminPass string
			Image     *uuid.UUID `json:"rescue_image_ref"`
		}
	}
	if err := r.Decode(&body); err != nil {
		return nil, err
	}
	var in compute.RescueArguments
	if _, err := a.act(r, action{
		Facts: compute.Rescue.Facts, rule: ruleRescue, arguments: &in,
		check: func(row serverRow) (err error) {
			if in.Image, err = a.rescueImage(r, row.Server, body.Rescue.Image); err != nil {
				return err
			}
			in.MaxDiskGB = compute.MaxRescueGB(row.Server.Flavor, a.config.MaxImageDiskGB)
			disk, err := compute.PlanRescue(r.ID, in) // what no host could do is refused now
			if err != nil {
				return err
			}
			return a.checkRescueBus(r, row.Server, disk)
		},
		grows: func(row serverRow) (*growth, error) {
			return a.growthOf(r.Context(), row.Server, compute.Use{DiskGB: compute.ImageGB(in.Image)})
		},
	}); err != nil {
		return nil, err
	}
	return map[string]string{"adminPass": adminPassword(body.Rescue.AdminPass)}, nil
}

// checkRescueBus refuses a rescue disk on a bus that the server's host gives to no machine.
func (a *API) checkRescueBus(r *Request, s schema.Server, disk compute.Disk) error {
	if s.HostID == nil || disk.Bus == compute.BusVirtio {
		return nil
	}
	host, err := a.db.ClaimedHost(r.Context(), *s.HostID)
	if err != nil {
		return err
	}
	if why := compute.RequestOf(compute.Server{Disks: []compute.Disk{{Bus: disk.Bus}}}).Traits.Unmet(host.Traits); why != "" {
		return fault.Conflict("The host of instance %s %s, so it has no rescue disk on the bus %s.", s.ID, why, disk.Bus)
	}
	return nil
}

// rescueImage finds the image that a server is to be rescued with.
func (a *API) rescueImage(r *Request, s schema.Server, ref *uuid.UUID) (compute.Image, error) {
	img := s.Image
	if ref != nil {
		var err error
		img, err = a.config.Images.Image(r.Context(), r.Credential(), compute.ImageID{UUID: *ref})
		switch {
		case compute.Is(err, compute.NotFound), compute.Is(err, compute.Forbidden):
			return img, fault.BadRequest("Requested rescue image '%s' is not supported", ref)
		case err != nil:
			return img, err
		case img.Status != "active":
			return img, fault.BadRequest("Image %s is not active.", img.ID)
		}
		if err := compute.CheckImage(img); err != nil { // the server's own image was looked at before
			return img, err
		}
	}
	return img, nil
}
