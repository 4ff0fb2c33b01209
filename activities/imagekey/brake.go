package imagekey

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"strongroom/activities/image"
	"strongroom/compute"
	"strongroom/schema"
	"strongroom/schema/fence"
)

// few is how many images may be gone in any case.
const few = 2

// tooMany reports whether more images are gone at once than users delete: the image store may have lost
// its database, or have got an older or another one, in which case it says of all of them that
// they are gone. Since Grace is no shorter than Interval, each image has been asked for after
// the first one that is to be decided on was missed. Images that an operator confirmed do not count, nor those whose
// keys stay in any case. However few they are, a store that shows no image at all has lost them.
func (w *Watch) tooMany(ctx context.Context, cred compute.Credential) (bool, error) {
	n, err := schema.New(w.Pool).CountImageKeys(ctx, schema.CountImageKeysParams{Goes: compute.KeyGoes, Held: compute.KeptWithMany})
	if err != nil {
		return false, fence.Unavailable(err)
	}
	many := n.Gone > few && n.Gone*100 > n.Watched*int64(w.MostGone)
	if many {
		w.Logger.ErrorContext(ctx, "the image store has lost many images at once: no key of an image goes until an operator looks (strongroom image-key confirm)",
			"gone", n.Gone, "of", n.Watched)
	}
	if many || n.Gone == 0 || n.Gone < n.Watched { // one that was seen is there
		return many, nil
	}
	shows, err := w.showsAny(ctx, cred)
	if err == nil && !shows {
		w.Logger.ErrorContext(ctx, "the image store shows no image at all: no key of an image goes until an operator looks (strongroom image-key confirm)", "gone", n.Gone)
	}
	return !shows, err
}

// showsAny reports whether the image store shows any image, to a credential of a project or to
// strongroom's own user. One that neither may ask shows none.
func (w *Watch) showsAny(ctx context.Context, cred compute.Credential) (bool, error) {
	for _, c := range []compute.Credential{cred, {}} {
		for _, err := range image.All(ctx, w.Library, c, image.ListInput{}) {
			if err == nil {
				return true, nil
			}
			if !compute.Is(err, compute.Forbidden) {
				return false, err
			}
		}
	}
	return false, nil
}

// HeldKey is a key that stays because too many images are gone at once.
type HeldKey struct {
	Image   compute.ImageID  `json:"image"`
	Project string           `json:"project"`
	Secret  compute.SecretID `json:"secret"`
	GoneAt  time.Time        `json:"gone_at"` // when the image was first missed
}

// Held gives the keys that stay because too many images are gone at once.
func Held(ctx context.Context, pool *pgxpool.Pool) ([]HeldKey, error) {
	rows, err := schema.New(pool).HeldImageKeys(ctx, compute.KeptWithMany)
	if err != nil {
		return nil, fence.Unavailable(err)
	}
	keys := make([]HeldKey, len(rows))
	for i, row := range rows {
		keys[i] = HeldKey{Image: row.ImageID, Project: row.ProjectID, Secret: row.Secret}
		if row.GoneAt != nil {
			keys[i].GoneAt = *row.GoneAt
		}
	}
	return keys, nil
}

// Confirm says that the images of held keys are gone: the next look at each, which must not find it
// either, lets its key go. It gives how many are confirmed now; one that came back is not.
func Confirm(ctx context.Context, pool *pgxpool.Pool, keys []HeldKey) (int, error) {
	images := make([]uuid.UUID, len(keys))
	for i, k := range keys {
		images[i] = k.Image.UUID
	}
	confirmed, err := schema.New(pool).ConfirmImageKeys(ctx, schema.ConfirmImageKeysParams{Held: compute.KeptWithMany, Images: images})
	return len(confirmed), fence.Unavailable(err)
}
