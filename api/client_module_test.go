package api_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/stretchr/testify/require"

	"strongroom/api"
	"strongroom/client"
	"strongroom/compute"
)

// clientOf gives a client of gophercloud's.
func (c *cloud) clientOf(t *testing.T, as who) *gophercloud.ServiceClient {
	t.Helper()
	front := httptest.NewServer(c.api)
	t.Cleanup(front.Close)
	return &gophercloud.ServiceClient{
		ProviderClient: &gophercloud.ProviderClient{TokenID: string(as)}, Endpoint: front.URL + "/v2.1/", Type: "compute", Microversion: "2.90",
	}
}

// The Go module for clients follows, waits for and cancels operations.
func TestClientOperations(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	ctx, id := t.Context(), c.create(nil)
	plain := c.clientOf(t, member)
	own := client.Extend(plain)
	require.Equal(t, "2.90", plain.Microversion)
	op := string(c.starter.ops()[0].ID)

	require.True(t, gophercloud.ResponseCodeIs(client.CancelOperation(ctx, own, id, op), 409), "it has not begun")
	c.exec(`UPDATE operations SET state = 'running', started_at = now() WHERE id = $1`, op)
	c.exec(`INSERT INTO operation_events (operation_id, event, started_at) VALUES ($1, 'cache_image', now())`, op)
	c.starter.progress = &compute.Progress{Phase: "download", Done: 5, Total: 10}
	got, err := client.GetOperation(ctx, own, id, op)
	require.NoError(t, err)
	require.False(t, got.Settled())
	require.Equal(t, "create", got.Kind)
	require.WithinDuration(t, time.Now(), got.AcceptedAt.Time, time.Hour)
	require.Equal(t, &client.Progress{Phase: "download", Done: 5, Total: 10, Unit: "bytes"}, got.Progress)
	require.Equal(t, "cache_image", got.Events[0].Event)
	require.NoError(t, client.CancelOperation(ctx, own, id, op))

	// An API that is away for a moment ends no wait.
	calls, gone := 0, *own.ProviderClient
	gone.HTTPClient.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		switch calls++; calls {
		case 1:
			return nil, errors.New("connection refused")
		case 2:
			return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody, Header: http.Header{}, Request: r}, nil
		}
		return http.DefaultTransport.RoundTrip(r)
	})
	own.ProviderClient = &gone

	looks := 0
	settled := func(o client.Operation) {
		if looks++; looks == 2 {
			require.Equal(t, client.Running, o.State)
			c.exec(`UPDATE operations SET state = 'failed', message = 'no host has room' WHERE id = $1`, op)
		}
	}
	_, err = client.WaitForOperation(ctx, own, id, op, settled)
	var failed *client.OperationError
	require.ErrorAs(t, err, &failed)
	require.EqualError(t, err, "create ("+op+") failed: no host has room")
	require.Equal(t, 3, looks, "it ends at once")
	require.Equal(t, 5, calls)

	c.exec(`UPDATE operations SET state = 'succeeded', message = NULL WHERE id = $1`, op)
	_, err = client.WaitForOperation(ctx, own, id, op, nil)
	require.NoError(t, err)
	all, err := client.ListOperations(ctx, own, id)
	require.NoError(t, err)
	require.Len(t, all, 1)

	_, err = client.ListOperations(ctx, plain, id)
	require.True(t, gophercloud.ResponseCodeIs(err, 404), "it does not speak strongroom 1.0")
	_, err = client.GetOperation(ctx, own, id, "req-none")
	require.True(t, gophercloud.ResponseCodeIs(err, 404))
	c.exec(`UPDATE operations SET state = 'running' WHERE id = $1`, op)
	ended, stop := context.WithTimeout(ctx, time.Millisecond)
	defer stop()
	_, err = client.WaitForOperation(ended, own, id, op, nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// It rotates keys and makes images with each choice of a key.
func TestClientEncryption(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	c.addFlavor("secret", map[string]string{"hw:ephemeral_encryption": "true"})
	id := c.createAs(creator, map[string]any{"flavorRef": "secret"})
	c.settle(id, compute.VMActive, compute.TaskNone)
	c.exec(`UPDATE server_disks SET encryption_secret_uuid = gen_random_uuid(), encryption_options = '{"cipher-alg":"aes-256"}' WHERE server_id = $1`, id)
	ctx, own := t.Context(), client.Extend(c.clientOf(t, creator))
	disks, err := client.ListDisks(ctx, own, id)
	require.NoError(t, err)
	require.Len(t, disks, 3)
	require.Equal(t, "luks", disks[0].Format)
	require.Equal(t, "aes-256", disks[0].Options["cipher-alg"])
	require.NotEmpty(t, disks[0].Secret)

	op, err := client.RotateKeys(ctx, own, id, []string{"root"})
	require.NoError(t, err)
	started := c.starter.ops()
	require.Equal(t, op, string(started[len(started)-1].ID))
	require.JSONEq(t, `{"disks":["root"]}`, string(started[len(started)-1].Arguments))
	_, err = client.RotateKeys(ctx, own, id, nil)
	require.True(t, gophercloud.ResponseCodeIs(err, 409), "another one is under way")

	for _, opts := range []client.ImageOpts{
		{Name: "as by default"},
		{Name: "copy", Metadata: map[string]string{"a": "b"}, Key: client.KeySame},
		{Name: "fresh", Key: client.KeyNew},
		{Name: "bare", Key: client.KeyNone},
		{Name: "mine", Key: client.KeyExisting, Secret: uuid.NewString()},
	} {
		c.settle(id, compute.VMActive, compute.TaskNone)
		image, op, err := client.CreateImage(ctx, own, id, opts)
		require.NoError(t, err, opts.Name)
		require.NotEmpty(t, image)
		started := c.starter.ops()
		require.Equal(t, op, string(started[len(started)-1].ID))
		if opts.Key == "" {
			opts.Key = client.KeySame
		}
		require.Contains(t, string(started[len(started)-1].Arguments), `"`+opts.Key+`"`)
	}
	c.settle(id, compute.VMActive, compute.TaskNone)
	_, _, err = client.CreateImage(ctx, own, id, client.ImageOpts{Name: "mine", Key: client.KeyExisting})
	require.True(t, gophercloud.ResponseCodeIs(err, 400), "it names no secret")
}

// It speaks of shares as their document does.
func TestClientShares(t *testing.T) {
	t.Parallel()
	c := setupCloud(t, func(config *api.Config) { config.Patience = time.Second })
	id := c.off()
	ctx, own := t.Context(), client.Extend(c.clientOf(t, member))
	attached, op, err := client.AttachShare(ctx, own, id, goodShare, "data")
	require.NoError(t, err)
	require.Equal(t, client.Share{ID: goodShare, Status: "attaching", Tag: "data"}, attached)
	require.Equal(t, op, string(c.starter.ops()[1].ID))
	shares, err := client.ListShares(ctx, own, id)
	require.NoError(t, err)
	require.Equal(t, []client.Share{attached}, shares)
	one, err := client.GetShare(ctx, own, id, goodShare)
	require.NoError(t, err)
	require.Equal(t, attached, one)
	seen, err := client.GetShare(ctx, client.Extend(c.clientOf(t, admin)), id, goodShare)
	require.NoError(t, err)
	require.Equal(t, exportLocation, seen.ExportLocation)
	require.NotEmpty(t, seen.AttachmentID)
	c.settle(id, compute.VMStopped, compute.TaskNone)
	c.exec(`UPDATE server_shares SET status = 'inactive' WHERE server_id = $1`, id)
	op, err = client.DetachShare(ctx, own, id, goodShare)
	require.NoError(t, err)
	require.NotEmpty(t, op)
	_, _, err = client.AttachShare(ctx, own, id, unknownShare, "")
	require.True(t, gophercloud.ResponseCodeIs(err, 409) || gophercloud.ResponseCodeIs(err, 404))
}
