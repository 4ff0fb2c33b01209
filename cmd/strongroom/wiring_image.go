package main

import (
	"context"

	"strongroom/activities/image"
	"strongroom/compute"
)

// imageRecords lets the api read, announce and take back image records.
type imageRecords struct{ store image.Library }

func (i imageRecords) Image(ctx context.Context, cred compute.Credential, id compute.ImageID) (compute.Image, error) {
	return i.store.Get(ctx, cred, id)
}

func (i imageRecords) Create(ctx context.Context, cred compute.Credential, img compute.Image) error {
	_, err := i.store.Create(ctx, cred, img)
	return err
}

func (i imageRecords) Delete(ctx context.Context, cred compute.Credential, id compute.ImageID) error {
	return i.store.Delete(ctx, cred, id)
}
