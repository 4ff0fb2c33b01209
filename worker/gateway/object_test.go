package gateway_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/object"
	"strongroom/compute"
	"strongroom/schema/schematest"
	"strongroom/worker/gateway"
)

// object writes the row of an object that an operation makes.
func (c *cloud) object(op compute.Operation, cred compute.Credential) (name string) {
	c.t.Helper()
	name = "servers/" + op.ServerID.String() + "/" + uuid.NewString()
	c.makes(op, cred, compute.ThingObject, compute.PlaceObjects, name)
	return name
}

// makes writes the row of a thing that an operation makes.
func (c *cloud) makes(op compute.Operation, cred compute.Credential, kind compute.ThingKind, place, name string) {
	c.t.Helper()
	c.Exec(`INSERT INTO ledger (id, kind, place, name, owner_kind, owner_id, operation_id, credential_id, project_id, user_id, state)
		VALUES (gen_random_uuid(), $7, $8, $1, 'server', $2, $3, $4, $5, $6, 'intended')`,
		name, op.ServerID, op.ID, cred.ID, cred.ProjectID, cred.UserID, kind, place)
}

// stored asks for objects as an activity of an operation on a server does.
type stored struct {
	t      *testing.T
	server compute.ServerID
	store  *object.Segmented
}

func (h *host) stored(t *testing.T, server compute.ServerID) stored {
	return stored{t, server, gateway.HostObjects(h.client)}
}

func (s stored) do(f func(ctx context.Context) error) error {
	s.t.Helper()
	return as(s.t, "server/"+s.server.String(), f)
}

func (s stored) put(cred compute.Credential, name string, data io.ReaderAt, size int) (out object.PutResult, err error) {
	s.t.Helper()
	err = s.do(func(ctx context.Context) error {
		out, err = s.store.Put(ctx, object.PutInput{Credential: cred, Name: name, Size: int64(size), SegmentBytes: 1 << 20}, data)
		return err
	})
	return out, err
}

func (s stored) read(cred compute.Credential, name string) (data []byte, err error) {
	s.t.Helper()
	err = s.do(func(ctx context.Context) error {
		from, err := s.store.Open(ctx, cred, name, 0)
		if err != nil {
			return err
		}
		defer from.Close()
		data, err = io.ReadAll(from)
		return err
	})
	return data, err
}

// H1: an operation stores, reads and removes the object that it makes, in segments; a put
// that broke goes on.
func TestH1ObjectsPassThrough(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	h := c.enrolled("a")
	op := h.server()
	s := h.stored(t, op.ServerID)
	for _, size := range []int{0, 5, 3<<20 + 7} {
		name, data := c.object(op, schematest.Owner), make([]byte, size)
		_, _ = rand.Read(data)
		_, err := s.read(schematest.Owner, name)
		require.Equal(t, compute.NotFound, compute.KindOf(err), "%v", err)
		if size > 2<<20 {
			_, err = s.put(schematest.Owner, name, breaksAt{bytes.NewReader(data), 2<<20 + 3}, size)
			require.Equal(t, compute.Unavailable, compute.KindOf(err), "%v", err)
		}
		out, err := s.put(schematest.Owner, name, bytes.NewReader(data), size)
		require.NoError(t, err)
		if size > 2<<20 {
			require.EqualValues(t, size-2<<20, out.SentBytes, "what was stored is not sent again")
		}
		got, err := s.read(schematest.Owner, name)
		require.NoError(t, err)
		require.True(t, bytes.Equal(data, got))
		direct := object.Segmented{Blobs: c.objects}
		manifest, err := direct.Get(c.Ctx, schematest.Owner, name)
		require.NoError(t, err)
		require.Equal(t, out.Manifest, manifest)
		for range 2 {
			require.NoError(t, s.do(func(ctx context.Context) error { return s.store.Delete(ctx, schematest.Owner, name) }))
		}
		left, err := c.objects.List(c.Ctx, schematest.Owner, name, "", 10)
		require.NoError(t, err)
		require.Empty(t, left)
	}
}

type breaksAt struct {
	io.ReaderAt
	end int64
}

func (b breaksAt) ReadAt(p []byte, at int64) (int, error) {
	if at+int64(len(p)) > b.end {
		return 0, errors.New("the disk is gone")
	}
	return b.ReaderAt.ReadAt(p, at)
}

// H1: the next operation reads what the server has, and changes nothing of it; another
// server's operation has nothing of it, nor has one with a foreign credential.
func TestH1ObjectsAreTheServers(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	owner := schematest.Owner
	mine, other := c.enrolled("mine"), c.enrolled("other")
	op := mine.server()
	name := c.object(op, owner)
	s := mine.stored(t, op.ServerID)
	_, err := s.put(owner, name, strings.NewReader("the state"), 9)
	require.NoError(t, err)

	// Another operation, somebody else's of the project.
	asked := compute.Credential{ID: uuid.New(), ProjectID: owner.ProjectID, UserID: "u2"}
	c.Exec("UPDATE operations SET state = 'succeeded' WHERE id = $1", op.ID)
	_, err = s.read(owner, name)
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "no operation runs: %v", err)
	next := compute.Operation{ID: compute.NewOperationID(), ServerID: op.ServerID, Kind: compute.OpStart}
	c.Operation(next, nil)
	c.Exec("UPDATE operations SET credential_id = $2, user_id = 'u2' WHERE id = $1", next.ID, asked.ID)
	got, err := s.read(asked, name)
	require.NoError(t, err)
	require.Equal(t, "the state", string(got))
	_, err = s.read(compute.DelegatedCredential(op.ServerID, owner.ProjectID, owner.UserID), name)
	require.NoError(t, err, "what the owner delegated reads it, too")

	refused := func(why string, err error) {
		t.Helper()
		require.Equal(t, compute.Forbidden, compute.KindOf(err), "%s: %v", why, err)
	}
	blobs, put := s.store.Blobs, func(blob string) error {
		return s.do(func(ctx context.Context) error { return s.store.Blobs.Put(ctx, asked, blob, strings.NewReader("x")) })
	}
	refused("changed", put(name))
	refused("removed", s.do(func(ctx context.Context) error { return blobs.Delete(ctx, asked, name) }))
	read := func(s stored, cred compute.Credential, name string) error {
		_, err := s.read(cred, name)
		return err
	}
	refused("in another project", read(s, compute.Credential{ID: asked.ID, ProjectID: "p2", UserID: "u2"}, name))
	refused("the credential of an operation before", read(s, owner, name))
	refused("strongroom's own project", read(s, compute.DeploymentCredential(), name))
	refused("no such object", read(s, asked, "servers/x"))
	foreign := other.server()
	refused("another host", read(other.stored(t, op.ServerID), asked, name))
	refused("another server", read(other.stored(t, foreign.ServerID), owner, name))
	theirs := c.object(foreign, owner)
	refused("another server's", read(s, asked, theirs))
	_, err = blobs.Open(t.Context(), asked, name)
	refused("outside an operation", err)

	// An operation lists and writes its own object alone, by the names that an object has.
	own := c.object(next, asked)
	require.NoError(t, put(own))
	list := func(prefix string) error {
		return s.do(func(ctx context.Context) error {
			_, err := blobs.List(ctx, asked, prefix, "", 10)
			return err
		})
	}
	require.NoError(t, list(own+".segments/"))
	refused("by its beginning", list(own))
	for _, bad := range []string{"", "servers", own + ".segments/x", own + ".segments/../../x", own + ".", "../x", "A"} {
		require.Contains(t, []compute.Kind{compute.Invalid, compute.Forbidden}, compute.KindOf(put(bad)), bad)
		require.Error(t, list(bad), bad)
	}
	c.Exec("UPDATE ledger SET state = 'released' WHERE name IN ($1, $2)", name, own)
	refused("removed by now", read(s, asked, name))
	refused("removed by now", put(own))
}

// A stream that the host breaks off stores nothing.
func TestABrokenStreamIsNoObject(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	h := c.enrolled("a")
	op := h.server()
	name := c.object(op, schematest.Owner)
	s := h.stored(t, op.ServerID)
	broken := iotest.DataErrReader(io.MultiReader(bytes.NewReader(make([]byte, 1<<20)), iotest.ErrReader(io.ErrUnexpectedEOF)))
	require.Error(t, s.do(func(ctx context.Context) error {
		return s.store.Blobs.Put(ctx, schematest.Owner, name, struct {
			io.Reader
			io.Seeker
		}{broken, strings.NewReader("")})
	}))
	_, err := c.objects.Size(c.Ctx, schematest.Owner, name)
	require.Equal(t, compute.NotFound, compute.KindOf(err), "%v", err)
}
