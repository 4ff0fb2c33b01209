package image

import (
	"context"

	"github.com/google/uuid"

	"strongroom/compute"
	"strongroom/durable"
)

// The activities on the cloud queue.
var (
	Create = durable.Activity[CreateInput, CreateResult]{Name: "image.Create", Queue: durable.CloudQueue,
		Summary: func(in CreateInput) string { return "create image " + in.Image.ID.String() }}
	Describe = durable.Activity[DescribeInput, durable.None]{Name: "image.Describe", Queue: durable.CloudQueue,
		Summary: func(in DescribeInput) string { return "set properties of image " + in.Image.String() }}
	CheckShelved = durable.Activity[CheckShelvedInput, durable.None]{Name: "image.CheckShelved", Queue: durable.CloudQueue,
		Summary: func(in CheckShelvedInput) string { return "look at shelved image " + in.Image.String() }}
	OldBackups = durable.Activity[OldBackupsInput, OldBackupsResult]{Name: "image.OldBackups", Queue: durable.CloudQueue,
		Summary: func(in OldBackupsInput) string { return "list old backups of server " + in.Server.String() }}
	Remove = durable.Activity[compute.Removal, durable.None]{Name: "image.Remove", Queue: durable.CloudQueue,
		Summary: compute.Removal.String}
	Seen = durable.Activity[compute.SeenInput, compute.SeenResult]{Name: "image.Seen", Queue: durable.CloudQueue,
		Summary: func(compute.SeenInput) string { return "list images" }}
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

// CheckShelvedInput names an image of a shelved server, and the vTPM that this has.
type CheckShelvedInput struct {
	Credential compute.Credential `json:"credential"`
	Image      compute.ImageID    `json:"image"`
	TPM        *compute.TPM       `json:"tpm,omitempty"`
}

// Activities are what workflows call of the image store.
type Activities struct{ Library Library }

// Register registers the activities.
func (a *Activities) Register(r durable.Registry) {
	Create.Register(r, a.Create)
	Describe.Register(r, durable.NoResult(a.Describe))
	CheckShelved.Register(r, durable.NoResult(a.CheckShelved))
	OldBackups.Register(r, a.OldBackups)
	InUse.Register(r, a.InUse)
	Remove.Register(r, durable.NoResult(a.Remove))
	Seen.Register(r, a.Seen)
}

// Create is the activity image.Create.
func (a *Activities) Create(ctx context.Context, in CreateInput) (CreateResult, error) {
	img, err := a.Library.Create(ctx, in.Credential, in.Image)
	return CreateResult{Image: img}, err
}

// Describe is the activity image.Describe.
func (a *Activities) Describe(ctx context.Context, in DescribeInput) error {
	_, err := a.Library.ChangeProperties(ctx, in.Credential, in.Image, in.Properties, nil)
	return err
}

// CheckShelved is the activity image.CheckShelved: it sees that a shelved server can be made
// of the image. Conflict: it has no data, or asks for another vTPM (TPM-37); NotFound: it
// was deleted.
func (a *Activities) CheckShelved(ctx context.Context, in CheckShelvedInput) error {
	img, err := a.Library.Get(ctx, in.Credential, in.Image)
	switch {
	case compute.Is(err, compute.NotFound):
		return compute.Errorf(compute.NotFound, "image %s, which keeps a disk of the server, is not there", in.Image)
	case err != nil:
		return err
	case img.Status != StatusActive:
		return compute.Errorf(compute.Conflict, "image %s, which keeps a disk of the server, is %s", in.Image, img.Status)
	}
	return in.TPM.CheckShelvedImage(img)
}

// Remove is the activity image.Remove: it ensures that there is no image of the thing's
// name, record nor data. All credentials are of the image's project: to another's it may
// look gone. Forbidden: none of the credentials may, or the image is protected.
func (a *Activities) Remove(ctx context.Context, in compute.Removal) error {
	id, err := uuid.Parse(in.Thing.Name)
	if err != nil || in.Thing.Kind != compute.ThingImage {
		return in.Misdirected()
	}
	err = compute.WithAny(in.Credentials, func(cred compute.Credential) error {
		return a.Library.Delete(ctx, cred, compute.ImageID{UUID: id})
	})
	if compute.Is(err, compute.NotFound) {
		return nil
	}
	return err
}
