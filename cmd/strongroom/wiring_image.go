package main

import (
	"context"

	"strongroom/activities/image"
	"strongroom/compute"
)

// imageRecords lets the api read image records.
type imageRecords struct{ store image.Store }

func (i imageRecords) Image(ctx context.Context, cred compute.Credential, id compute.ImageID) (compute.Image, error) {
	return i.store.Get(ctx, cred, id)
}
