package image

import (
	"context"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"strongroom/compute"
)

// knownAtOnce is how many known images are asked for at once.
const knownAtOnce = 50

// knownPrefix begins the marker of the known images of a project, which are looked at
// after those that are half made.
const knownPrefix = "known/"

// Seen is the activity image.Seen: images of servers that are half made, and those of
// Known that the project owns. A whole one that nobody is making is its owner's.
func (a *Activities) Seen(ctx context.Context, in compute.SeenInput) (compute.SeenResult, error) {
	var known []compute.ImageID
	for _, name := range in.Known {
		if id, err := uuid.Parse(name); err == nil { // no image has another name
			known = append(known, compute.ImageID{UUID: id})
		}
	}
	return in.ByProject(func(cred compute.Credential, marker string, limit int) ([]compute.Seen, string, error) {
		if from, ok := strings.CutPrefix(marker, knownPrefix); ok {
			return a.known(ctx, cred, known, from, limit)
		}
		seen, next, err := a.halfMade(ctx, cred, marker, limit)
		if next == "" && len(known) > 0 {
			next = knownPrefix + "0"
		}
		return seen, next, err
	})
}

func (a *Activities) halfMade(ctx context.Context, cred compute.Credential, marker string, limit int) (seen []compute.Seen, next string, err error) {
	got, err := a.Library.List(ctx, cred, ListInput{Marker: marker, Limit: limit, Own: true, Statuses: halfMade})
	for _, img := range got.Images {
		if img.IsOfServer() {
			seen = append(seen, sighting(img))
		}
	}
	return seen, got.Next, err
}

func (a *Activities) known(ctx context.Context, cred compute.Credential, known []compute.ImageID, from string, limit int) (seen []compute.Seen, next string, err error) {
	begin, err := strconv.Atoi(from)
	if err != nil || begin < 0 || begin >= len(known) {
		return nil, "", compute.Errorf(compute.Invalid, "%q is no number of a known image", from)
	}
	end := min(begin+min(knownAtOnce, limit), len(known))
	for img, err := range All(ctx, a.Library, cred, ListInput{Own: true, IDs: known[begin:end]}) {
		if err != nil {
			return nil, "", err
		}
		seen = append(seen, sighting(img))
	}
	if end < len(known) {
		next = knownPrefix + strconv.Itoa(end)
	}
	return seen, next, nil
}

func sighting(img compute.Image) compute.Seen {
	return compute.Seen{Kind: compute.ThingImage, Name: img.ID.String()}
}
