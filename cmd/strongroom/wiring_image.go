package main

import (
	"context"

	"strongroom/activities/image"
	"strongroom/api"
	"strongroom/compute"
)

// imageRecords lets the api read image records, and change and delete those that a request's credential may.
type imageRecords struct{ library image.Library }

// Image implements api.ImageStore.
func (i imageRecords) Image(ctx context.Context, cred compute.Credential, id compute.ImageID) (compute.Image, error) {
	return i.library.Get(ctx, cred, id)
}

// Images implements api.ImageStore.
func (i imageRecords) Images(ctx context.Context, cred compute.Credential, asked api.ImageList) (api.ImagePart, error) {
	got, err := i.library.List(ctx, cred, image.ListInput{
		Newest: true, Marker: asked.Marker, Limit: asked.Limit, Name: asked.Name, Statuses: asked.Statuses,
	})
	return api.ImagePart{Images: got.Images, Next: got.Next, Last: got.Last}, err
}

// ChangeImage implements api.ImageStore.
func (i imageRecords) ChangeImage(ctx context.Context, cred compute.Credential, id compute.ImageID, set map[string]string, remove func(name string) bool) (compute.Image, error) {
	return i.library.ChangeProperties(ctx, cred, id, set, remove)
}

// DeleteImage implements api.ImageStore.
func (i imageRecords) DeleteImage(ctx context.Context, cred compute.Credential, id compute.ImageID) error {
	return i.library.Delete(ctx, cred, id)
}
