package image

import (
	"context"

	"strongroom/compute"
	"strongroom/durable"
)

// InUse tells whether an image names a secret.
var InUse = durable.Activity[InUseInput, InUseResult]{Name: "image.InUse", Queue: durable.CloudQueue,
	Summary: func(in InUseInput) string { return "look for images that name secret " + in.Secret.String() }}

// InUseInput asks with a credential of the secret's project.
type InUseInput struct {
	Credential compute.Credential `json:"credential"`
	Secret     compute.SecretID   `json:"secret"`
}

// InUseResult says whether there is such an image.
type InUseResult struct {
	Used bool `json:"used"`
}

// InUse is the activity image.InUse.
func (a *Activities) InUse(ctx context.Context, in InUseInput) (InUseResult, error) {
	found, err := a.Library.Naming(ctx, in.Credential, in.Secret)
	return InUseResult{Used: len(found) > 0}, err
}

// Looked is what a look at images saw of each of them. Of one that is in none of these the store
// was not asked.
type Looked struct {
	There  map[compute.ImageID]compute.Image
	Gone   map[compute.ImageID]bool
	Failed map[compute.ImageID]error // it was asked and said neither
}

// Look looks at some images of a credential's project. Forbidden: the credential may not see the
// project's images; that none of them is found with it would mean nothing.
//
// An image is gone only when the store answers that it has none of that id: not on an
// error, nor because a list is empty, which a store that lost its way may give as well. A store
// hides an image like that, too, from who may not see it. So the list comes first, which a
// credential without a right to see the project's images is refused. An image that belongs to
// another project now, as far as the credential sees that, is there.
//
// What the store says to one image keeps no other waiting: only when it does not answer
// it is not asked about the next ones.
func Look(ctx context.Context, from Library, cred compute.Credential, ids []compute.ImageID) (Looked, error) {
	if cred.ProjectID == "" {
		return Looked{}, compute.Errorf(compute.Forbidden, "images are looked at with a credential of their project")
	}
	l := Looked{There: map[compute.ImageID]compute.Image{}, Gone: map[compute.ImageID]bool{}, Failed: map[compute.ImageID]error{}}
	for img, err := range All(ctx, from, cred, ListInput{Own: true, IDs: ids}) {
		if err != nil {
			return Looked{}, err
		}
		l.There[img.ID] = img
	}
	for _, id := range ids {
		if _, listed := l.There[id]; listed {
			continue
		}
		img, err := from.Get(ctx, cred, id)
		switch {
		case err == nil:
			l.There[id] = img
		case compute.Is(err, compute.NotFound):
			l.Gone[id] = true
		default:
			l.Failed[id] = err
		}
		if compute.Is(err, compute.Unavailable) {
			break
		}
	}
	return l, nil
}
