package image

import (
	"context"
	"maps"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"strongroom/compute"
)

// The registered names of the activities.
const (
	Create   = "image.Create"   // cloud queue
	Describe = "image.Describe" // cloud queue
	Delete   = "image.Delete"   // cloud queue
	Upload   = "image.Upload"   // a host's bulk queue

	Inventory = "image.Inventory" // cloud queue
)

// CreateInput asks for the record of an image with an id of the operation's.
type CreateInput struct {
	Credential compute.Credential `json:"credential"`
	Image      compute.Image      `json:"image"`
}

// CreateResult is the record as the image store has it.
type CreateResult struct {
	Image compute.Image `json:"image"`
}

// DescribeInput asks that an image has these properties, beside those that it has.
type DescribeInput struct {
	Credential compute.Credential `json:"credential"`
	Image      compute.ImageID    `json:"image"`
	Properties map[string]string  `json:"properties"`
}

// DeleteInput names the image to remove, record and data. All credentials are of
// the image's project: to another's it may look gone.
type DeleteInput struct {
	Credential compute.Credential `json:"credential"`
	// Others are tried in turn where the image store refuses Credential.
	Others []compute.Credential `json:"others,omitempty"`
	Image  compute.ImageID      `json:"image"`
}

// Activities are what workflows call of the image store.
type Activities struct{ Library Library }

// Register registers the activities under their names.
func (a *Activities) Register(r worker.ActivityRegistry) {
	r.RegisterActivityWithOptions(a.Create, activity.RegisterOptions{Name: Create})
	r.RegisterActivityWithOptions(a.Describe, activity.RegisterOptions{Name: Describe})
	r.RegisterActivityWithOptions(a.Delete, activity.RegisterOptions{Name: Delete})
	r.RegisterActivityWithOptions(a.Inventory, activity.RegisterOptions{Name: Inventory})
	r.RegisterActivityWithOptions(a.OldBackups, activity.RegisterOptions{Name: OldBackups})
}

// Create is the activity image.Create.
func (a *Activities) Create(ctx context.Context, in CreateInput) (CreateResult, error) {
	img, err := a.Library.Create(ctx, in.Credential, in.Image)
	return CreateResult{Image: img}, err
}

// Describe is the activity image.Describe.
func (a *Activities) Describe(ctx context.Context, in DescribeInput) error {
	img, err := a.Library.Get(ctx, in.Credential, in.Image)
	if err != nil {
		return err
	}
	properties := maps.Clone(img.Properties)
	if properties == nil {
		properties = map[string]string{}
	}
	maps.Copy(properties, in.Properties)
	if maps.Equal(properties, img.Properties) {
		return nil
	}
	img.Properties = properties
	_, err = a.Library.Update(ctx, in.Credential, img)
	return err
}

// Delete is the activity image.Delete. One that is not there is a success.
// Forbidden: none of the credentials may, or the image is protected.
func (a *Activities) Delete(ctx context.Context, in DeleteInput) error {
	err := compute.WithAny(append([]compute.Credential{in.Credential}, in.Others...), func(cred compute.Credential) error {
		return a.Library.Delete(ctx, cred, in.Image)
	})
	if compute.Is(err, compute.NotFound) {
		return nil
	}
	return err
}
