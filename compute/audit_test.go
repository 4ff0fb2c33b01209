package compute_test

import (
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

var auditServer = compute.ServerID{UUID: uuid.MustParse("5f0f3a52-0000-4000-8000-000000000001")}

func entry(name string, state compute.ThingState, change func(*compute.LedgerEntry)) compute.LedgerEntry {
	e := compute.LedgerEntry{Thing: compute.Thing{Kind: compute.ThingDiskFile, Place: "h1", Name: name, Owner: compute.ServerOwner(auditServer), State: state}}
	if change != nil {
		change(&e)
	}
	return e
}

func sighting(name string) compute.Sighting {
	return compute.Sighting{Kind: compute.ThingDiskFile, Place: "h1", Name: name}
}

func finding(name string, what compute.Verdict) compute.Finding {
	return compute.Finding{Kind: compute.ThingDiskFile, Place: "h1", Name: name, What: what, Owner: compute.ServerOwner(auditServer).String()}
}

func busy(e *compute.LedgerEntry)    { e.Busy = true }
func deleted(e *compute.LedgerEntry) { e.OwnerDeleted = true }
func held(e *compute.LedgerEntry)    { e.Kept = compute.HeldShares }

// blocked is a thing that waits.
func blocked(name string, by compute.Blocker) compute.LedgerEntry {
	e := entry(name, compute.ThingPresent, nil)
	e.Thing = e.Waits(by, "why")
	return e
}

func findingWhy(name string, what compute.Verdict) compute.Finding {
	f := finding(name, what)
	f.Why = "why"
	return f
}

func TestJudge(t *testing.T) {
	t.Parallel()
	h1 := map[string]bool{"h1": true}
	for _, tt := range []struct {
		name   string
		ledger []compute.LedgerEntry
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
		{
			"its server is gone and it is not", []compute.LedgerEntry{entry("a", compute.ThingPresent, deleted)}, []compute.Sighting{sighting("a")}, h1,
			[]compute.Finding{finding("a", compute.Leftover)},
		},
		{
			"both are gone and the ledger say otherwise", []compute.LedgerEntry{entry("a", compute.ThingPresent, deleted)}, nil, h1,
			[]compute.Finding{finding("a", compute.Leftover)},
		},
		{
			"a leftover needs no look", []compute.LedgerEntry{entry("a", compute.ThingIntended, deleted)}, nil, nil,
			[]compute.Finding{finding("a", compute.Leftover)},
		},
		{
			"waiting, whatever for", []compute.LedgerEntry{
				blocked("a", compute.BlockedByCredential), blocked("b", compute.BlockedByHost), blocked("c", compute.BlockedByTime),
				blocked("d", compute.BlockedByThings), blocked("e", compute.BlockedByError),
			}, nil, h1, []compute.Finding{
				findingWhy("a", compute.Waiting), findingWhy("b", compute.Stranded), findingWhy("c", compute.Late), findingWhy("d", compute.Behind), findingWhy("e", compute.Failing),
			},
		},
		{
			"a share that is missed with many others", []compute.LedgerEntry{
				entry("a", compute.ThingPresent, held), entry("b", compute.ThingPresent, func(e *compute.LedgerEntry) { held(e); busy(e) }),
			}, nil, h1, []compute.Finding{{
				Kind: compute.ThingDiskFile, Place: "h1", Name: "a", What: compute.Held, Owner: compute.ServerOwner(auditServer).String(), Why: compute.HeldShares,
			}},
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
			[]compute.Finding{finding("a", compute.Missing)},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []compute.Finding
			for _, e := range tt.ledger {
				seen := slices.Contains(tt.world, compute.Sighting{Kind: e.Kind, Place: e.Place, Name: e.Name})
				if verdict := e.Judge(seen, tt.looked[e.Place]); verdict != "" {
					got = append(got, e.Finding(verdict))
				}
			}
			require.Equal(t, tt.want, got)
		})
	}
}
