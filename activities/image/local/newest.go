package local

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"strongroom/activities/image"
	"strongroom/compute"
)

// newest is List with the newest first. A marker is the last one's id, and when that was made: it may be deleted meanwhile.
func (l *Library) newest(cred compute.Credential, in image.ListInput) (image.ListResult, error) {
	out, err := l.list(cred, image.ListInput{Own: in.Own, IDs: in.IDs, Statuses: in.Statuses})
	if err != nil {
		return image.ListResult{}, err
	}
	slices.SortFunc(out.Images, newer)
	if in.Marker != "" {
		last, err := l.marked(cred, in.Marker)
		if err != nil {
			return image.ListResult{}, err
		}
		out.Images = slices.DeleteFunc(out.Images, func(img compute.Image) bool { return newer(img, last) <= 0 })
	}
	if in.Limit > 0 && len(out.Images) > in.Limit {
		out.Images = out.Images[:in.Limit]
		last := out.Images[in.Limit-1]
		out.Next = last.ID.String() + "@" + last.CreatedAt.Format(time.RFC3339)
	}
	return out, nil
}

// newer sorts the newest first. The id settles what is equal.
func newer(a, b compute.Image) int {
	return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID.String(), a.ID.String()))
}

// marked gives what a marker says of the last image that was given.
func (l *Library) marked(cred compute.Credential, marker string) (compute.Image, error) {
	text, made, complete := strings.Cut(marker, "@")
	id, err := uuid.Parse(text)
	if err == nil && !complete {
		if img, err := l.visible(cred, compute.ImageID{UUID: id}); !compute.Is(err, compute.NotFound) {
			return img, err
		}
	}
	at, timeErr := time.Parse(time.RFC3339, made)
	if err != nil || timeErr != nil {
		return compute.Image{}, compute.Errorf(compute.Invalid, "no image is the marker of a list")
	}
	return compute.Image{ID: compute.ImageID{UUID: id}, CreatedAt: at}, nil
}
