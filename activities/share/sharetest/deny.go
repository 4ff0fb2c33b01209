package sharetest

import (
	"encoding/json"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/share"
	"strongroom/compute"
)

func denyTwice(b bench) {
	in, stays := b.input(), b.input()
	stays.Server, stays.To = b.newServer(), b.grantee()
	kept := b.allow(stays)
	b.deny(in) // never was
	rule := b.allow(in)
	del := share.DenyInput{Credential: b.Owner, Share: in.Share, Server: in.Server, To: &in.To, Rule: &rule.ID}
	require.NoError(b, b.Again.Deny(b.ctx, del))
	require.Equal(b, []share.Rule{kept}, b.rules())
	_, err := b.Service.AccessKey(b.ctx, b.Owner, b.share.ID, in.To)
	b.kind(compute.NotFound, err)
	require.NoError(b, b.Service.Deny(b.ctx, del))
	never := share.RuleID{UUID: uuid.New()}
	del.Rule = &never
	require.NoError(b, b.Service.Deny(b.ctx, del))
	require.Equal(b, []share.Rule{kept}, b.rules())
}

func denyGrantee(b bench) {
	one, two := b.input(), b.input()
	two.To = b.grantee()
	first, second := b.allow(one), b.allow(two)
	stranger := b.grantee()
	require.NoError(b, b.Service.Deny(b.ctx, share.DenyInput{Credential: b.Owner, Share: one.Share, Server: one.Server, To: &stranger}))
	require.ElementsMatch(b, []share.Rule{first, second}, b.rules())
	require.NoError(b, b.Service.Deny(b.ctx, share.DenyInput{Credential: b.Owner, Share: one.Share, Server: b.newServer()}))
	require.ElementsMatch(b, []share.Rule{first, second}, b.rules())
	b.deny(one)
	require.Equal(b, []share.Rule{second}, b.rules())
	b.allow(one)
	require.NoError(b, b.Service.Deny(b.ctx, share.DenyInput{Credential: b.Owner, Share: one.Share, Server: one.Server}))
	require.Empty(b, b.rules())
}

// denyAtOnce: whichever comes last, there is one rule or none, and one more Deny
// leaves none. An Allow whose rule is removed again and again may give up.
func denyAtOnce(b bench) {
	in := b.input()
	errs := make([]error, 6)
	b.atOnce(len(errs), func(i int, s share.Service) {
		if i%3 == 0 {
			_, errs[i] = s.Allow(b.ctx, in)
			return
		}
		errs[i] = s.Deny(b.ctx, share.DenyInput{Credential: b.Owner, Share: in.Share, Server: in.Server, To: &in.To})
	})
	for i, err := range errs {
		if i%3 == 0 && compute.KindOf(err) == compute.Unavailable {
			continue
		}
		require.NoError(b, err, i)
	}
	require.LessOrEqual(b, len(b.rules()), 1)
	b.deny(in)
	require.Empty(b, b.rules())
}

func list(b bench) {
	require.Empty(b, b.rules())
	one, two := b.input(), b.input()
	two.Server, two.To, two.Level = b.newServer(), b.grantee(), share.ReadOnly
	first, second := b.allow(one), b.allow(two)
	require.ElementsMatch(b, []share.Rule{first, second}, b.rules())
	for _, r := range b.rules() { // what a list shows is enough to remove what it lists
		for _, server := range r.Servers {
			require.NoError(b, b.Service.Deny(b.ctx, share.DenyInput{Credential: b.Owner, Share: r.Share, Server: server, To: &r.To}))
		}
	}
	require.Empty(b, b.rules())
}

// activities pass references on and nothing else.
func activities(b bench) {
	a := &share.Activities{Service: b.Service}
	in := b.input()
	looked, err := a.Look(b.ctx, share.LookInput{Credential: b.Owner, Share: b.share.ID})
	require.NoError(b, err)
	require.Equal(b, b.share, looked)
	allowed, err := a.Allow(b.ctx, in)
	require.NoError(b, err)
	require.Equal(b, share.StateActive, allowed.State)
	use := compute.ShareUse(in.Share, in.Server)
	look := compute.SeenInput{Projects: []compute.Access{{Project: b.Owner.ProjectID, Credentials: []compute.Credential{b.Owner}}}}
	rules, err := a.Seen(b.ctx, look)
	require.NoError(b, err)
	require.Contains(b, rules.Seen, compute.Seen{Kind: compute.ThingShareAccess, Name: use}) // the project has other shares

	shown, err := json.Marshal([]any{in, looked, allowed, rules})
	require.NoError(b, err)
	locations, err := b.Service.Locations(b.ctx, b.Owner, b.share.ID)
	require.NoError(b, err)
	for _, l := range locations {
		require.NotContains(b, string(shown), l.Path())
	}
	if key, err := b.Service.AccessKey(b.ctx, b.Owner, b.share.ID, in.To); err == nil {
		require.NoError(b, key.Use(func(v []byte) error { require.NotContains(b, string(shown), string(v)); return nil }))
		key.Wipe()
	} else {
		b.kind(compute.Conflict, err)
	}
	removal := compute.Removal{Thing: compute.Thing{Kind: compute.ThingShareAccess, Name: use}, Credentials: []compute.Credential{b.Owner}}
	for range 2 {
		require.NoError(b, a.Remove(b.ctx, removal))
		require.Empty(b, b.rules())
	}
	removal.Thing.Name = in.Share.String()
	b.kind(compute.Invalid, a.Remove(b.ctx, removal))
	removal.Thing.Kind = compute.ThingImage
	b.kind(compute.Invalid, a.Remove(b.ctx, removal))
}
