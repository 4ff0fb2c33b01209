package main

import (
	"context"

	"strongroom/activities/image"
	"strongroom/compute"
)

// imageRecords lets the api read image records, and change and delete those that a request's credential may.
type imageRecords struct{ library image.Library }

// imagesAtOnce is how many records are asked for at once: one may have megabytes of properties.
const imagesAtOnce = 25

// Image implements api.ImageStore.
func (i imageRecords) Image(ctx context.Context, cred compute.Credential, id compute.ImageID) (compute.Image, error) {
	return i.library.Get(ctx, cred, id)
}

// Images implements api.ImageStore.
func (i imageRecords) Images(ctx context.Context, cred compute.Credential, marker string) (part []compute.Image, next string, err error) {
	got, err := i.library.List(ctx, cred, image.ListInput{Newest: true, Marker: marker, Limit: imagesAtOnce})
	return got.Images, got.Next, err
}

// SetImageProperties implements api.ImageStore.
func (i imageRecords) SetImageProperties(ctx context.Context, cred compute.Credential, id compute.ImageID, properties map[string]string) error {
	img, err := i.library.Get(ctx, cred, id)
	if err != nil {
		return err
	}
	img.Properties = properties
	_, err = i.library.Update(ctx, cred, img)
	return err
}

// DeleteImage implements api.ImageStore.
func (i imageRecords) DeleteImage(ctx context.Context, cred compute.Credential, id compute.ImageID) error {
	return i.library.Delete(ctx, cred, id)
}
