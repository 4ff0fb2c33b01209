package compute

import (
	"cmp"
	"slices"
)

// LedgerEntry is an open ledger row with what the audit must know of its server.
type LedgerEntry struct {
	Thing
	ServerDeleted bool `json:"server_deleted"`
	Busy          bool `json:"busy"` // an operation is at work on the server
}

// Sighting is something that was seen in the world.
type Sighting struct {
	Kind  ThingKind `json:"kind"`
	Place string    `json:"place"`
	Name  string    `json:"name"`
}

// Finding is one difference between the ledger and the world.
type Finding struct {
	Kind   ThingKind `json:"kind"`
	Place  string    `json:"place"`
	Name   string    `json:"name"`
	Server string    `json:"server,omitempty"`
	What   Verdict   `json:"what"`
	Why    string    `json:"why,omitempty"`
}

// Verdict says what is wrong with a thing.
type Verdict string

// The verdicts of the audit.
const (
	Unowned  Verdict = "unowned"  // it exists and the ledger does not know it
	Leftover Verdict = "leftover" // its server is deleted and it is still on the books
	Missing  Verdict = "missing"  // the books say it is there and it is not
	Unsure   Verdict = "unsure"   // it was meant to be made, nobody is at work on it, and nobody knows whether it is there
	Waiting  Verdict = "waiting for a credential"
	Stranded Verdict = "waiting for its host"
)

// Looked names what was looked at when it is less than a whole place: what one
// project has there.
func Looked(place, projectID string) string { return place + "/" + projectID }

// CompareLedger finds the differences between the books and the world at the
// places, or parts of them (Looked), that were looked at. Servers with an
// operation at work are left out: their things are in motion. The result is
// sorted.
func CompareLedger(books []LedgerEntry, world []Sighting, looked map[string]bool) []Finding {
	seen := map[Sighting]bool{}
	for _, s := range world {
		seen[s] = true
	}
	known := map[Sighting]bool{}
	var out []Finding
	for _, e := range books {
		s := Sighting{Kind: e.Kind, Place: e.Place, Name: e.Name}
		known[s] = true
		if e.Busy || e.State == ThingGiven {
			continue
		}
		there := looked[e.Place] || looked[Looked(e.Place, e.Credential.ProjectID)]
		if verdict := judge(e, seen[s], there); verdict != "" {
			out = append(out, Finding{Kind: e.Kind, Place: e.Place, Name: e.Name, Server: e.Server.String(), What: verdict, Why: e.Refused})
		}
	}
	for _, s := range world {
		if !known[s] {
			known[s] = true // seen twice, told once
			out = append(out, Finding{Kind: s.Kind, Place: s.Place, Name: s.Name, What: Unowned})
		}
	}
	slices.SortFunc(out, byPlace)
	return out
}

func judge(e LedgerEntry, seen, looked bool) Verdict {
	_, onHost := e.Host()
	switch {
	case e.State == ThingWaiting && onHost:
		return Stranded
	case e.State == ThingWaiting:
		return Waiting
	case e.ServerDeleted:
		return Leftover
	case !looked:
		return ""
	case e.State == ThingPresent && !seen:
		return Missing
	case e.State == ThingIntended:
		return Unsure
	}
	return ""
}

func byPlace(a, b Finding) int {
	return cmp.Or(cmp.Compare(a.Place, b.Place), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
}
