package placement_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/placement"
	"strongroom/compute"
	"strongroom/schema"
	"strongroom/schema/schematest"
)

// group makes a group; most is 0 where its rule is none.
func (b *bundle) group(policy compute.GroupPolicy, most int32) compute.GroupID {
	b.t.Helper()
	in := schema.InsertServerGroupParams{ID: compute.GroupID{UUID: uuid.New()}, ProjectID: "p", UserID: "u", Name: "g", Policy: policy}
	if most > 0 {
		in.MaxPerHost = &most
	}
	g, err := b.Q.InsertServerGroup(b.Ctx, in)
	require.NoError(b.t, err)
	return g.ID
}

// asks adds a server whose create has hints.
func (b *bundle) asks(hints schema.InsertServerHintsParams) placement.ClaimInput {
	b.t.Helper()
	in := b.server(compute.OpCreate)
	hints.ServerID = in.Server
	if hints.DifferentHost == nil {
		hints.DifferentHost = []uuid.UUID{}
	}
	if hints.SameHost == nil {
		hints.SameHost = []uuid.UUID{}
	}
	require.NoError(b.t, b.Q.InsertServerHints(b.Ctx, hints))
	return placement.ClaimInput{OperationInput: in, Plan: plan(1)}
}

func (b *bundle) member(of compute.GroupID) placement.ClaimInput {
	b.t.Helper()
	return b.asks(schema.InsertServerHintsParams{GroupID: &of})
}

// moves is the claim of another operation of the server, which leaves the host where it is.
func (b *bundle) moves(in placement.ClaimInput, not ...compute.HostID) placement.ClaimInput {
	b.t.Helper()
	in.OperationInput, in.Not = b.supersede(in.OperationInput, compute.OpMigrate), not
	return in
}

func (b *bundle) noHost(in placement.ClaimInput) {
	b.t.Helper()
	_, err := b.claim(in)
	require.Equal(b.t, compute.NoHost, compute.KindOf(err), "%v", err)
}

func (b *bundle) onHost(want compute.HostID, in placement.ClaimInput) {
	b.t.Helper()
	got, err := b.claim(in)
	require.NoError(b.t, err)
	require.Equal(b.t, want, got.Host)
}

// Two hundred creates at once of four groups that are kept apart, and moves of those that have a
// place: no host ever has more of a group than it may.
func TestTwoHundredClaimsAtOnceKeepGroupsApart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 8 {
		b.Host(fmt.Sprintf("h%d", i), 1000, 1<<20)
	}
	claims := make([]placement.ClaimInput, 0, 200)
	room := map[compute.GroupID]int{}
	for i := range 4 {
		g := b.group(compute.GroupAntiAffinity, int32(i)) // of no rule, and of one, two and three
		room[g] = 8 * max(1, i)
		for range 50 {
			claims = append(claims, b.member(g))
		}
	}
	hold := func(want func(claims, most int) bool) {
		t.Helper()
		rows, err := b.DB.Query(b.Ctx, `SELECT coalesce(g.max_per_host, 1), count(DISTINCT c.server_id) FROM claims c
			JOIN server_hints h ON h.server_id = c.server_id JOIN server_groups g ON g.id = h.group_id GROUP BY g.id, c.host_id`)
		require.NoError(t, err)
		defer rows.Close()
		for rows.Next() {
			var most, n int
			require.NoError(t, rows.Scan(&most, &n))
			require.True(t, want(n, most), "%d on a host of %d", n, most)
		}
		require.NoError(t, rows.Err())
	}
	placed := 0
	for i, err := range schematest.AtOnce(len(claims), func(i int) error { _, err := b.claim(claims[i]); return err }) {
		if err == nil {
			placed++
			continue
		}
		require.Equal(t, compute.NoHost, compute.KindOf(err), "%d: %v", i, err)
	}
	total := 0
	for _, n := range room {
		total += n
	}
	require.Equal(t, total, placed, "each place that there is was taken")
	hold(func(n, most int) bool { return n == most })

	for i := range 4 { // hosts that have none, for those that move
		b.Host(fmt.Sprintf("new%d", i), 1000, 1<<20)
	}
	moves := make([]placement.ClaimInput, len(claims))
	for i, in := range claims {
		moves[i] = b.moves(in)
		if at := b.row(in.OperationInput).HostID; at != nil {
			moves[i].Not = []compute.HostID{*at}
		}
	}
	for _, err := range schematest.AtOnce(len(moves), func(i int) error { _, err := b.claim(moves[i]); return err }) {
		require.True(t, err == nil || compute.Is(err, compute.NoHost), "%v", err)
	}
	hold(func(n, most int) bool { return n <= most })
}

// Two hundred creates at once of servers that want to be together are on one host, also where it has
// no room for all.
func TestTwoHundredClaimsAtOnceKeepAGroupTogether(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 3 {
		b.Host(fmt.Sprintf("h%d", i), 150, 1<<20)
	}
	g := b.group(compute.GroupAffinity, 0)
	claims := make([]placement.ClaimInput, 200)
	for i := range claims {
		claims[i] = b.member(g)
	}
	placed := 0
	for _, err := range schematest.AtOnce(len(claims), func(i int) error { _, err := b.claim(claims[i]); return err }) {
		if err == nil {
			placed++
		} else {
			require.Equal(t, compute.NoHost, compute.KindOf(err), "%v", err)
		}
	}
	require.Equal(t, 150, placed)
	require.Equal(t, 1, b.CountRows("SELECT count(DISTINCT host_id) FROM claims"))
}

// A move keeps to the group, too, and counts the server on both of its hosts until it is decided.
func TestMovesKeepToTheGroup(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h1, h2 := b.Host("h1", 8, 1<<21), b.Host("h2", 8, 1<<20)
	apart := b.group(compute.GroupAntiAffinity, 0)
	first, second := b.member(apart), b.member(apart)
	b.onHost(h1, first)
	b.onHost(h2, second)
	b.noHost(b.moves(first, h1))
	h3 := b.Host("h3", 8, 1<<19)
	moving := b.moves(first, h1)
	b.onHost(h3, moving)
	b.noHost(b.member(apart)) // the first may come back
	require.NoError(t, b.Unclaim(b.Ctx, moving.OperationInput))
	b.onHost(h3, b.member(apart))

	together := b.group(compute.GroupAffinity, 0)
	one := b.member(together)
	b.onHost(h1, one)
	away := b.moves(one, h1) // it is alone
	b.onHost(h2, away)
	b.noHost(b.member(together)) // there are two hosts, until the move is decided
	b.Exec("DELETE FROM claims WHERE server_id = $1 AND host_id = $2", one.Server, h1)
	other := b.member(together)
	b.onHost(h2, other)
	b.noHost(b.moves(one, h2))

	b.Exec("DELETE FROM server_groups")
	b.onHost(h1, b.moves(one, h2))
}

// A soft policy orders hosts and refuses none.
func TestSoftPoliciesOrderHosts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	large, small := b.Host("large", 2, 1<<21), b.Host("small", 3, 1<<20)
	near, far := b.group(compute.GroupSoftAffinity, 0), b.group(compute.GroupSoftAntiAffinity, 0)
	b.onHost(large, b.member(far))
	b.onHost(small, b.member(far))
	only := b.member(near)
	only.Only = &small
	b.onHost(small, only)
	b.onHost(small, b.member(near))
	b.onHost(large, b.member(near)) // the other is full
}

// The hints of a create hold for its moves, the host that it asked for does not.
func TestHintsNameServers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h1, h2 := b.Host("h1", 8, 1<<21), b.Host("h2", 8, 1<<20)
	one, two := b.asks(schema.InsertServerHintsParams{}), b.asks(schema.InsertServerHintsParams{})
	b.onHost(h1, one)
	two.Only = &h2
	b.onHost(h2, two)
	at := func(of ...placement.ClaimInput) (ids []uuid.UUID) {
		for _, in := range of {
			ids = append(ids, in.Server.UUID)
		}
		return ids
	}
	b.noHost(b.asks(schema.InsertServerHintsParams{DifferentHost: at(one, two)}))
	b.noHost(b.asks(schema.InsertServerHintsParams{DifferentHost: at(one), SameHost: at(one)}))
	b.onHost(h1, b.asks(schema.InsertServerHintsParams{SameHost: at(one)}))
	unlike := b.asks(schema.InsertServerHintsParams{DifferentHost: at(one)})
	b.onHost(h2, unlike)
	b.noHost(b.moves(unlike, h2))
	beside := b.asks(schema.InsertServerHintsParams{SameHost: at(two)})
	b.onHost(h2, beside)
	b.noHost(b.moves(beside, h2))

	homeless := b.asks(schema.InsertServerHintsParams{})
	b.noHost(b.asks(schema.InsertServerHintsParams{SameHost: at(homeless)}))
	b.Exec("UPDATE servers SET deleted_at = now() WHERE id = $1", two.Server)
	b.onHost(h1, b.moves(beside, h2))

	asked := b.server(compute.OpCreate)
	require.NoError(t, b.Q.InsertServerHints(b.Ctx, schema.InsertServerHintsParams{
		ServerID: asked.Server, HostID: &h2, RequestedBy: asked.Operation, DifferentHost: []uuid.UUID{}, SameHost: []uuid.UUID{},
	}))
	in := placement.ClaimInput{OperationInput: asked, Plan: plan(1)}
	b.onHost(h2, in)
	b.onHost(h1, b.moves(in, h2))
	nowhere := b.asks(schema.InsertServerHintsParams{})
	b.Exec("UPDATE server_hints SET host_id = gen_random_uuid(), requested_by = $2 WHERE server_id = $1", nowhere.Server, string(nowhere.Operation))
	b.noHost(nowhere)
}
