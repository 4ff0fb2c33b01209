package compute_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// secretsOf are things whose names are numbers below a count, with a name in front.
func secretsOf(owner string, count int) []compute.Seen {
	var out []compute.Seen
	for i := range count {
		out = append(out, compute.Seen{Kind: compute.ThingKeySecret, Name: fmt.Sprintf("%s %05d", owner, i)})
	}
	return out
}

// partOf is a service's list, which gives at most 100 things at once.
func partOf(all []compute.Seen, marker string, limit int) ([]compute.Seen, string, error) {
	from, _ := strconv.Atoi(marker)
	to := min(from+min(limit, 100), len(all))
	if to == len(all) {
		return all[from:], "", nil
	}
	return all[from:to], strconv.Itoa(to), nil
}

func TestSeenOfAWholePlace(t *testing.T) {
	t.Parallel()
	all := secretsOf("x", 2*compute.SeenPage+7)
	list := func(marker string, limit int) ([]compute.Seen, string, error) { return partOf(all, marker, limit) }
	var got []compute.Seen
	var in compute.SeenInput
	for _, want := range []int{compute.SeenPage, compute.SeenPage, 7} {
		require.True(t, in.IsWhole())
		page, err := in.Whole(list)
		require.NoError(t, err)
		require.Len(t, page.Seen, want)
		require.Equal(t, want == 7, page.Next == "")
		require.Equal(t, want == 7, slices.Contains(page.Looked, compute.LookedAll))
		got, in.Page = append(got, page.Seen...), page.Next
	}
	require.Equal(t, all, got)
}

// A place that shows little of what it has at once still ends a page.
func TestSeenEndsAPage(t *testing.T) {
	t.Parallel()
	calls := 0
	nothing := func(marker string, _ int) ([]compute.Seen, string, error) {
		calls++
		at, _ := strconv.Atoi(marker)
		return nil, strconv.Itoa(at + 1), nil
	}
	page, err := compute.SeenInput{}.Whole(nothing)
	require.NoError(t, err)
	require.Empty(t, page.Looked)
	require.Equal(t, "*/"+strconv.Itoa(calls), page.Next)
	whole := calls

	in := compute.SeenInput{Projects: []compute.Access{{Project: "p", Credentials: []compute.Credential{{}}}}}
	page, err = in.ByProject(func(_ compute.Credential, marker string, limit int) ([]compute.Seen, string, error) {
		return nothing(marker, limit)
	})
	require.NoError(t, err)
	require.Equal(t, "0/"+strconv.Itoa(calls-whole), page.Next)
	require.Less(t, calls, 200)
}

func TestSeenByProject(t *testing.T) {
	t.Parallel()
	refused, good := compute.Credential{ID: uuid.New()}, compute.Credential{ID: uuid.New()}
	has := map[string][]compute.Seen{"a": secretsOf("a", 950), "b": secretsOf("b", 130), "empty": nil}
	var in compute.SeenInput
	for _, name := range []string{"a", "empty", "closed", "nobody's", "b"} {
		in.Projects = append(in.Projects, compute.Access{Project: name, Credentials: []compute.Credential{
			{ID: refused.ID, ProjectID: name}, {ID: good.ID, ProjectID: name}}})
	}
	in.Projects[2].Credentials = in.Projects[2].Credentials[:1]
	in.Projects[3].Credentials = nil
	list := func(cred compute.Credential, marker string, limit int) ([]compute.Seen, string, error) {
		if cred.ID == refused.ID {
			return nil, "", compute.Errorf(compute.Forbidden, "no")
		}
		return partOf(has[cred.ProjectID], marker, limit)
	}
	first, err := in.ByProject(list)
	require.NoError(t, err)
	require.Len(t, first.Seen, compute.SeenPage)
	require.Equal(t, []string{"a", "empty"}, first.Looked)
	require.Equal(t, []string{"closed", "nobody's"}, first.Closed)
	require.Equal(t, "4/50", first.Next)
	in.Page = first.Next
	require.False(t, in.IsWhole())
	second, err := in.ByProject(list)
	require.NoError(t, err)
	require.Equal(t, compute.SeenResult{Seen: has["b"][50:], Looked: []string{"b"}}, second)
	require.Equal(t, append(slices.Clone(has["a"]), has["b"]...), append(first.Seen, second.Seen...))

	_, err = in.ByProject(func(compute.Credential, string, int) ([]compute.Seen, string, error) {
		return nil, "", compute.Errorf(compute.Unavailable, "later")
	})
	require.Equal(t, compute.Unavailable, compute.KindOf(err), "what is broken is not closed: %v", err)
	for _, page := range []string{"x", "*/1", "-1/", "1"} {
		in.Page = page
		_, err = in.ByProject(list)
		require.Equal(t, compute.Invalid, compute.KindOf(err), "%q: %v", page, err)
	}
}

// What goes or comes between two pages of a place moves none of the others.
func TestPageOf(t *testing.T) {
	t.Parallel()
	all := append(secretsOf("x", compute.SeenPage+10), compute.Seen{Kind: compute.ThingDomain, Name: "last/ of all"})
	all = append(all, all[5]) // twice
	slices.Reverse(all)
	first := compute.SeenInput{}.PageOf(slices.Clone(all))
	require.Len(t, first.Seen, compute.SeenPage)
	require.Empty(t, first.Looked)
	require.Equal(t, compute.ThingDomain, first.Seen[0].Kind)
	last := first.Seen[compute.SeenPage-1]
	for name, change := range map[string]func() []compute.Seen{
		"nothing": func() []compute.Seen { return slices.Clone(all) },
		"the last one goes": func() []compute.Seen {
			return slices.DeleteFunc(slices.Clone(all), func(s compute.Seen) bool { return s == last })
		},
		"one comes": func() []compute.Seen {
			return append(slices.Clone(all), compute.Seen{Kind: compute.ThingDomain, Name: "a"})
		},
	} {
		second := compute.SeenInput{Page: first.Next}.PageOf(change())
		require.Equal(t, secretsOf("x", compute.SeenPage+10)[compute.SeenPage-1:], second.Seen, name)
		require.Equal(t, []string{compute.LookedAll}, second.Looked, name)
		require.Empty(t, second.Next, name)
	}
	require.Equal(t, compute.SeenResult{Looked: []string{compute.LookedAll}}, compute.SeenInput{}.PageOf(nil))
}
