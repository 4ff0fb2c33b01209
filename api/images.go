package api

import (
	"net/http"

	"github.com/google/uuid"

	"strongroom/api/fault"
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/compute"
)

// The rules of images are what the image service asks for by default. A store of strongroom's own knows no roles.
const (
	ruleReadImages  = "strongroom:images:read"
	ruleWriteImages = "strongroom:images:write"
)

// images stands in for the image service, as Nova does to 2.35: with the request's own token.
func (a *API) images() Resource {
	routes := []Route{
		{Method: http.MethodGet, Path: "/images", Rule: ruleReadImages, Query: imageQuery, Handle: a.listImages},
		{Method: http.MethodGet, Path: "/images/detail", Rule: ruleReadImages, Query: imageQuery, Handle: a.detailImages},
		{Method: http.MethodGet, Path: "/images/:id", Rule: ruleReadImages, Handle: a.showImage},
		{Method: http.MethodDelete, Path: "/images/:id", Status: http.StatusNoContent, Handle: a.deleteImage},
	}
	for i := range routes {
		routes[i].Max = proxiesUntil
	}
	return Resource{Rules: policy.Rules{ruleReadImages: policy.ProjectReaderOrAdmin, ruleWriteImages: policy.ProjectMemberOrAdmin}, Routes: routes}
}

var imageQuery = validation.Always(validation.Open(validation.Properties{
	"limit": validation.Repeated(validation.NonNegative), "marker": validation.Repeated(validation.Text),
}))

func (a *API) showImage(r *Request) (any, error) {
	img, err := a.findImage(r)
	if err != nil {
		return nil, err
	}
	return map[string]any{"image": a.viewImage(r, img)}, nil
}

func (a *API) deleteImage(r *Request) (any, error) {
	img, err := a.findImage(r)
	if err != nil {
		return nil, err
	}
	if !r.AllowedOn(ruleWriteImages, img.Owner, r.UserID()) {
		return nil, noDelete()
	}
	err = a.config.Images.DeleteImage(r.Context(), r.Credential(), img.ID)
	if compute.Is(err, compute.Forbidden) {
		return nil, noDelete()
	}
	return nil, ofImage(err, img.ID)
}

func noDelete() error { return fault.Forbidden("You are not allowed to delete the image.") }

// findImage finds the image that the path names.
func (a *API) findImage(r *Request) (compute.Image, error) {
	if err := inProject(r); err != nil {
		return compute.Image{}, err
	}
	id, err := uuid.Parse(r.Param("id"))
	if err != nil {
		return compute.Image{}, noImage()
	}
	img, err := a.config.Images.Image(r.Context(), r.Credential(), compute.ImageID{UUID: id})
	return img, ofImage(err, compute.ImageID{UUID: id})
}

// inProject refuses a token without a project, whose credential would be the operator's own: to whom a store of strongroom's own would
// list all projects' images.
func inProject(r *Request) error {
	if r.ProjectID() == "" {
		return fault.Forbidden("Images are asked for with a token of a project.")
	}
	return nil
}

// ofImage says in Nova's words why nothing was done with an image.
func ofImage(err error, id compute.ImageID) error {
	switch {
	case compute.Is(err, compute.NotFound):
		return noImage()
	case compute.Is(err, compute.Forbidden):
		return fault.Forbidden("Not authorized for image %s.", id)
	}
	return err
}

func noImage() error { return fault.NotFound("Image not found.") }
