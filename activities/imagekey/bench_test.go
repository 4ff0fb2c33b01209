package imagekey_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/image"
	"strongroom/activities/image/local"
	"strongroom/activities/imagekey"
	"strongroom/activities/ledger"
	"strongroom/compute"
	"strongroom/schema"
	"strongroom/schema/fence"
	"strongroom/schema/schematest"
)

// bench is a watch over a database and an image store of its own.
type bench struct {
	*schematest.Fixture
	*imagekey.Watch
	t     *testing.T
	store *store
	other compute.Image // is there in any case, and has no key
}

// store is an image store that can be made to fail.
type store struct {
	image.Library
	before func(call string, cred compute.Credential) error // of each call
	listed func(compute.Credential, image.ListInput) error  // of each list
	empty  bool                                             // lists have nothing
	given  *compute.Image                                   // is another project's: strongroom's own user sees it
	// stuck is an image, and its key, about which the store gives this error.
	stuck     keyed
	stuckCall string
	stuckErr  error
}

func (s *store) fails(call string, cred compute.Credential) error {
	if s.before == nil {
		return nil
	}
	return s.before(call, cred)
}

func (s *store) List(ctx context.Context, cred compute.Credential, in image.ListInput) (image.ListResult, error) {
	if err := s.fails("list", cred); err != nil || s.empty {
		return image.ListResult{}, err
	}
	if s.listed != nil {
		if err := s.listed(cred, in); err != nil {
			return image.ListResult{}, err
		}
	}
	return s.Library.List(ctx, cred, in)
}

func (s *store) Get(ctx context.Context, cred compute.Credential, id compute.ImageID) (compute.Image, error) {
	if err := s.fails("get", cred); err != nil {
		return compute.Image{}, err
	}
	if s.stuckCall == "get" && id == s.stuck.img.ID {
		return compute.Image{}, s.stuckErr
	}
	if s.given != nil && id == s.given.ID && cred.IsDeployment() {
		img := *s.given
		img.Owner = "p2"
		return img, nil
	}
	return s.Library.Get(ctx, cred, id)
}

func (s *store) Naming(ctx context.Context, cred compute.Credential, id compute.SecretID) ([]compute.ImageID, error) {
	if err := s.fails("naming", cred); err != nil {
		return nil, err
	}
	if s.stuckCall == "naming" && id == s.stuck.id {
		return nil, s.stuckErr
	}
	return s.Library.Naming(ctx, cred, id)
}

func setup(t *testing.T) *bench {
	t.Helper()
	f := schematest.NewFixture(t)
	library, err := local.Open(local.Config{Dir: t.TempDir()})
	require.NoError(t, err)
	s := &store{Library: library}
	w := &imagekey.Watch{Pool: f.DB, Library: s, Interval: time.Hour, Grace: 24 * time.Hour, MostGone: 100, Logger: slog.New(slog.DiscardHandler)}
	b := &bench{Fixture: f, Watch: w, t: t, store: s}
	b.other = b.image(uuid.New(), nil)
	return b
}

// keyed is an image of a server, and its key.
type keyed struct {
	img compute.Image
	key compute.Thing
	id  compute.SecretID
}

// make makes an image as an operation does that has ended, with a key of its own.
func (b *bench) make(policy string) keyed {
	b.t.Helper()
	op := b.Server(compute.OpCreateImage)
	op.Credential = schematest.Owner
	b.Exec("UPDATE servers SET current_operation = '' WHERE id = $1", op.ServerID)
	b.Exec("UPDATE operations SET state = 'completed', finished_at = now() WHERE id = $1", op.ID)
	k := keyed{id: compute.SecretID{UUID: uuid.New()}}
	k.img = b.image(uuid.New(), map[string]string{"os_encrypt_key_id": k.id.String(), "os_encrypt_key_deletion_policy": policy})
	k.key = op.Thing(compute.ThingKeySecret, compute.PlaceKeyManager, compute.ImageSecret(k.img.ID, op.ID).Name)
	k.key.Reference = k.id.String()
	things := []compute.Thing{op.Thing(compute.ThingImage, compute.PlaceImageStore, k.img.ID.String()), k.key}
	b.write(func(q *schema.Queries) error {
		for _, do := range []func(context.Context, *schema.Queries, []compute.Thing) error{ledger.Open, ledger.Present, ledger.HandOver, ledger.RecordKeys} {
			if err := do(b.Ctx, q, things); err != nil {
				return err
			}
		}
		return nil
	})
	return k
}

func (b *bench) image(id uuid.UUID, properties map[string]string) compute.Image {
	b.t.Helper()
	img, err := b.store.Create(b.Ctx, schematest.Owner, compute.Image{ID: compute.ImageID{UUID: id}, Name: "copy", DiskFormat: "qcow2", ContainerFormat: "bare",
		Visibility: image.Private, Properties: properties})
	require.NoError(b.t, err)
	return img
}

func (b *bench) remove(img compute.Image) {
	b.t.Helper()
	require.NoError(b.t, b.store.Delete(b.Ctx, schematest.Owner, img.ID))
}

func (b *bench) write(do func(*schema.Queries) error) {
	b.t.Helper()
	require.NoError(b.t, fence.Transaction(b.Ctx, b.DB, do))
}

// pass makes a pass when it is every image's time.
func (b *bench) pass() {
	b.t.Helper()
	b.due()
	require.NoError(b.t, b.Pass(b.Ctx))
}

func (b *bench) due() {
	b.t.Helper()
	b.Exec("UPDATE image_keys SET look_at = now() - interval '1 second', gone_at = gone_at - interval '1 day' WHERE look_at IS NOT NULL")
}

// state is that of a key on the ledger.
func (b *bench) state(k keyed) (state compute.ThingState) {
	b.t.Helper()
	require.NoError(b.t, b.DB.QueryRow(b.Ctx, "SELECT state FROM ledger WHERE id = $1", k.key.ID).Scan(&state))
	return state
}

// kept is why a key stays whose image is gone.
func (b *bench) kept(k keyed) (why string) {
	b.t.Helper()
	require.NoError(b.t, b.DB.QueryRow(b.Ctx, "SELECT coalesce(max(kept), '') FROM image_keys WHERE image_id = $1", k.img.ID).Scan(&why))
	return why
}

// use makes an image with a secret that somebody named.
func (b *bench) use(secret compute.SecretID, name string) (compute.ImageID, error) {
	b.t.Helper()
	img := compute.ImageID{UUID: uuid.New()}
	op := b.Server(compute.OpCreateImage)
	op.Credential = schematest.Owner
	b.write(func(q *schema.Queries) error {
		return ledger.Open(b.Ctx, q, []compute.Thing{op.Thing(compute.ThingImage, compute.PlaceImageStore, img.String())})
	})
	return img, fence.Transaction(b.Ctx, b.DB, func(q *schema.Queries) error {
		return ledger.UseSecret(b.Ctx, q, schema.RecordImageKeyParams{ImageID: img, OperationID: op.ID, ProjectID: schematest.Owner.ProjectID, Secret: secret}, name)
	})
}
