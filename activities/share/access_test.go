package share_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/share"
	"strongroom/compute"
)

// SH-09: a rule lets a host in by its level and by what the storage made of it, not by being there.
func TestSH09WhatARuleGives(t *testing.T) {
	t.Parallel()
	server, to := compute.ServerID{UUID: uuid.New()}, share.Grantee{Kind: share.CephUser, Name: "strongroom-1"}
	rule := func(level share.Level, state string) share.Rule {
		return share.Rule{To: to, Level: level, State: state}
	}
	of := func(rules ...share.Rule) share.Access { return share.AccessBy(rules, server, to, share.ReadWrite) }
	for state, want := range map[string]share.Access{
		"active": share.Open, "queued_to_apply": share.Changing, "applying": share.Changing, "": share.Changing, "of a later Manila": share.Changing,
		"error": share.Refused, "queued_to_deny": share.Shut, "denying": share.Shut,
	} {
		require.Equal(t, want, of(rule(share.ReadWrite, state)), state)
		require.Equal(t, share.Shut, of(rule(share.ReadOnly, state)), "%s, read-only", state)
	}
	require.Equal(t, share.Shut, of())
	require.Equal(t, share.Open, of(rule(share.ReadWrite, "denying"), rule(share.ReadWrite, "active"), rule(share.ReadWrite, "error")), "the best of them")

	other := rule(share.ReadWrite, "active")
	other.To.Name = "******"
	require.Equal(t, share.Shut, of(other))
	other.Servers = []compute.ServerID{{UUID: uuid.New()}, server}
	require.Equal(t, share.Open, of(other), "it names the server")
	other.To.Name = "strongroom-2"
	require.Equal(t, share.Shut, of(other), "of another host, for anybody can name a server")
}

// SH-09: an answer to one share says nothing of others, no answer says nothing at all, and a service that
// is away is not waited for share by share.
func TestSH09ALookAtShares(t *testing.T) {
	t.Parallel()
	ids := make([]share.ID, 6)
	for i := range ids {
		ids[i] = share.ID{UUID: uuid.New()}
	}
	asked := 0
	look := func(kinds ...compute.Kind) (share.Looked, error) {
		asked = 0
		return share.LookAt(ids, func(id share.ID) ([]share.Rule, error) {
			kind := kinds[asked]
			require.Equal(t, ids[asked], id)
			asked++
			if kind != "" {
				return nil, compute.Errorf(kind, "no")
			}
			return []share.Rule{{Share: id}}, nil
		})
	}
	const away, gone, closed = compute.Unavailable, compute.NotFound, compute.Forbidden
	l, err := look(away, "", gone, away, closed, compute.Conflict)
	require.NoError(t, err)
	require.Equal(t, map[share.ID][]share.Rule{ids[1]: {{Share: ids[1]}}}, l.There)
	require.Equal(t, map[share.ID]bool{ids[2]: true}, l.Gone)
	require.Len(t, l.Failed, 4)

	l, err = look("", away, away, away)
	require.NoError(t, err)
	require.Equal(t, 4, asked)
	require.Equal(t, []int{1, 0, 3}, []int{len(l.There), len(l.Gone), len(l.Failed)}, "the others are not known")
	require.True(t, l.Silent)
	l, err = look(away, away, "", away, away, gone)
	require.NoError(t, err)
	require.False(t, l.Silent)
	ids = ids[:2]
	l, err = look(away, away)
	require.NoError(t, err)
	require.True(t, l.Silent, "it answered to none")
	l, err = look("", away)
	require.NoError(t, err)
	require.False(t, l.Silent)
	ids = ids[:6]

	l, err = look(closed, closed, closed, closed, closed, closed)
	require.Equal(t, closed, compute.KindOf(err), "another credential may see them")
	require.Len(t, l.Failed, 6)
	l, err = look(closed, closed, closed, closed, closed, gone)
	require.NoError(t, err)
	require.Len(t, l.Failed, 5)
}
