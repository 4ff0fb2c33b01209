package sharetest

import (
	"encoding/json"
	"fmt"
	"path"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/share"
	"strongroom/compute"
)

func look(b bench) {
	got, err := b.Again.Get(b.ctx, b.Owner, b.share.ID)
	require.NoError(b, err)
	require.Equal(b, b.share, got)
	require.Equal(b, b.Owner.ProjectID, got.ProjectID)
	require.Equal(b, share.StatusAvailable, got.Status)
	require.Positive(b, got.SizeGiB)
	require.NotEmpty(b, got.Name)
	require.NotEmpty(b, got.Zone)
	require.NoError(b, got.Check())
}

func unknown(b bench) {
	in := b.input()
	in.Share = share.ID{UUID: uuid.New()}
	_, err := b.Service.Get(b.ctx, b.Owner, in.Share)
	b.kind(compute.NotFound, err)
	_, err = b.Service.Locations(b.ctx, b.Owner, in.Share)
	b.kind(compute.NotFound, err)
	_, err = b.Service.Allow(b.ctx, in)
	b.kind(compute.NotFound, err)
	_, err = b.Service.AccessKey(b.ctx, b.Owner, in.Share, in.To)
	b.kind(compute.NotFound, err)
	b.deny(in)
}

// removed: users can remove a share under its server where the service does not
// keep them from it. Then there is nothing to deny.
func removed(b bench) {
	b.share = b.Make(b)
	in := b.input()
	b.allow(in)
	b.deny(in)
	b.Remove(b, b.share.ID)
	_, err := b.Service.Get(b.ctx, b.Owner, b.share.ID)
	b.kind(compute.NotFound, err)
	b.deny(in)
	_, err = b.Service.Allow(b.ctx, in)
	b.kind(compute.NotFound, err)
	require.Empty(b, b.rules())
}

func otherProject(b bench) {
	in := b.input()
	rule := b.allow(in)
	refused := []compute.Kind{compute.Forbidden, compute.NotFound}
	for _, stranger := range []compute.Credential{b.Other, {}} {
		_, err := b.Service.Get(b.ctx, stranger, b.share.ID)
		require.Contains(b, refused, compute.KindOf(err), "%v", err)
		_, err = b.Service.Locations(b.ctx, stranger, b.share.ID)
		require.Contains(b, refused, compute.KindOf(err), "%v", err)
		_, err = b.Service.AccessKey(b.ctx, stranger, b.share.ID, rule.To)
		require.Contains(b, refused, compute.KindOf(err), "%v", err)
		theirs := in
		theirs.Credential = stranger
		_, err = b.Service.Allow(b.ctx, theirs)
		require.Contains(b, refused, compute.KindOf(err), "%v", err)
		// Who cannot see the share cannot tell it from one that is gone.
		err = b.Service.Deny(b.ctx, share.DenyInput{Credential: stranger, Share: in.Share, Server: in.Server, To: &in.To, Rule: &rule.ID})
		require.Contains(b, append(refused, ""), compute.KindOf(err), "%v", err)
	}
	items, err := b.Service.List(b.ctx, b.Other)
	require.NoError(b, err)
	for _, item := range items {
		require.NotEqual(b, b.share.ID, item.Share)
	}
	_, err = b.Service.List(b.ctx, compute.Credential{})
	b.kind(compute.Forbidden, err)
	require.Equal(b, []share.Rule{rule}, b.rules())
}

// locations have a path, and nothing but the path gives it away (SH-25).
func locations(b bench) {
	found, err := b.Service.Locations(b.ctx, b.Owner, b.share.ID)
	require.NoError(b, err)
	require.NotEmpty(b, found)
	for i, l := range found {
		require.NotEmpty(b, l.Path())
		require.False(b, i > 0 && l.Preferred && !found[i-1].Preferred, "the preferred comes first")
		said := fmt.Sprint(l) + fmt.Sprintf("%+v %#v %q", l, &l, []share.Location{l}) + fmt.Sprintf("%v", struct{ l share.Location }{l})
		require.NotContains(b, said, path.Base(l.Path()))
		_, err := json.Marshal(l)
		require.Error(b, err)
	}
	again, err := b.Again.Locations(b.ctx, b.Owner, b.share.ID)
	require.NoError(b, err)
	require.Equal(b, found[0].Path(), again[0].Path())
}

// standing: of the shares that are asked for, those that are there are given with their rules, and
// no other project's.
func standing(b bench) {
	gone, in := b.Make(b), b.input()
	rule := b.allow(in)
	lost := in
	lost.Share, lost.To = gone.ID, b.grantee()
	b.allow(lost)
	ids := []share.ID{b.share.ID, gone.ID, {UUID: uuid.New()}}
	got, err := b.Again.Standing(b.ctx, b.Owner, ids)
	require.NoError(b, err)
	require.Len(b, got.There, 2)
	require.Equal(b, map[share.ID]bool{ids[2]: true}, got.Gone)
	require.Empty(b, got.Failed)
	require.Contains(b, got.There[b.share.ID], rule)
	lets := func(server compute.ServerID, to share.Grantee) bool {
		return share.AccessBy(got.There[b.share.ID], server, to, in.Level) == share.Open
	}
	require.True(b, lets(b.server, in.To))
	require.True(b, lets(b.newServer(), in.To), "all servers of a host have its rule")
	require.Equal(b, in.To.Kind == share.Address, lets(b.server, b.grantee()), "the rule names the server: a host may have had another address")
	require.False(b, lets(b.newServer(), b.grantee()))

	theirs, err := b.Service.Standing(b.ctx, b.Other, ids)
	require.NoError(b, err)
	require.Empty(b, theirs.There)
	require.Len(b, theirs.Gone, 3)
	_, err = b.Again.Standing(b.ctx, compute.Credential{}, ids)
	b.kind(compute.Forbidden, err)

	b.deny(in)
	b.deny(lost)
	b.Remove(b, gone.ID)
	got, err = b.Again.Standing(b.ctx, b.Owner, ids)
	require.NoError(b, err)
	require.Len(b, got.There, 1)
	require.Contains(b, got.There, b.share.ID)
	require.Len(b, got.Gone, 2)
	require.False(b, lets(b.server, in.To))
}
