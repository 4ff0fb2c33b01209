// Package sharetest is the suite that every adapter of share.Service passes.
package sharetest

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/share"
	"strongroom/compute"
)

// Harness is an adapter ready to be tried.
type Harness struct {
	Service share.Service
	Again   share.Service      // a second client of the same service, as another process would have
	Owner   compute.Credential // owns shares in its project
	Other   compute.Credential // owns shares in another project
	// Make makes a share of the owner that is available, and Remove removes it; what
	// the suite does not remove the harness does after it.
	Make   func(t testing.TB) share.Share
	Remove func(t testing.TB, id share.ID)
}

// bench is one test's harness, share and words.
type bench struct {
	*testing.T
	Harness
	ctx     context.Context
	share   share.Share               // which other tests use too
	server  compute.ServerID          // of this test alone
	servers map[compute.ServerID]bool // all of this test
}

// Run runs the suite and returns once it is through.
func Run(t *testing.T, h Harness) {
	made := h.Make(t)
	t.Run("suite", func(t *testing.T) { run(t, h, made) })
}

func run(t *testing.T, h Harness, made share.Share) {
	for name, test := range map[string]func(b bench){
		"a share as it is":                 look,
		"an unknown share":                 unknown,
		"a share that was removed":         removed,
		"another project is refused":       otherProject,
		"locations are not shown":          locations,
		"allow is idempotent":              allowTwice,
		"allow at once makes one":          allowAtOnce,
		"allow refuses nonsense":           allowNonsense,
		"one grantee has one level":        otherLevel,
		"two servers share a rule":         twoServers,
		"deny is idempotent":               denyTwice,
		"deny names grantee or not":        denyGrantee,
		"deny at once with allow":          denyAtOnce,
		"allow again after deny":           allowAgain,
		"keys come with cephx and go":      accessKey,
		"the audit finds what was made":    list,
		"what stands of some shares":       standing,
		"activities report what they must": activities,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := h
			h.Service, h.Again = patient{t, h.Service}, patient{t, h.Again}
			b := bench{T: t, Harness: h, ctx: t.Context(), share: made, servers: map[compute.ServerID]bool{}}
			b.server = b.newServer()
			test(b)
			for _, r := range b.rules() {
				require.NotEmpty(b, r.Servers)
				b.deny(share.AllowInput{Credential: b.Owner, Share: r.Share, Server: r.Servers[0], To: r.To})
			}
		})
	}
}

// newServer is a server of this test.
func (b bench) newServer() compute.ServerID {
	server := compute.ServerID{UUID: uuid.New()}
	b.servers[server] = true
	return server
}

func newHost() compute.HostID { return compute.HostID{UUID: uuid.New()} }

// grantee is somebody whom rules of the share can let in.
func (b bench) grantee() share.Grantee {
	kind, ok := b.share.Protocol.Grantees()
	require.True(b, ok)
	if kind == share.CephUser {
		return share.UserOf(newHost(), b.share.ID)
	}
	random := uuid.New()
	return share.Grantee{Kind: share.Address, Name: netip.AddrFrom4([4]byte{10, random[0], random[1], random[2]}).String()}
}

func (b bench) input() share.AllowInput {
	return share.AllowInput{Credential: b.Owner, Share: b.share.ID, Server: b.server, To: b.grantee(), Level: share.ReadWrite}
}

func (b bench) allow(in share.AllowInput) share.Rule {
	b.Helper()
	rule, err := b.Service.Allow(b.ctx, in)
	require.NoError(b, err)
	require.Equal(b, share.StateActive, rule.State)
	require.Equal(b, in.Share, rule.Share)
	require.True(b, in.To.Is(rule.To), "%v is not %v", rule.To, in.To)
	require.Equal(b, in.Level, rule.Level)
	require.Contains(b, rule.Servers, in.Server)
	return rule
}

func (b bench) deny(in share.AllowInput) {
	b.Helper()
	require.NoError(b, b.Service.Deny(b.ctx, share.DenyInput{Credential: in.Credential, Share: in.Share, Server: in.Server, To: &in.To}))
}

// rules gives strongroom's rules of the share for this test's servers, or for none,
// as another process sees them.
func (b bench) rules() []share.Rule {
	b.Helper()
	all, err := b.Again.List(b.ctx, b.Owner)
	require.NoError(b, err)
	rules := []share.Rule{}
	for _, r := range all {
		ours := func(server compute.ServerID) bool { return b.servers[server] }
		if r.Share == b.share.ID && (len(r.Servers) == 0 || slices.ContainsFunc(r.Servers, ours)) {
			rules = append(rules, r)
		}
	}
	return rules
}

func (b bench) kind(kind compute.Kind, err error) {
	b.Helper()
	require.Equal(b, kind, compute.KindOf(err), "%v", err)
}

// atOnce calls fn n times together, half through each client.
func (b bench) atOnce(n int, fn func(i int, s share.Service)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		s := b.Service
		if i%2 == 1 {
			s = b.Again
		}
		wg.Go(func() {
			<-start
			fn(i, s)
		})
	}
	close(start)
	wg.Wait()
}
