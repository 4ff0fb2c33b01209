package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/stretchr/testify/require"

	"strongroom/activities/image"
	"strongroom/activities/key"
	"strongroom/activities/openstack"
	"strongroom/activities/secret"
	"strongroom/compute"
	"strongroom/schema/schematest"
	"strongroom/worker/gateway"
	"strongroom/worker/pki"
)

// failing is a cloud whose services answer with an error: before the first byte of an
// image, or behind it.
type failing struct {
	image.Library
	err   error
	begun bool
}

// failingKeys is its key manager.
type failingKeys struct {
	key.Manager
	*failing
}

func (f failingKeys) Passphrase(context.Context, compute.Credential, compute.SecretID) (*secret.Passphrase, error) {
	return nil, f.err
}

func (f *failing) Get(context.Context, compute.Credential, compute.ImageID) (compute.Image, error) {
	return compute.Image{}, f.err
}

func (f *failing) OpenUnchecked(context.Context, compute.Credential, compute.ImageID) (io.ReadCloser, error) {
	if !f.begun {
		return nil, f.err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(strings.NewReader("data"), errorReader{f.err}), io.NopCloser(nil)}, nil
}

func (f *failing) Upload(_ context.Context, _ compute.Credential, _ compute.ImageID, data io.Reader) error {
	_, _ = io.Copy(io.Discard, data)
	return f.err
}

type errorReader struct{ err error }

func (e errorReader) Read([]byte) (int, error) { return 0, e.err }

// answered is the error of a service that answered with a status.
func answered(status int, after string) error {
	return openstack.Error(gophercloud.ErrUnexpectedResponseCode{
		Actual: status, URL: "https://inside.example/v1/secrets", Body: []byte("internal"), ResponseHeader: http.Header{"Retry-After": {after}},
	}, "read secret s")
}

// seen is all that becomes of an error: what operators and users read of it, alone and in
// another, and when it is tried again.
func seen(err error) []any {
	var busy interface{ RetryAfter() time.Duration }
	wait := time.Duration(0)
	if errors.As(err, &busy) {
		wait = busy.RetryAfter()
	}
	within := compute.Errorf(compute.Unavailable, "server x: %w", err)
	return []any{compute.KindOf(err), err.Error(), compute.Public(err), within.Error(), compute.Public(within), wait}
}

// H1: a host sees an error of a service as if it had called the service itself.
func TestH1ErrorsPassThrough(t *testing.T) {
	t.Parallel()
	fails := &failing{}
	c := newCloudWith(t, fails)
	h := c.enrolled("a")
	op := h.server()
	keyed := c.secret(op.ServerID, schematest.Owner)
	c.keys = failingKeys{failing: fails}
	h.client = gateway.Dial(c.serve(process(t, c.authority, pki.Gateway)), pki.NewIdentity(h.got.Cert, h.keys.Sign, h.got.CA))
	h.secrets = gateway.NewHostKeys(h.client, h.id, h.keys)
	img := compute.ImageID{UUID: op.ServerID.UUID}
	c.Exec("UPDATE servers SET image_id = $2::uuid, image = jsonb_build_object('id', $2::uuid::text) WHERE id = $1", op.ServerID, img)
	c.makes(op, schematest.Owner, compute.ThingImage, compute.PlaceImageStore, img.String())
	images := gateway.HostImages{Client: h.client}
	do := func(f func(ctx context.Context) error) error { return as(t, "server/"+op.ServerID.String(), f) }
	for name, err := range map[string]error{
		"busy, for seconds":      answered(http.StatusTooManyRequests, "7"),
		"busy":                   answered(http.StatusServiceUnavailable, ""),
		"refused":                answered(http.StatusForbidden, ""),
		"wrapped":                fmt.Errorf("at /srv/x/y: %w", answered(http.StatusConflict, "")),
		"a path in the cause":    compute.Errorf(compute.Unavailable, "image x: %w", errors.New("open /srv/x/y: no")),
		"a path in the text":     compute.Errorf(compute.Corrupt, "the file /srv/x/y is damaged"),
		"another kind within":    compute.Errorf(compute.Invalid, "image x: %w", compute.Errorf(compute.Corrupt, "it has “holes”")),
		"no kind":                errors.New("open /srv/x/y: no"),
		"no kind, but an answer": &openstack.Answer{Status: http.StatusTeapot},
	} {
		want := seen(err)
		for _, fails.begun = range []bool{false, true} {
			fails.err = err
			require.Equal(t, want, seen(do(func(ctx context.Context) error {
				from, err := images.Open(ctx, schematest.Owner, img)
				if err != nil {
					return err
				}
				defer from.Close()
				_, err = io.ReadAll(from)
				return err
			})), name)
		}
		require.Equal(t, want, seen(do(func(ctx context.Context) error {
			_, err := images.Get(ctx, schematest.Owner, img)
			return err
		})), name)
		require.Equal(t, want, seen(do(func(ctx context.Context) error {
			return images.Upload(ctx, schematest.Owner, img, strings.NewReader("data"))
		})), name)
		_, err = h.read(op.ServerID, schematest.Owner, keyed)
		require.Equal(t, want, seen(err), name)
	}
}

// hanging is a store whose image stands still in the middle.
type hanging struct{ image.Library }

func (hanging) OpenUnchecked(ctx context.Context, _ compute.Credential, _ compute.ImageID) (io.ReadCloser, error) {
	return io.NopCloser(io.MultiReader(strings.NewReader(strings.Repeat("x", 1<<20)), &untilDone{ctx})), nil
}

type untilDone struct{ ctx context.Context }

func (u *untilDone) Read([]byte) (int, error) {
	<-u.ctx.Done()
	return 0, u.ctx.Err()
}

// Who closes an image's reader ends a Read of it that waits, and the stream at the gateway.
func TestCloseEndsARead(t *testing.T) {
	t.Parallel()
	c := newCloudWith(t, hanging{})
	h := c.enrolled("a")
	op := h.server()
	img := compute.ImageID{UUID: op.ServerID.UUID}
	c.Exec("UPDATE servers SET image_id = $2::uuid, image = jsonb_build_object('id', $2::uuid::text) WHERE id = $1", op.ServerID, img)
	err := as(t, "server/"+op.ServerID.String(), func(ctx context.Context) error {
		from, err := gateway.HostImages{Client: h.client}.Open(ctx, schematest.Owner, img)
		if err != nil {
			return err
		}
		closing := time.AfterFunc(200*time.Millisecond, func() { _ = from.Close() })
		defer closing.Stop()
		_, err = io.ReadAll(from)
		return err
	})
	require.ErrorContains(t, err, "closed")
}
