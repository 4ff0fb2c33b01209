package sharetest

import (
	"github.com/stretchr/testify/require"

	"strongroom/activities/share"
	"strongroom/compute"
)

func allowTwice(b bench) {
	in := b.input()
	rule := b.allow(in)
	again, err := b.Again.Allow(b.ctx, in)
	require.NoError(b, err)
	require.Equal(b, rule, again)
	require.Equal(b, []share.Rule{rule}, b.rules())

	in.To, in.Level = b.grantee(), share.ReadOnly
	second := b.allow(in)
	require.NotEqual(b, rule.ID, second.ID)
	require.ElementsMatch(b, []share.Rule{rule, second}, b.rules())
}

func allowAtOnce(b bench) {
	in := b.input()
	rules, errs := make([]share.Rule, 4), make([]error, 4)
	b.atOnce(len(rules), func(i int, s share.Service) { rules[i], errs[i] = s.Allow(b.ctx, in) })
	for i, err := range errs {
		require.NoError(b, err)
		require.Equal(b, rules[0], rules[i])
	}
	require.Equal(b, rules[:1], b.rules())
}

func allowNonsense(b bench) {
	for name, change := range map[string]func(in *share.AllowInput){
		"no server":      func(in *share.AllowInput) { in.Server = compute.ServerID{} },
		"no level":       func(in *share.AllowInput) { in.Level = "rwx" },
		"no kind":        func(in *share.AllowInput) { in.To.Kind = "cert" },
		"no address":     func(in *share.AllowInput) { in.To = share.Grantee{Kind: share.Address, Name: "host.example.org"} },
		"no name":        func(in *share.AllowInput) { in.To = share.Grantee{Kind: share.CephUser} },
		"a dot":          func(in *share.AllowInput) { in.To = share.Grantee{Kind: share.CephUser, Name: "client.admin"} },
		"a line of more": func(in *share.AllowInput) { in.To = share.Grantee{Kind: share.CephUser, Name: "a\nb"} },
	} {
		in := b.input()
		change(&in)
		_, err := b.Service.Allow(b.ctx, in)
		require.Equal(b, compute.Invalid, compute.KindOf(err), "%s: %v", name, err)
	}
	in := b.input()
	if in.To.Kind == share.Address {
		in.To = share.UserOf(newHost(), b.share.ID)
	} else {
		in.To = share.Grantee{Kind: share.Address, Name: "192.0.2.1"}
	}
	_, err := b.Service.Allow(b.ctx, in)
	b.kind(compute.Conflict, err)
	require.Empty(b, b.rules())
}

func otherLevel(b bench) {
	in := b.input()
	rule := b.allow(in)
	in.Level = share.ReadOnly
	_, err := b.Service.Allow(b.ctx, in)
	b.kind(compute.Conflict, err)
	require.ErrorContains(b, err, rule.ID.String())
	require.Equal(b, []share.Rule{rule}, b.rules())
}

// twoServers of one host come in by one rule, which stays for the one that is left.
func twoServers(b bench) {
	one := b.input()
	two := one
	two.Server = b.newServer()
	rule := b.allow(one)
	require.Equal(b, rule.ID, b.allow(two).ID)
	require.Len(b, b.rules(), 1)
	require.ElementsMatch(b, []compute.ServerID{one.Server, two.Server}, b.rules()[0].Servers)

	b.deny(one)
	require.Len(b, b.rules(), 1)
	require.Equal(b, []compute.ServerID{two.Server}, b.rules()[0].Servers)
	require.NoError(b, b.Again.Deny(b.ctx, share.DenyInput{Credential: b.Owner, Share: one.Share, Server: one.Server, Rule: &rule.ID}))
	require.Len(b, b.rules(), 1, "a server lets go of its own part alone")

	b.deny(two)
	require.Empty(b, b.rules())
}

func allowAgain(b bench) {
	in := b.input()
	b.allow(in)
	b.deny(in)
	require.Empty(b, b.rules())
	in.Level = share.ReadOnly
	rule := b.allow(in)
	require.Equal(b, []share.Rule{rule}, b.rules())
}

// accessKey: a rule for a Ceph user comes with the user's key, which only
// AccessKey gives.
func accessKey(b bench) {
	in := b.input()
	rule := b.allow(in)
	key, err := b.Again.AccessKey(b.ctx, b.Owner, b.share.ID, rule.To)
	if in.To.Kind != share.CephUser {
		require.Nil(b, key)
		b.kind(compute.Conflict, err)
		return
	}
	require.NoError(b, err)
	defer key.Wipe()
	var value string
	require.NoError(b, key.Use(func(v []byte) error { value = string(v); return nil }))
	require.Greater(b, len(value), 20)

	_, wrong := b.Service.AccessKey(b.ctx, b.Other, b.share.ID, rule.To)
	require.Error(b, wrong)
	in.Level = share.ReadOnly
	_, conflict := b.Service.Allow(b.ctx, in)
	require.Error(b, conflict)
	b.deny(in)
	_, gone := b.Service.AccessKey(b.ctx, b.Owner, b.share.ID, rule.To)
	b.kind(compute.NotFound, gone)
	for _, err := range []error{wrong, conflict, gone} {
		require.NotContains(b, err.Error(), value)
	}
}
