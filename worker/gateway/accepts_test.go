package gateway_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/activities/image"
	"strongroom/compute"
	"strongroom/schema/schematest"
	"strongroom/worker/gateway"
	"strongroom/worker/pki"
)

// H1: a host is told whether the one that it calls for an operation has a good certificate, and nothing
// of hosts with which that has nothing to do.
func TestH1AHostThatIsCalledIsAccepted(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	from, to, stranger := c.enrolled("from"), c.enrolled("to"), c.enrolled("stranger")
	op := from.server()
	of := compute.Arrival{Server: op.ServerID, Operation: op.ID}
	ask := func(by, called *host, of compute.Arrival) compute.Kind {
		return compute.KindOf(by.client.Accepts(c.Ctx, of, called.got.Cert))
	}
	require.Equal(t, compute.Forbidden, ask(from, to, of), "the server has nothing to do with it")
	c.Exec(`INSERT INTO claims (server_id, host_id, operation_id, vcpus, memory_mb, disk_gb) VALUES ($1, $2, $3, 1, 1, 1)`, op.ServerID, to.id, op.ID)
	require.Empty(t, ask(from, to, of), "there is room for it")
	require.Empty(t, ask(to, from, of))
	c.Exec("DELETE FROM claims")
	c.Exec(`INSERT INTO ledger (id, kind, place, name, reference, owner_kind, owner_id, operation_id, credential_id, project_id, user_id, state)
		VALUES (gen_random_uuid(), 'running_domain', $1::text, $2, '', 'server', $3, $4, $5, 'p', 'u', 'intended')`,
		to.id.String(), compute.InstanceName(op.ServerID), op.ServerID, op.ID, schematest.Owner.ID)
	require.Empty(t, ask(from, to, of), "it is about to be there")
	require.Empty(t, ask(to, from, of))
	other := from.server()
	for what, kind := range map[string]compute.Kind{
		"a stranger asks":    ask(stranger, to, of),
		"a stranger is":      ask(from, stranger, of),
		"a host itself":      ask(from, from, of),
		"another operation":  ask(from, to, compute.Arrival{Server: op.ServerID, Operation: other.ID}),
		"another server":     ask(from, to, compute.Arrival{Server: other.ServerID, Operation: op.ID}),
		"another one's both": ask(from, to, compute.Arrival{Server: other.ServerID, Operation: other.ID}),
	} {
		require.Equal(t, compute.Forbidden, kind, what)
	}
	for why, sql := range map[string][2]string{
		"the operation has ended": {"UPDATE operations SET state = 'failed'", "UPDATE operations SET state = 'running'"},
		"it has nothing of it":    {"UPDATE ledger SET state = 'released'", "UPDATE ledger SET state = 'intended'"},
		"the certificate was revoked": {
			"UPDATE host_certificates SET revoked_at = now() WHERE host_name = 'to'", "UPDATE host_certificates SET revoked_at = NULL",
		},
		"the certificate has ended": {
			"UPDATE host_certificates SET not_after = now() WHERE host_name = 'to'", "UPDATE host_certificates SET not_after = now() + interval '1 day'",
		},
	} {
		c.Exec(sql[0])
		require.Equal(t, compute.Forbidden, ask(from, to, of), why)
		c.Exec(sql[1])
		require.Empty(t, ask(from, to, of))
	}
	require.NoError(t, gateway.Revoke(c.Ctx, c.DB, "from"))
	require.Equal(t, compute.Forbidden, ask(from, to, of), "who asks was revoked")
}

// H1: where no gateway can say whether a host is accepted, it is asked again: one of a release that does
// not know the question, or none at all.
func TestH1AGatewayThatDoesNotSayAcceptsNobody(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	h := c.enrolled("a")
	listener, err := tls.Listen("tcp", "127.0.0.1:0", process(t, c.authority, pki.Gateway).Server())
	require.NoError(t, err)
	older := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Minute}
	go func() { _ = older.Serve(listener) }()
	asks := gateway.Dial("https://"+listener.Addr().String(), pki.NewIdentity(h.got.Cert, h.keys.Sign, h.got.CA))
	err = asks.Accepts(c.Ctx, compute.Arrival{}, h.got.Cert)
	require.Equal(t, compute.Unavailable, compute.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "does not know /v1/accepts")
	require.ErrorContains(t, err, "Gateways are upgraded before hosts")
	require.NoError(t, older.Close())
	require.Equal(t, compute.Unavailable, compute.KindOf(asks.Accepts(c.Ctx, compute.Arrival{}, h.got.Cert)))

	var u gateway.Unanswered
	for range 2 {
		require.False(t, u.Ends(nil))
		for range 12 {
			require.False(t, u.Ends(err), "a stream goes on for a while")
		}
	}
	require.True(t, u.Ends(err))
	u = 0
	require.True(t, u.Ends(compute.Errorf(compute.Forbidden, "revoked")))
	u = 0
	require.True(t, u.Ends(errors.New("a bug")))
}

// revoking is an image store behind a gateway whose host is revoked in the midst of an image.
type revoking struct {
	image.Library
	data   []byte
	revoke func()
}

func (r *revoking) OpenUnchecked(context.Context, compute.Credential, compute.ImageID) (io.ReadCloser, error) {
	return io.NopCloser(io.MultiReader(bytes.NewReader(r.data), once(r.revoke), bytes.NewReader(r.data))), nil
}

// once is a part of a stream without bytes, at which something happens.
type once func()

func (o once) Read([]byte) (int, error) {
	o()
	return 0, io.EOF
}

// H1: a host whose certificate is revoked gets no more of a stream that has begun, and what it sends is
// no more taken; the log says so.
func TestH1ARevokedHostsStreamsEnd(t *testing.T) {
	t.Parallel()
	local := newCloud(t).images
	store := &revoking{Library: local, data: bytes.Repeat([]byte("data"), 1<<18)}
	c := newCloudWith(t, store)
	c.again = time.Nanosecond
	c.url = c.serve(process(t, c.authority, pki.Gateway))
	var queued compute.ImageID
	transfer := func(name string, do func(ctx context.Context, images gateway.HostImages) error) error {
		t.Helper()
		h := c.enrolled(name)
		op := h.server()
		queued = c.queued(schematest.Owner)
		c.Exec("UPDATE servers SET image_id = $2::uuid, image = jsonb_build_object('id', $2::uuid::text) WHERE id = $1", op.ServerID, queued)
		c.makes(op, schematest.Owner, compute.ThingImage, compute.PlaceImageStore, queued.String())
		store.revoke = func() { require.NoError(t, gateway.Revoke(c.Ctx, c.DB, name)) }
		return as(t, "server/"+op.ServerID.String(), func(ctx context.Context) error { return do(ctx, gateway.HostImages{Client: h.client}) })
	}
	download := func(got *[]byte) func(ctx context.Context, images gateway.HostImages) error {
		return func(ctx context.Context, images gateway.HostImages) error {
			from, err := images.Open(ctx, schematest.Owner, queued)
			if err != nil {
				return err
			}
			defer from.Close()
			*got, err = io.ReadAll(from)
			return err
		}
	}
	var got []byte
	err := transfer("reads", download(&got))
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "was revoked")
	require.Equal(t, store.data, got, "what came before")
	require.Len(t, c.log.take(`level=WARN msg="broke off a stream to a host" host=reads `), 1)

	require.Error(t, transfer("writes", func(ctx context.Context, images gateway.HostImages) error {
		return images.Upload(ctx, schematest.Owner, queued, io.MultiReader(bytes.NewReader(store.data), once(store.revoke), bytes.NewReader(store.data)))
	}))
	require.Eventually(t, func() bool { return len(c.log.take("level=WARN msg=refused ")) == 1 }, time.Minute, time.Millisecond)
	record, err := local.Get(c.Ctx, schematest.Owner, queued)
	require.NoError(t, err)
	require.Equal(t, "queued", record.Status)

	// It goes on for a host that is good.
	store.revoke = nil
	require.NoError(t, transfer("good", func(ctx context.Context, images gateway.HostImages) error {
		store.revoke = func() {}
		return errors.Join(download(&got)(ctx, images), images.Upload(ctx, schematest.Owner, queued, strings.NewReader("an image")))
	}))
	require.Len(t, got, 2*len(store.data))
}
