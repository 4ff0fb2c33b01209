package api

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"

	"strongroom/api/microversion"
	"strongroom/api/validation"
	"strongroom/compute"
	"strongroom/schema"
)

const ruleCreateImage = "os_compute_api:servers:create_image"

// createImageBody is Nova's; with strongroom 1.0 the encryption document's key is
// in it (EE-20).
func createImageBody(extended bool) validation.Versions {
	return validation.Since(func(microversion.Version) validation.Schema {
		p := validation.Properties{"name": validation.Name, "metadata": validation.Metadata()}
		if extended {
			p["encryption"] = validation.Object([]string{"key"}, validation.Properties{
				"key":         validation.Enum(string(compute.KeySame), string(compute.KeyNew), string(compute.KeyExisting), string(compute.KeyNone)),
				"secret_uuid": {"type": "string", "format": "uuid"},
			})
		}
		return validation.Object([]string{"createImage"}, validation.Properties{"createImage": validation.Object([]string{"name"}, p)})
	}, microversion.Min)
}

// createImage makes an image of a server. Its record is there when the request is
// answered, its data follow.
func (a *API) createImage(r *Request) (any, error) {
	var body struct {
		CreateImage struct {
			Name       string
			Metadata   map[string]string
			Encryption *struct {
				Key    compute.KeyChoice
				Secret *compute.SecretID `json:"secret_uuid"`
			}
		}
	}
	if err := r.Decode(&body); err != nil {
		return nil, err
	}
	in := compute.SnapshotArguments{
		Image: compute.ImageID{UUID: r.ID.Derive("image")}, Name: body.CreateImage.Name, Metadata: body.CreateImage.Metadata, Key: compute.KeySame,
	}
	if e := body.CreateImage.Encryption; e != nil {
		in.Key, in.Secret = e.Key, e.Secret
	}
	if err := compute.CheckKeyChoice(in.Key, in.Secret); err != nil {
		return nil, err
	}
	return a.imageOfServer(r, in, action{rule: ruleCreateImage, kind: compute.OpCreateImage, task: compute.TaskSnapshotPending})
}

// imageOfServer begins an operation that makes an image of a server, and answers
// with the image. A lock keeps nobody from it.
func (a *API) imageOfServer(r *Request, in compute.SnapshotArguments, act action) (any, error) {
	act.arguments, act.evenLocked = in, true
	act.makes = func(op compute.Operation) compute.Thing {
		return op.Thing(compute.ThingImage, compute.PlaceImageStore, in.Image.String())
	}
	act.accepted = func(op compute.Operation, s schema.Server) { a.announceImage(r, op, s, in) }
	if _, err := a.act(r, act); err != nil {
		return nil, err
	}
	switch {
	case r.Version >= 45:
		return map[string]any{"image_id": in.Image}, nil
	case in.Backup != nil && in.Backup.Rotation == 0:
		return nil, nil // it does not stay
	}
	if address := a.imageURL(r, in.Image.UUID); address != "" {
		r.SetHeader("Location", address)
	}
	return nil, nil
}

// announceWait bounds how long a client waits for the record of his image.
const announceWait = 5 * time.Second

// announceImage makes the image's record before the client is answered. The
// workflow makes the same one if this does not come through. An image store that is
// slow keeps nobody waiting, but what it was asked for is seen through to its end.
func (a *API) announceImage(r *Request, op compute.Operation, s schema.Server, in compute.SnapshotArguments) {
	cred := r.Credential()
	img := compute.SnapshotImage(compute.Server{ID: s.ID, UserID: s.UserID, Image: s.Image, Flavor: s.Flavor}, in)
	a.seeThrough(r.Context(), announceWait, func(ctx context.Context) { a.announce(ctx, cred, op, img) })
}

func (a *API) announce(ctx context.Context, cred compute.Credential, op compute.Operation, img compute.Image) {
	if err := a.config.Images.Create(ctx, cred, img); err != nil {
		a.config.Logger.WarnContext(ctx, "the record of an image will be made later", "image", img.ID, "server", op.ServerID, "error", err)
	}
	// A delete of the server that came in between may have found no image to remove.
	if lost, err := a.lost(ctx, op); err != nil || !lost {
		return
	}
	if err := a.config.Images.Delete(ctx, cred, img.ID); err != nil && !compute.Is(err, compute.NotFound) {
		a.config.Logger.WarnContext(ctx, "an image of a deleted server could not be removed", "image", img.ID, "server", op.ServerID, "error", err)
	}
}

// lost reports whether an operation will not begin any more, or was undone.
func (a *API) lost(ctx context.Context, op compute.Operation) (bool, error) {
	s, err := a.db.GetServer(ctx, op.ServerID)
	if err != nil || s.CurrentOperation == op.ID {
		return false, err
	}
	now, err := a.db.GetOperation(ctx, op.ID)
	return now.State != compute.OperationRunning && now.State != compute.OperationSucceeded, err
}

// imageURL is an image's address at the image service, "" if the caller's catalog
// has none.
func (a *API) imageURL(r *Request, id uuid.UUID) string {
	endpoint, err := r.Token.ProviderClient.EndpointLocator(gophercloud.EndpointOpts{Type: "image", Availability: gophercloud.AvailabilityPublic})
	if err != nil {
		return ""
	}
	return gophercloud.NormalizeURL(endpoint) + "images/" + id.String()
}
