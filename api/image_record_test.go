package api_test

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/api"
	"strongroom/compute"
	"strongroom/schema/fence"
)

const copyIt = `{"createImage": {"name": "copy"}}`

// A13: the api makes no images and has nothing to do with their data: what it is given has no more than what clients ask of
// the images that there are.
func TestA13TheAPIMakesNoImages(t *testing.T) {
	t.Parallel()
	field, ok := reflect.TypeFor[api.Config]().FieldByName("Images")
	require.True(t, ok)
	var methods []string
	for i := range field.Type.NumMethod() {
		methods = append(methods, field.Type.Method(i).Name)
	}
	require.Equal(t, []string{"ChangeImage", "DeleteImage", "Image", "Images"}, methods)
}

// A13: nothing of an image is on the ledger before its workflow runs.
func TestA13ARequestForAnImageMakesNothing(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.active()
	c.act(t, member, id, copyIt, at("2.90")).ok(202)
	require.Zero(t, c.count("SELECT count(*) FROM ledger"))
	require.Len(t, c.imageStore.images, 1, "the server's own")
}

// A13: of two requests at once, one makes an image.
func TestA13TwoRequestsAtOnceGiveOneImage(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.active()
	answers := make([]answer, 2)
	var both sync.WaitGroup
	for i := range answers {
		both.Go(func() { answers[i] = c.act(t, member, id, copyIt, at("2.90")) })
	}
	both.Wait()
	require.ElementsMatch(t, []int{202, 409}, []int{answers[0].code, answers[1].code})
	require.Len(t, c.starter.waited, 1)
	require.Equal(t, 1, c.count("SELECT count(*) FROM operations WHERE kind = 'createImage'"))
	for _, a := range answers {
		if a.code == 202 {
			image := compute.ImageID{UUID: c.starter.waited[0].ID.Derive("image")}
			require.Equal(t, image.String(), a.get("image_id"))
		}
	}
}

// A13: why an image was refused is the request's answer. What nobody foresaw tells no
// more than elsewhere.
func TestA13ARefusedImage(t *testing.T) {
	t.Parallel()
	for kind, want := range map[compute.Kind]struct {
		code          int
		name, message string
	}{
		compute.Forbidden:   {403, "forbidden", "the quota is used up"},
		compute.Conflict:    {409, "conflictingRequest", "the quota is used up"},
		compute.Invalid:     {400, "badRequest", "the quota is used up"},
		compute.Unavailable: {503, "serviceUnavailable", "the quota is used up"},
		"": {500, "computeFault", "Unexpected API Error. Please report this at http://bugs.launchpad.net/nova/ and attach the Nova API log if possible.\n" +
			"<class 'compute.Error'>"},
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			c := setupCloud(t)
			c.starter.record = func(context.Context, compute.Operation) (*compute.Error, error) {
				return compute.Errorf(kind, "the quota is used up"), nil
			}
			for _, body := range []string{copyIt, `{"createBackup": {"name": "n", "backup_type": "daily", "rotation": 1}}`} {
				for _, version := range []string{"2.44", "2.90"} {
					got := c.act(t, member, c.active(), body, at(version))
					got.fails(want.code, want.name, want.message)
					require.Empty(t, got.header.Get("Location"))
				}
			}
		})
	}
}

// A13: an image store that is slow keeps a client waiting for a bounded time only, a
// Temporal that is away and a client that leaves end the wait: the operation stays.
func TestA13NobodyWaitsForASlowImageStore(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]struct {
		record func(context.Context) error
		start  error
	}{
		"slow": {record: func(ctx context.Context) error {
			until, bounded := ctx.Deadline()
			require.True(t, bounded)
			require.LessOrEqual(t, time.Until(until), 5*time.Second)
			<-ctx.Done()
			return ctx.Err()
		}},
		"away": {record: func(context.Context) error { return errors.New("no") }, start: errors.New("no")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := setupCloud(t)
			id := c.active()
			c.starter.answer = func(int) error { return v.start }
			c.starter.record = func(ctx context.Context, _ compute.Operation) (*compute.Error, error) {
				return nil, compute.Errorf(compute.Unavailable, "waiting: %w", v.record(ctx))
			}
			got := c.act(t, member, id, copyIt, at("2.90")).ok(202)
			op := c.starter.waited[0]
			require.Equal(t, compute.ImageID{UUID: op.ID.Derive("image")}.String(), got.get("image_id"))
			require.Equal(t, "accepted", c.text("SELECT state FROM operations WHERE id = $1", op.ID))
			require.Equal(t, op.ID, c.row(id).CurrentOperation)
			require.Contains(t, c.log.String(), "the record of an image will be made later")
		})
	}
}

// A13: an operation that lost its server before it began makes no image, and does not tell:
// the request learns it from the database.
func TestA13AnImageOfAServerThatAnotherOperationTook(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]struct {
		change         string
		code           int
		fault, message string
	}{
		"taken":     {"UPDATE servers SET current_operation = 'req-00000000-0000-0000-0000-000000000000' WHERE id = $1", 409, "conflictingRequest", fence.Message},
		"cancelled": {"UPDATE operations SET state = 'cancelled', message = 'too late' WHERE server_id = $1", 409, "conflictingRequest", "too late"},
		"gone":      {"UPDATE servers SET deleted_at = now(), current_operation = '' WHERE id = $1", 404, "itemNotFound", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := setupCloud(t)
			id := c.active()
			c.starter.record = func(context.Context, compute.Operation) (*compute.Error, error) {
				_, err := c.pool.Exec(t.Context(), v.change, id)
				require.NoError(t, err)
				return nil, compute.Errorf(compute.Unavailable, "nobody told")
			}
			message := v.message
			if message == "" {
				message = "Instance " + id + " could not be found."
			}
			c.act(t, member, id, copyIt, at("2.90")).fails(v.code, v.fault, message)
		})
	}
}
