package gateway_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/mount"
	"strongroom/activities/secret"
	"strongroom/activities/share"
	"strongroom/compute"
	"strongroom/schema"
	"strongroom/schema/schematest"
)

// exports tells where each share is.
type exports struct{}

// AccessKey gives a key for each host and share; the key of no host's user is asked for.
func (exports) AccessKey(_ context.Context, _ compute.Credential, id compute.ShareID, to share.Grantee) (*secret.Passphrase, error) {
	return secret.New([]byte(keyOf(id, to))), nil
}

func keyOf(id compute.ShareID, to share.Grantee) string {
	return "key of " + to.Name + " for " + id.String()
}

func (exports) Locations(_ context.Context, _ compute.Credential, id compute.ShareID) ([]share.Location, error) {
	return []share.Location{share.NewLocation("/exports/"+id.String(), true)}, nil
}

// SH-25, SH-30, H1: a host is told where a share is exported that one of its servers has, while an
// operation boots that server, with the operation's credential; and of no other.
func TestSH25AHostIsToldOfItsServersShares(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	owner := schematest.Owner
	mine, other := c.enrolled("mine"), c.enrolled("other")
	op, foreign := mine.server(), other.server()
	protocol := "LOCAL"
	attach := func(server compute.ServerID) compute.ShareID {
		id := compute.ShareID{UUID: uuid.New()}
		require.NoError(t, c.Q.AttachShare(c.Ctx, schema.AttachShareParams{
			ID: uuid.New(), ServerID: server, ShareID: id, Status: compute.ShareInactive, Tag: id.String(), ShareProto: protocol, ExportLocation: []byte("sealed"),
		}))
		return id
	}
	own, theirs := attach(op.ServerID), attach(foreign.ServerID)
	ask := func(h *host, server compute.ServerID, cred compute.Credential, id compute.ShareID) (from mount.Export, err error) {
		err = as(t, "server/"+server.String(), func(ctx context.Context) error {
			from, err = h.secrets.Export(ctx, cred, id)
			return err
		})
		return from, err
	}
	from, err := ask(mine, op.ServerID, owner, own)
	require.NoError(t, err)
	require.Equal(t, "/exports/"+own.String(), from.Path)
	require.Empty(t, from.User)
	require.Zero(t, from.Key.Len())

	protocol = "CEPHFS"
	ceph, foreignCeph := attach(op.ServerID), attach(foreign.ServerID)
	from, err = ask(mine, op.ServerID, owner, ceph)
	require.NoError(t, err)
	require.Equal(t, "/exports/"+ceph.String(), from.Path)
	require.Equal(t, share.UserOf(mine.id, ceph).Name, from.User)
	require.NoError(t, from.Key.Use(func(key []byte) error {
		require.Equal(t, keyOf(ceph, share.UserOf(mine.id, ceph)), string(key))
		return nil
	}))
	require.NotContains(t, fmt.Sprintf("%v %+v %#v %s", from, from, from, from), "/exports")

	refused := func(why string, h *host, server compute.ServerID, cred compute.Credential, id compute.ShareID) {
		t.Helper()
		_, err := ask(h, server, cred, id)
		require.Equal(t, compute.Forbidden, compute.KindOf(err), "%s: %v", why, err)
	}
	refused("another server's share", mine, op.ServerID, owner, theirs)
	refused("another server's share of CephFS", mine, op.ServerID, owner, foreignCeph)
	refused("another host's server", mine, foreign.ServerID, owner, theirs)
	refused("a share of no server", mine, op.ServerID, owner, compute.ShareID{UUID: uuid.New()})
	refused("a credential of no operation", mine, op.ServerID, compute.Credential{ID: uuid.New(), ProjectID: owner.ProjectID, UserID: owner.UserID}, own)
	refused("strongroom's own login", mine, op.ServerID, compute.DeploymentCredential(), own)
	c.Exec("UPDATE operations SET kind = 'stop' WHERE id = $1", op.ID)
	refused("nothing boots it", mine, op.ServerID, owner, own)
	attaches := func(arguments string) {
		c.Exec("UPDATE operations SET kind = 'share_attach', arguments = $2 WHERE id = $1", op.ID, arguments)
	}
	attaches(`{"share_id": "` + own.String() + `", "live": true}`)
	_, err = ask(mine, op.ServerID, owner, own)
	require.NoError(t, err, "its guest is given it")
	attaches(`{"share_id": "` + ceph.String() + `", "live": true}`)
	refused("its guest is given another one", mine, op.ServerID, owner, own)
	attaches(`{"share_id": "` + own.String() + `"}`)
	refused("its guest is off", mine, op.ServerID, owner, own)
	c.Exec("UPDATE operations SET kind = 'start', state = 'succeeded' WHERE id = $1", op.ID)
	refused("the operation has ended", mine, op.ServerID, owner, own)
}
