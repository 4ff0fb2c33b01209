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
	if _, err := a.act(r, action{
		rule: ruleCreateImage, kind: compute.OpCreateImage, task: compute.TaskSnapshotPending, arguments: in, evenLocked: true,
		accepted: func(s schema.Server) { a.announceImage(r, s, in) },
	}); err != nil {
		return nil, err
	}
	return a.imageMade(r, in.Image)
}

// imageMade is the answer that names an image.
func (a *API) imageMade(r *Request, id compute.ImageID) (any, error) {
	if r.Version >= 45 {
		return map[string]any{"image_id": id}, nil
	}
	if address := a.imageURL(r, id.UUID); address != "" {
		r.SetHeader("Location", address)
	}
	return nil, nil
}

// announceWait bounds how long a client waits for the record of his image.
const announceWait = 5 * time.Second

// announceImage makes the image's record before the client is answered. The
// workflow makes the same one if this does not come through.
func (a *API) announceImage(r *Request, s schema.Server, in compute.SnapshotArguments) {
	ctx, cancel := context.WithTimeout(r.Context(), announceWait)
	defer cancel()
	img := compute.SnapshotImage(compute.Server{ID: s.ID, UserID: s.UserID, Image: s.Image, Flavor: s.Flavor}, in)
	if err := a.config.Images.Create(ctx, r.Credential(), img); err != nil {
		a.config.Logger.WarnContext(ctx, "the record of an image will be made later", "image", in.Image, "server", s.ID, "error", err)
	}
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
