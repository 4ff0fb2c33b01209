package api

import (
	"github.com/google/uuid"

	"strongroom/compute"
)

func (a *API) listImages(r *Request) (any, error) {
	return a.imagePage(r, "images", a.basicImage, func(compute.Image) int { return 0 })
}

func (a *API) detailImages(r *Request) (any, error) {
	return a.imagePage(r, "images/detail", a.viewImage, func(img compute.Image) (bytes int) {
		for name, value := range img.Properties {
			bytes += len(name) + len(value)
		}
		return bytes
	})
}

// imagePage answers a list, the newest image first. A page ends where its images have shown too many bytes, too.
func (a *API) imagePage(r *Request, collection string, show func(*Request, compute.Image) map[string]any, bytes func(compute.Image) int) (any, error) {
	wanted, err := imageFilters(r.Query)
	if err != nil {
		return nil, err
	}
	marker, err := a.imageMarker(r)
	if err != nil {
		return nil, err
	}
	items, size, limit := []map[string]any{}, 0, r.Limit()
	for more := limit > 0; more; more = marker != "" {
		var part []compute.Image
		if part, marker, err = a.config.Images.Images(r.Context(), r.Credential(), marker); err != nil {
			return nil, err
		}
		for _, img := range part {
			if !wanted(img) {
				continue
			}
			items, size = append(items, show(r, img)), size+bytes(img)
			if len(items) == limit || size > mostPageBytes {
				return Collection("images", items, r.nextAfter(collection, img.ID.String())), nil
			}
		}
	}
	return Collection("images", items, nil), nil
}

// imageMarker gives the image behind which a page begins; "": none.
func (a *API) imageMarker(r *Request) (string, error) {
	if err := inProject(r); err != nil {
		return "", err
	}
	text := r.Marker()
	if text == "" {
		return "", nil
	}
	id, err := uuid.Parse(text)
	if err != nil {
		return "", noMarker(text)
	}
	_, err = a.config.Images.Image(r.Context(), r.Credential(), compute.ImageID{UUID: id})
	if compute.Is(err, compute.NotFound) {
		return "", noMarker(text)
	}
	return id.String(), err
}
