package ledger

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
	"strongroom/schema/fence"
)

// TakeKey marks the key of an image for its removal, unless something else uses it.
var TakeKey = durable.Activity[TakeKeyInput, TakeKeyResult]{
	Name: "ledger.TakeKey", Queue: durable.RecordQueue,
	Summary: func(in TakeKeyInput) string { return "look whether the key of image " + in.Image.String() + " is used" },
}

// TakeKeyInput names the key of an image that is gone.
type TakeKeyInput struct {
	Image compute.ImageID `json:"image"`
	Key   compute.Thing   `json:"key"`
}

// TakeKeyResult says whether the key waits to be removed now.
type TakeKeyResult struct {
	Taken bool `json:"taken"`
}

// TakeKey is the activity ledger.TakeKey. From here on nobody can make an image with the key
// (UseSecret).
func (a *Activities) TakeKey(ctx context.Context, in TakeKeyInput) (out TakeKeyResult, err error) {
	id, ok := in.Key.Secret()
	if !ok {
		return out, nil // nobody can have named it, and nobody knows what it opens
	}
	err = fence.Transaction(ctx, a.Pool, func(q *schema.Queries) error {
		out.Taken, _, err = takeKey(ctx, q, in.Image, in.Key.Operation, id)
		return err
	})
	return out, err
}

// takeKey lets the key that an operation made for an image wait for its removal, unless another
// image or a disk uses it. there is false when the ledger has no such key of an image any more.
func takeKey(ctx context.Context, q *schema.Queries, img compute.ImageID, op compute.OperationID, id compute.SecretID) (taken, there bool, err error) {
	rows, err := q.LockSecretThings(ctx, schema.LockSecretThingsParams{Secret: id.UUID})
	if err != nil {
		return false, false, err
	}
	for _, row := range rows {
		if row.OperationID != op || row.State != compute.ThingHandedOver && row.State != compute.ThingWaiting {
			continue
		}
		if row.State == compute.ThingWaiting { // this ran before
			return true, true, nil
		}
		named, err := q.IsSecretNamed(ctx, schema.IsSecretNamedParams{Secret: id.UUID, ImageID: img.UUID})
		if err != nil || named {
			return false, true, err
		}
		return true, true, Wait(ctx, q, []compute.Thing{row.Thing("").Waits(compute.BlockedByThings, "its image is gone")})
	}
	return false, false, nil
}

// UseSecret puts on record that an image is about to be encrypted with a secret that somebody
// named. Conflict: the secret goes with a server (EE-46) or with an image that is gone. name
// is the secret's in the key manager: one that is being made is known by it before the
// ledger knows its id.
func UseSecret(ctx context.Context, q *schema.Queries, key schema.RecordImageKeyParams, name string) error {
	rows, err := q.LockSecretThings(ctx, schema.LockSecretThingsParams{Secret: key.Secret.UUID, Name: name})
	if err != nil {
		return err
	}
	for _, row := range rows {
		_, _, ofServer := compute.SecretOwner(row.Name)
		switch {
		case row.State == compute.ThingHandedOver:
		case ofServer || row.State != compute.ThingWaiting:
			return compute.ErrSecretOfServer(key.Secret)
		default:
			return compute.ErrSecretGoes(key.Secret)
		}
	}
	// Keys of the legacy encryption are on no row of the ledger.
	ofServer, err := q.IsSecretOfServer(ctx, key.Secret.UUID)
	if err == nil && ofServer {
		err = compute.ErrSecretOfServer(key.Secret)
	}
	if err != nil {
		return err
	}
	return q.RecordImageKey(ctx, key)
}

// RecordKeys puts on record which of the things that are handed over is the key of which image.
func RecordKeys(ctx context.Context, q *schema.Queries, things []compute.Thing) error {
	for _, img := range things {
		image, err := uuid.Parse(img.Name)
		if err != nil || img.Kind != compute.ThingImage {
			continue
		}
		for _, key := range things {
			secret, ok := key.Secret()
			if !ok || key.Operation != img.Operation {
				continue
			}
			err := q.RecordImageKey(ctx, schema.RecordImageKeyParams{
				ImageID: compute.ImageID{UUID: image}, OperationID: img.Operation, ProjectID: img.Credential.ProjectID,
				Secret: secret, Made: true, // what the image says of its key, the first look tells
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// GoneImage is an image with a key that the image store has said twice not to have.
type GoneImage struct {
	Image compute.ImageID
	Named bool          // the image store has another image that names the key
	Held  bool          // too many are gone at once: the key stays for now
	Again time.Duration // when to look once more whether a key that others use must stay
}

// EndImage lets the key of an image that is gone go, where it may (EE-44), or notes why it
// stays.
func EndImage(ctx context.Context, q *schema.Queries, in GoneImage) error {
	k, err := q.LockImageKey(ctx, in.Image)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil || k.GoneAt == nil {
		return err
	}
	again := in.Again.Seconds()
	if in.Held { // the image may be there
		return q.KeepImageKey(ctx, schema.KeepImageKeyParams{ImageID: k.ImageID, Kept: compute.KeptWithMany, Again: &again})
	}
	if err := q.ReleaseThing(ctx, schema.ReleaseThingParams{Kind: compute.ThingImage, Place: compute.PlaceImageStore, Name: k.ImageID.String()}); err != nil {
		return err
	}
	switch {
	case !k.Made:
	case !compute.KeyMayGo(k.Policy):
		return q.KeepImageKey(ctx, schema.KeepImageKeyParams{ImageID: k.ImageID, Kept: compute.KeptByPolicy})
	default:
		taken, there := false, true
		if !in.Named {
			taken, there, err = takeKey(ctx, q, k.ImageID, k.OperationID, k.Secret)
		}
		if err != nil {
			return err
		}
		if there && !taken {
			return q.KeepImageKey(ctx, schema.KeepImageKeyParams{ImageID: k.ImageID, Kept: compute.KeptForOthers, Again: &again})
		}
	}
	return q.ForgetImageKey(ctx, k.ImageID)
}
