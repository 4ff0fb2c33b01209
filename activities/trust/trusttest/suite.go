// Package trusttest is the suite that every adapter of trust.Keeper passes.
package trusttest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/trust"
	"strongroom/compute"
)

// Harness is an adapter ready to be tried.
type Harness struct {
	Keeper trust.Keeper
	Again  trust.Keeper       // a second client of the same keeper, as another process would have
	Owner  compute.Credential // a user who may delegate what he may do in his project
	Other  compute.Credential // another one, in another project
}

// bench is one test's harness and words.
type bench struct {
	*testing.T
	Harness
	ctx context.Context
}

// Run runs the suite. open is called once per test and cleans up after itself.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	for name, test := range map[string]func(b bench){
		"create is idempotent by name":       createTwice,
		"create at once makes one":           createAtOnce,
		"create refuses nonsense":            createNonsense,
		"names are per project":              namesPerProject,
		"delete is idempotent":               deleteTwice,
		"delete by name or by id":            deleteByEither,
		"another project is refused":         otherProject,
		"delete at once with create settles": deleteAtOnce,
		"a name is free again after delete":  recreate,
		"list in parts misses nothing":       listInParts,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(bench{T: t, Harness: open(t), ctx: t.Context()})
		})
	}
}

func (b bench) create(cred compute.Credential, name string) string {
	b.Helper()
	id, err := b.Keeper.Create(b.ctx, trust.CreateInput{Credential: cred, Name: name})
	require.NoError(b, err)
	require.NotEmpty(b, id)
	b.Cleanup(func() {
		require.NoError(b, b.Keeper.Delete(context.Background(), trust.DeleteInput{Credential: cred, Name: name, ID: id}))
	})
	return id
}

// names gives the ids of the trusts of a project.
func (b bench) names(cred compute.Credential) map[string]string {
	b.Helper()
	out, _ := b.listed(cred, trust.ListInput{})
	return out
}

// listed gives the ids of the trusts of a project that a list has from a place on, and how
// many parts the list has.
func (b bench) listed(cred compute.Credential, in trust.ListInput) (ids map[string]string, parts int) {
	b.Helper()
	ids = map[string]string{}
	for last := in.Marker; ; {
		got, err := b.Again.List(b.ctx, in)
		require.NoError(b, err)
		for _, item := range got.Items {
			require.Greater(b, item.ID, last, "they come in the order of their ids")
			last = item.ID
			if item.ProjectID == cred.ProjectID {
				require.NotContains(b, ids, item.Name, "two trusts of one name")
				require.Equal(b, cred.UserID, item.UserID)
				ids[item.Name] = item.ID
			}
		}
		if in.Limit > 0 {
			require.LessOrEqual(b, len(got.Items), in.Limit)
		}
		parts++
		if in.Marker = got.Next; in.Marker == "" {
			return ids, parts
		}
	}
}

// What is there all the time is listed, whatever else comes and goes between two parts.
func listInParts(b bench) {
	made := map[string]string{}
	for i := range 12 {
		name := fmt.Sprintf("one of many %02d", i)
		made[name] = b.create(b.Owner, name)
	}
	for _, limit := range []int{5, 12} {
		got, parts := b.listed(b.Owner, trust.ListInput{Limit: limit})
		require.Equal(b, made, got)
		require.GreaterOrEqual(b, parts, len(made)/limit)
	}
	first, err := b.Keeper.List(b.ctx, trust.ListInput{Limit: 6})
	require.NoError(b, err)
	require.Len(b, first.Items, 6)
	for name, id := range made {
		if id <= first.Next { // the last one that was given, too
			require.NoError(b, b.Keeper.Delete(b.ctx, trust.DeleteInput{Credential: b.Owner, Name: name, ID: id}))
			delete(made, name)
		}
	}
	b.create(b.Owner, "made meanwhile")
	rest, _ := b.listed(b.Owner, trust.ListInput{Limit: 6, Marker: first.Next})
	for name, id := range made {
		require.Equal(b, id, rest[name], name)
	}
}

// atOnce calls fn n times together, half through each client.
func (b bench) atOnce(n int, fn func(i int, k trust.Keeper)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		k := b.Keeper
		if i%2 == 1 {
			k = b.Again
		}
		wg.Go(func() {
			<-start
			fn(i, k)
		})
	}
	close(start)
	wg.Wait()
}

func createTwice(b bench) {
	id, another := b.create(b.Owner, "twice"), b.create(b.Owner, "once")
	require.NotEqual(b, id, another)
	for _, k := range []trust.Keeper{b.Keeper, b.Again} {
		again, err := k.Create(b.ctx, trust.CreateInput{Credential: b.Owner, Name: "twice"})
		require.NoError(b, err)
		require.Equal(b, id, again)
	}
	require.Equal(b, map[string]string{"twice": id, "once": another}, b.names(b.Owner))
}

func createAtOnce(b bench) {
	ids, errs := make([]string, 12), make([]error, 12)
	b.atOnce(len(ids), func(i int, k trust.Keeper) {
		ids[i], errs[i] = k.Create(b.ctx, trust.CreateInput{Credential: b.Owner, Name: "at once"})
	})
	for i := range ids {
		require.NoError(b, errs[i])
		require.Equal(b, ids[0], ids[i])
	}
	require.Equal(b, map[string]string{"at once": ids[0]}, b.names(b.Owner))
	require.NoError(b, b.Keeper.Delete(b.ctx, trust.DeleteInput{Credential: b.Owner, Name: "at once", ID: ids[0]}))
	require.Empty(b, b.names(b.Owner))
}

func createNonsense(b bench) {
	for what, in := range map[string]trust.CreateInput{
		"no project":        {Name: "nonsense", Credential: compute.Credential{ID: b.Owner.ID, UserID: b.Owner.UserID}},
		"no user":           {Name: "nonsense", Credential: compute.Credential{ID: b.Owner.ID, ProjectID: b.Owner.ProjectID}},
		"no name":           {Credential: b.Owner},
		"a name of no text": {Credential: b.Owner, Name: "\xff\xfe"},
	} {
		_, err := b.Keeper.Create(b.ctx, in)
		require.Equal(b, compute.Invalid, compute.KindOf(err), "%s: %v", what, err)
	}
	require.Empty(b, b.names(b.Owner))
}

func namesPerProject(b bench) {
	mine, theirs := b.create(b.Owner, "shared"), b.create(b.Other, "shared")
	require.NotEqual(b, mine, theirs)
	require.NoError(b, b.Keeper.Delete(b.ctx, trust.DeleteInput{Credential: b.Owner, Name: "shared"}))
	require.Empty(b, b.names(b.Owner))
	require.Equal(b, theirs, b.names(b.Other)["shared"])
}

func deleteTwice(b bench) {
	in := trust.DeleteInput{Credential: b.Owner, Name: "delete twice"}
	in.ID = b.create(b.Owner, in.Name)
	require.NoError(b, b.Keeper.Delete(b.ctx, in))
	require.Empty(b, b.names(b.Owner))
	require.NoError(b, b.Keeper.Delete(b.ctx, in))
	require.NoError(b, b.Again.Delete(b.ctx, in))
	require.NoError(b, b.Again.Delete(b.ctx, trust.DeleteInput{Credential: b.Owner, Name: "never was"}))
	require.NoError(b, b.Again.Delete(b.ctx, trust.DeleteInput{Credential: b.Owner, Name: "never was", ID: "00000000000000000000000000000000"}))
}

func deleteByEither(b bench) {
	b.create(b.Owner, "by name")
	id, stays := b.create(b.Owner, "by id"), b.create(b.Owner, "stays")
	require.NoError(b, b.Keeper.Delete(b.ctx, trust.DeleteInput{Credential: b.Owner, Name: "by name"}))
	require.NoError(b, b.Keeper.Delete(b.ctx, trust.DeleteInput{Credential: b.Owner, Name: "another", ID: id}))
	require.Equal(b, map[string]string{"stays": stays}, b.names(b.Owner))
}

func otherProject(b bench) {
	id := b.create(b.Owner, "mine")
	for _, stranger := range []compute.Credential{b.Other, {}} {
		for _, name := range []string{"mine", "wrong"} {
			err := b.Keeper.Delete(b.ctx, trust.DeleteInput{Credential: stranger, Name: name, ID: id})
			require.Equal(b, compute.Forbidden, compute.KindOf(err), "%v", err)
		}
	}
	require.NoError(b, b.Keeper.Delete(b.ctx, trust.DeleteInput{Credential: b.Other, Name: "mine"}))
	require.Equal(b, map[string]string{"mine": id}, b.names(b.Owner))
	require.NotContains(b, b.names(b.Other), "mine")
}

// deleteAtOnce: whichever comes last, there is one trust or none, and one more
// delete leaves none.
func deleteAtOnce(b bench) {
	errs := make([]error, 12)
	b.atOnce(len(errs), func(i int, k trust.Keeper) {
		if i%3 == 0 {
			_, errs[i] = k.Create(b.ctx, trust.CreateInput{Credential: b.Owner, Name: "settles"})
			return
		}
		errs[i] = k.Delete(b.ctx, trust.DeleteInput{Credential: b.Owner, Name: "settles"})
	})
	for _, err := range errs {
		require.NoError(b, err)
	}
	b.names(b.Owner)
	require.NoError(b, b.Keeper.Delete(b.ctx, trust.DeleteInput{Credential: b.Owner, Name: "settles"}))
	require.Empty(b, b.names(b.Owner))
}

func recreate(b bench) {
	for range 3 {
		id := b.create(b.Owner, "again")
		require.Equal(b, map[string]string{"again": id}, b.names(b.Owner))
		require.NoError(b, b.Keeper.Delete(b.ctx, trust.DeleteInput{Credential: b.Owner, Name: "again"}))
		require.Empty(b, b.names(b.Owner))
	}
}
