package api

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"

	"strongroom/api/microversion"
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/compute"
	"strongroom/schema"
	"strongroom/schema/fence"
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

func (a *API) createImageAction() Resource {
	route := actionRoute("createImage", createImageBody(false), a.createImage)
	route.Extended = createImageBody(true)
	return Resource{Rules: policy.Rules{ruleCreateImage: policy.ProjectMemberOrAdmin}, Routes: []Route{route}}
}

// createImage makes an image of a server. As a rule its record is there when the request
// is answered (awaitRecord); its data follow.
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
	if err := a.checkNamedSecret(r, in.Secret); err != nil {
		return nil, err
	}
	return a.imageOfServer(r, in, action{Facts: compute.CreateImage.Facts, rule: ruleCreateImage})
}

// checkNamedSecret refuses at once a secret that belongs to a server of the caller's project
// (EE-46). The operation looks at all projects, once it knows that the caller may read it.
func (a *API) checkNamedSecret(r *Request, secret *compute.SecretID) error {
	if secret == nil {
		return nil
	}
	taken, err := a.db.IsSecretOfProject(r.Context(), schema.IsSecretOfProjectParams{Secret: secret.UUID, ProjectID: r.Credential().ProjectID})
	if err == nil && taken {
		err = compute.ErrSecretOfServer(*secret)
	}
	return err
}

// imageOfServer begins an operation that makes an image of a server, and answers
// with the image.
func (a *API) imageOfServer(r *Request, in compute.SnapshotArguments, act action) (any, error) {
	act.arguments = in
	op, err := a.launch(r, act)
	if err != nil {
		return nil, err
	}
	if err := a.awaitRecord(r, op, act.rule); err != nil {
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

// recordWait bounds how long a client waits for the record of his image.
const recordWait = 5 * time.Second

// awaitRecord waits until the operation has made the image's record: the client is to
// find it. An operation that ended without it is the request's failure. Where neither is
// known in time, for the image store or Temporal is slow or away, the client is answered
// all the same: the operation is on record, and begins when it can. One that lost its server
// never does: that is a conflict, or the server is gone.
func (a *API) awaitRecord(r *Request, op compute.Operation, rule string) error {
	ctx, cancel := context.WithTimeout(r.Context(), recordWait)
	defer cancel()
	failure, err := a.config.Operations.ImageRecord(ctx, op)
	if err != nil && r.Context().Err() == nil {
		failure = a.lostServer(r, op)
	}
	if hasLostServer(failure) {
		if _, gone := a.findServer(r, rule); gone != nil {
			return gone
		}
	}
	if err != nil && failure == nil {
		a.config.Logger.WarnContext(ctx, "the record of an image will be made later", "operation", op.ID, "server", op.ServerID, "error", err)
	}
	if failure != nil {
		return failure
	}
	return nil
}

// hasLostServer reports whether an operation may have failed since its server is another one's, or is gone.
func hasLostServer(failure *compute.Error) bool {
	return failure != nil && (failure.Kind == compute.Superseded || failure.Kind == compute.Conflict)
}

// lostServer says why an operation that has not told what became of it will do nothing any
// more, as far as the database knows.
func (a *API) lostServer(r *Request, op compute.Operation) *compute.Error {
	row, err := a.db.GetOperation(r.Context(), op.ID)
	known := err == nil
	switch {
	case !known:
	case row.State == compute.OperationFailed, row.State == compute.OperationCancelled:
		message := "the operation was cancelled"
		if row.Message != nil {
			message = *row.Message
		}
		return compute.Errorf(compute.Conflict, "%s", message)
	case row.State == compute.OperationAccepted: // once it begins, it finds who has its server
		server, err := a.db.GetServer(r.Context(), op.ServerID)
		if err == nil && server.CurrentOperation != op.ID {
			return compute.Errorf(compute.Superseded, fence.Message)
		}
	}
	return nil
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
