package image

import (
	"context"
	"iter"
	"slices"

	"strongroom/compute"
)

// ListInput asks for a part of a list of images.
type ListInput struct {
	Marker   string            // "": from the beginning; else ListResult.Next of the part before
	Limit    int               // how many at most; the store may give fewer. 0: as many as it likes
	Own      bool              // those of the credential's project alone
	IDs      []compute.ImageID // these alone; nil: whichever there are
	Name     string            // those of this name alone; "": of any
	Statuses []string          // those of these statuses alone; nil: of all
	Newest   bool              // the newest first. A marker may be an image's id then, too; Invalid: there is no such image
}

// Wants reports whether an image that the credential may see is one that is asked for.
func (in ListInput) Wants(cred compute.Credential, img compute.Image) bool {
	return (!in.Own || Owns(cred, img)) &&
		(in.IDs == nil || slices.Contains(in.IDs, img.ID)) &&
		(in.Name == "" || in.Name == img.Name) &&
		(in.Statuses == nil || slices.Contains(in.Statuses, img.Status))
}

// ListResult is a part of a list.
type ListResult struct {
	Images []compute.Image
	Next   string          // "": that is all
	Last   compute.ImageID // where there is more, the last that was looked at: one that the credential may see
}

// All gives all images of a list, part by part. It ends with the first error.
func All(ctx context.Context, from Library, cred compute.Credential, in ListInput) iter.Seq2[compute.Image, error] {
	return func(yield func(compute.Image, error) bool) {
		for {
			got, err := from.List(ctx, cred, in)
			if err != nil {
				yield(compute.Image{}, err)
				return
			}
			for _, img := range got.Images {
				if !yield(img, nil) {
					return
				}
			}
			if in.Marker = got.Next; in.Marker == "" {
				return
			}
		}
	}
}
