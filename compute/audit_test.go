package compute_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"strongroom/compute"
)

var auditServer = compute.ServerID{UUID: uuid.MustParse("5f0f3a52-0000-4000-8000-000000000001")}

func entry(name string, state compute.ThingState, change func(*compute.LedgerEntry)) compute.LedgerEntry {
	e := compute.LedgerEntry{Thing: compute.Thing{Kind: compute.ThingDiskFile, Place: "h1", Name: name, Server: auditServer, State: state}}
	if change != nil {
		change(&e)
	}
	return e
}

func sighting(name string) compute.Sighting {
	return compute.Sighting{Kind: compute.ThingDiskFile, Place: "h1", Name: name}
}

func finding(name string, what compute.Verdict) compute.Finding {
	f := compute.Finding{Kind: compute.ThingDiskFile, Place: "h1", Name: name, What: what}
	if what != compute.Unowned {
		f.Server = auditServer.String()
	}
	return f
}

func busy(e *compute.LedgerEntry)    { e.Busy = true }
func deleted(e *compute.LedgerEntry) { e.ServerDeleted = true }

func TestCompareLedger(t *testing.T) {
	t.Parallel()
	h1 := map[string]bool{"h1": true}
	for _, tt := range []struct {
		name   string
		books  []compute.LedgerEntry
		world  []compute.Sighting
		looked map[string]bool
		want   []compute.Finding
	}{
		{"nothing anywhere", nil, nil, h1, nil},
		{"all is well", []compute.LedgerEntry{entry("a", compute.ThingPresent, nil)}, []compute.Sighting{sighting("a")}, h1, nil},
		{"missing", []compute.LedgerEntry{entry("a", compute.ThingPresent, nil)}, nil, h1, []compute.Finding{finding("a", compute.Missing)}},
		{"not looked at", []compute.LedgerEntry{entry("a", compute.ThingPresent, nil)}, nil, nil, nil},
		{"meant to be made and there", []compute.LedgerEntry{entry("a", compute.ThingIntended, nil)}, []compute.Sighting{sighting("a")}, h1, []compute.Finding{finding("a", compute.Unsure)}},
		{"meant to be made and not there", []compute.LedgerEntry{entry("a", compute.ThingIntended, nil)}, nil, h1, []compute.Finding{finding("a", compute.Unsure)}},
		{"meant to be made, not looked at", []compute.LedgerEntry{entry("a", compute.ThingIntended, nil)}, nil, nil, nil},
		{"unowned", nil, []compute.Sighting{sighting("a")}, h1, []compute.Finding{finding("a", compute.Unowned)}},
		{"seen twice, told once", nil, []compute.Sighting{sighting("a"), sighting("a")}, h1, []compute.Finding{finding("a", compute.Unowned)}},
		{
			"its server is gone and it is not", []compute.LedgerEntry{entry("a", compute.ThingPresent, deleted)}, []compute.Sighting{sighting("a")}, h1,
			[]compute.Finding{finding("a", compute.Leftover)},
		},
		{
			"both are gone and the books say otherwise", []compute.LedgerEntry{entry("a", compute.ThingPresent, deleted)}, nil, h1,
			[]compute.Finding{finding("a", compute.Leftover)},
		},
		{
			"a leftover needs no look", []compute.LedgerEntry{entry("a", compute.ThingIntended, deleted)}, nil, nil,
			[]compute.Finding{finding("a", compute.Leftover)},
		},
		{
			"in motion", []compute.LedgerEntry{
				entry("being made", compute.ThingIntended, busy), entry("there", compute.ThingIntended, busy),
				entry("going", compute.ThingPresent, busy), entry("last", compute.ThingPresent, func(e *compute.LedgerEntry) { busy(e); deleted(e) }),
			}, []compute.Sighting{sighting("there")}, h1, nil,
		},
		{
			"the same name of another kind and at another place", []compute.LedgerEntry{entry("a", compute.ThingPresent, nil)},
			[]compute.Sighting{{Kind: compute.ThingDomain, Place: "h1", Name: "a"}, {Kind: compute.ThingDiskFile, Place: "h2", Name: "a"}},
			map[string]bool{"h1": true, "h2": true},
			[]compute.Finding{
				finding("a", compute.Missing), {Kind: compute.ThingDomain, Place: "h1", Name: "a", What: compute.Unowned},
				{Kind: compute.ThingDiskFile, Place: "h2", Name: "a", What: compute.Unowned},
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, compute.CompareLedger(tt.books, tt.world, tt.looked))
		})
	}
}

// TestCompareLedgerHasOneAnswer: it runs inside a workflow, where the order in
// which hosts answered must not matter.
func TestCompareLedgerHasOneAnswer(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c", "d", "e"}
	rapid.Check(t, func(t *rapid.T) {
		var books []compute.LedgerEntry
		var world []compute.Sighting
		for _, name := range names {
			switch rapid.IntRange(0, 4).Draw(t, name) {
			case 0:
				books = append(books, entry(name, compute.ThingPresent, nil))
			case 1:
				world = append(world, sighting(name))
			case 2:
				books, world = append(books, entry(name, compute.ThingPresent, nil)), append(world, sighting(name))
			case 3:
				books = append(books, entry(name, compute.ThingIntended, nil))
			case 4:
				books = append(books, entry(name, compute.ThingPresent, deleted))
			}
		}
		looked := map[string]bool{"h1": rapid.Bool().Draw(t, "looked")}
		want := compute.CompareLedger(books, world, looked)
		got := compute.CompareLedger(rapid.Permutation(books).Draw(t, "books"), rapid.Permutation(world).Draw(t, "world"), looked)
		if len(want) != len(got) {
			t.Fatalf("%v is not %v", got, want)
		}
		for i := range want {
			if want[i] != got[i] {
				t.Fatalf("%v is not %v", got, want)
			}
		}
	})
}
