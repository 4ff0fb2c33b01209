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

// imagesAtOnce is how many images are asked for at once: one may have megabytes of properties.
const imagesAtOnce = 25

// imagePage answers a list, the newest image first. A page ends, too, where its images have shown too many bytes, and where MaxLimit
// of them were looked at: a filter may find none among any number. A project makes one list at a time, for each holds as much.
func (a *API) imagePage(r *Request, collection string, show func(*Request, compute.Image) map[string]any, bytes func(compute.Image) int) (any, error) {
	asked, wanted, err := imageFilters(r.Query)
	if err != nil {
		return nil, err
	}
	done, err := a.imageTurns.take(r.Context(), r.ProjectID())
	if err != nil {
		return nil, err
	}
	defer done()
	if asked.Marker, err = a.imageMarker(r); err != nil {
		return nil, err
	}
	items, size, limit, last := []map[string]any{}, 0, r.Limit(), compute.ImageID{}
	if limit == 0 {
		return Collection("images", items, nil), nil
	}
	asked.Limit = imagesAtOnce
	for range MaxLimit / imagesAtOnce {
		part, err := a.config.Images.Images(r.Context(), r.Credential(), asked)
		if err != nil {
			return nil, err
		}
		for _, img := range part.Images {
			if !wanted(img) {
				continue
			}
			items, size = append(items, show(r, img)), size+bytes(img)
			if len(items) == limit || size > mostPageBytes {
				return Collection("images", items, r.nextAfter(collection, img.ID.String())), nil
			}
		}
		if part.Next == "" {
			return Collection("images", items, nil), nil
		}
		asked.Marker, last = part.Next, part.Last
	}
	return Collection("images", items, r.nextAfter(collection, last.String())), nil
}

// imageMarker gives the image behind which a page begins; "": none.
func (a *API) imageMarker(r *Request) (string, error) {
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
