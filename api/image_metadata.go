package api

import (
	"maps"
	"net/http"
	"slices"

	"strongroom/api/fault"
	"strongroom/compute"
)

// imageMetadata is what an image's properties are to Nova, to 2.38.
func (a *API) imageMetadata() Resource {
	const all, one = "/images/:id/metadata", "/images/:id/metadata/:key"
	routes := []Route{
		{Method: http.MethodGet, Path: all, Rule: ruleReadImages, Handle: a.listImageMetadata},
		{Method: http.MethodPost, Path: all, Body: metadataBody, Handle: a.mergeImageMetadata},
		{Method: http.MethodPut, Path: all, Body: metadataBody, Handle: a.replaceImageMetadata},
		{Method: http.MethodGet, Path: one, Rule: ruleReadImages, Handle: a.showImageMetadata},
		{Method: http.MethodPut, Path: one, Body: metadataItemBody, Handle: a.setImageMetadata},
		{Method: http.MethodDelete, Path: one, Status: http.StatusNoContent, Handle: a.deleteImageMetadata},
	}
	for i := range routes {
		routes[i].Max = imageMetadataUntil
	}
	return Resource{Routes: routes}
}

func (a *API) listImageMetadata(r *Request) (any, error) {
	img, err := a.findImage(r)
	if err != nil {
		return nil, err
	}
	return map[string]any{"metadata": shownProperties(img)}, nil
}

func (a *API) showImageMetadata(r *Request) (any, error) {
	img, err := a.findImage(r)
	if err != nil {
		return nil, err
	}
	key := r.Param("key")
	value, ok := shownProperties(img)[key]
	if !ok {
		return nil, fault.NotFound("The resource could not be found.")
	}
	return map[string]any{"meta": map[string]string{key: value}}, nil
}

func (a *API) mergeImageMetadata(r *Request) (any, error) {
	said, err := readMetadata(r)
	if err != nil {
		return nil, err
	}
	img, err := a.writeImageMetadata(r, said, false)
	if err != nil {
		return nil, err
	}
	return map[string]any{"metadata": shownProperties(img)}, nil
}

func (a *API) replaceImageMetadata(r *Request) (any, error) {
	said, err := readMetadata(r)
	if err != nil {
		return nil, err
	}
	_, err = a.writeImageMetadata(r, said, true)
	return map[string]any{"metadata": orEmpty(said)}, err
}

func (a *API) setImageMetadata(r *Request) (any, error) {
	said, err := readMetadataItem(r)
	if err != nil {
		return nil, err
	}
	_, err = a.writeImageMetadata(r, said, false)
	return map[string]any{"meta": said}, err
}

func (a *API) deleteImageMetadata(r *Request) (any, error) {
	img, err := a.imageToChange(r)
	if err != nil {
		return nil, err
	}
	key := r.Param("key")
	if _, ok := shownProperties(img)[key]; !ok {
		return nil, fault.NotFound("Invalid metadata key")
	}
	_, err = a.changeImage(r, img.ID, nil, func(name string) bool { return name == key })
	return nil, err
}

// writeImageMetadata gives an image metadata, beside those that it has or in place of all of them that are shown. How it is
// opened stays: without that its data, and maybe another image's key, would be lost.
func (a *API) writeImageMetadata(r *Request, said map[string]string, replace bool) (compute.Image, error) {
	for _, name := range slices.Sorted(maps.Keys(said)) {
		if compute.OpensImage(name) {
			return compute.Image{}, fault.BadRequest("Property %s says how an image is opened. Ask the image service itself.", name)
		}
	}
	written, err := a.writtenQuotas(r.Context(), a.db, r.ProjectID())
	if err != nil {
		return compute.Image{}, err
	}
	img, err := a.imageToChange(r)
	if err != nil {
		return img, err
	}
	goes := func(name string) bool { return replace && !compute.OpensImage(name) }
	after := maps.Clone(orEmpty(img.Properties))
	maps.DeleteFunc(after, func(name, _ string) bool { return goes(name) })
	maps.Copy(after, said)
	if len(after) > len(img.Properties) && written.checkMetadata(len(after)) != nil {
		return img, fault.Forbidden("Image metadata limit exceeded")
	}
	return a.changeImage(r, img.ID, said, goes)
}

// imageToChange finds the image that the path names. 403: the requester may only read it.
func (a *API) imageToChange(r *Request) (compute.Image, error) {
	img, err := a.findImage(r)
	if err == nil && !r.AllowedOn(ruleWriteImages, img.Owner, r.UserID()) {
		err = fault.Forbidden("Not authorized for image %s.", img.ID)
	}
	return img, err
}

// changeImage gives an image with its properties changed. Others may have changed more of them since it was looked at: a workflow
// says how an image is opened when its record has been there for a while.
func (a *API) changeImage(r *Request, id compute.ImageID, set map[string]string, remove func(name string) bool) (compute.Image, error) {
	img, err := a.config.Images.ChangeImage(r.Context(), r.Credential(), id, set, remove)
	return img, ofImage(err, id)
}
