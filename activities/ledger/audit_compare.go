package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
	"strongroom/schema/fence"
)

// The comparison.
var (
	// NoteSeen notes a page of what exists, and gives what of it is not on the ledger; of the audit of a project, what it had.
	NoteSeen = durable.Activity[NoteSeenInput, NoteSeenResult]{
		Name: "ledger.NoteSeen", Queue: durable.RecordQueue,
		Summary: func(in NoteSeenInput) string { return fmt.Sprintf("compare %d things that exist", len(in.Seen)) },
	}
	// NoteLooked notes which projects of a place were listed completely.
	NoteLooked = durable.Activity[NoteLookedInput, durable.None]{
		Name: "ledger.NoteLooked", Queue: durable.RecordQueue,
		Summary: func(in NoteLookedInput) string {
			if slices.Contains(in.Projects, compute.LookedAll) {
				return "note that all of " + in.Place + " was looked at"
			}
			return fmt.Sprintf("note that %d projects of %s were looked at", len(in.Projects), in.Place)
		},
	}
	// Differences gives the findings about rows of the ledger, page by page.
	Differences = durable.Activity[DifferencesInput, DifferencesResult]{
		Name: "ledger.Differences", Queue: durable.RecordQueue,
		Summary: func(DifferencesInput) string { return "compare the ledger with what was seen" },
	}
)

// commitTime is how long before its commit a transaction may have begun. A row
// carries the time of the beginning.
const commitTime = time.Minute

// NoteSeenInput is a page of what exists at a place (compute.SeenResult).
type NoteSeenInput struct {
	Audit   uuid.UUID      `json:"audit"`
	Place   string         `json:"place"`
	Project string         `json:"project,omitempty"` // in which all of it was seen; "": nobody knows
	Seen    []compute.Seen `json:"seen,omitempty"`
}

// NoteSeenResult is what of a page is not on the ledger, sorted.
type NoteSeenResult struct {
	Unowned []compute.Finding `json:"unowned,omitempty"`
	More    int               `json:"more,omitempty"` // how many there are besides
}

// NoteSeen is the activity ledger.NoteSeen. A row comes before its thing and goes after
// it, so whatever was seen is on the ledger now, or was released since the audit began.
func (a *Activities) NoteSeen(ctx context.Context, in NoteSeenInput) (NoteSeenResult, error) {
	names := map[compute.ThingKind][]string{}
	for _, s := range in.Seen {
		if !slices.Contains(names[s.Kind], s.Name) {
			names[s.Kind] = append(names[s.Kind], s.Name)
		}
	}
	var out NoteSeenResult
	err := fence.Transaction(ctx, a.Pool, func(q *schema.Queries) error {
		audit, err := q.GetAudit(ctx, in.Audit)
		if err != nil {
			return err
		}
		for kind, names := range names {
			unknown, err := noteSeen(ctx, q, in, kind, names, audit.StartedAt)
			if err != nil {
				return err
			}
			for _, name := range unknown {
				out.Unowned = append(out.Unowned, compute.Finding{Kind: kind, Place: in.Place, Name: name, Project: in.Project, What: compute.Unowned})
			}
		}
		if err := findProjects(ctx, q, out.Unowned); err != nil {
			return err
		}
		out.Unowned = slices.DeleteFunc(out.Unowned, func(f compute.Finding) bool { return audit.ProjectID != "" && f.Project != audit.ProjectID })
		return nil
	})
	slices.SortFunc(out.Unowned, compute.ByPlace)
	limit := resultLimit()
	told := slices.IndexFunc(out.Unowned, func(f compute.Finding) bool { return !limit.Take(f) })
	if told >= 0 {
		out.Unowned, out.More = out.Unowned[:told], len(out.Unowned)-told
	}
	return out, err
}

// noteSeen notes those of the names that are on the ledger and gives the others.
func noteSeen(ctx context.Context, q *schema.Queries, in NoteSeenInput, kind compute.ThingKind, names []string, began time.Time) ([]string, error) {
	places, err := placesOf(ctx, q, in.Place, kind)
	if err != nil {
		return nil, err
	}
	rows, err := q.OpenThingsNamed(ctx, schema.OpenThingsNamedParams{Places: places, Kind: kind, Names: names})
	if err != nil {
		return nil, err
	}
	known, ids := map[string]bool{}, make([]uuid.UUID, 0, len(rows))
	for _, row := range rows {
		known[row.Name] = true
		ids = append(ids, row.ID)
	}
	if err := q.NoteSeen(ctx, schema.NoteSeenParams{AuditID: in.Audit, Things: ids}); err != nil {
		return nil, err
	}
	unknown := slices.DeleteFunc(names, func(name string) bool { return known[name] })
	if len(unknown) == 0 {
		return nil, nil
	}
	gone, err := q.NamesReleasedSince(ctx, schema.NamesReleasedSinceParams{
		Since: began.Add(-commitTime), Places: places, Kind: kind, Names: unknown,
	})
	unknown = slices.DeleteFunc(unknown, func(name string) bool { return slices.Contains(gone, name) })
	if err != nil || !compute.ComesLate(kind) || len(unknown) == 0 {
		return unknown, err
	}
	late, err := q.WaitAgain(ctx, schema.WaitAgainParams{Place: in.Place, Kind: kind, Names: unknown})
	return slices.DeleteFunc(unknown, func(name string) bool { return slices.Contains(late, name) }), err
}

// findProjects notes in findings whose they are, where their names have a server that is on record.
func findProjects(ctx context.Context, q *schema.Queries, findings []compute.Finding) error {
	var servers []uuid.UUID
	for _, f := range findings {
		if server, ok := f.Server(); ok {
			servers = append(servers, server.UUID)
		}
	}
	if len(servers) == 0 {
		return nil
	}
	rows, err := q.ProjectsOfServers(ctx, servers)
	projects := make(map[compute.ServerID]string, len(rows))
	for _, row := range rows {
		projects[row.ID] = row.ProjectID
	}
	for i, f := range findings {
		if server, ok := f.Server(); ok {
			findings[i].Project = cmp.Or(projects[server], f.Project)
		}
	}
	return err
}

// placesOf are the places on the ledger of which a place shows things: the states of vTPMs (TPM-39) and the files that a
// host sees are those of all hosts that share their storage.
func placesOf(ctx context.Context, q *schema.Queries, place string, kind compute.ThingKind) ([]string, error) {
	places := []string{place}
	host, onHost := compute.Thing{Place: place}.Host()
	peersOf := map[compute.ThingKind]func(context.Context, compute.HostID) ([]compute.HostID, error){
		compute.ThingTPMState: q.TPMPeers, compute.ThingDiskFile: q.DiskPeers,
	}[kind]
	if peersOf == nil || !onHost {
		return places, nil
	}
	peers, err := peersOf(ctx, host)
	for _, peer := range peers {
		places = append(places, peer.String())
	}
	return places, err
}

// NoteLookedInput names the projects of a place that were listed completely;
// compute.LookedAll is the whole place.
type NoteLookedInput struct {
	Audit    uuid.UUID `json:"audit"`
	Place    string    `json:"place"`
	Projects []string  `json:"projects,omitempty"`
}

// NoteLooked is the activity ledger.NoteLooked.
func (a *Activities) NoteLooked(ctx context.Context, in NoteLookedInput) error {
	return fence.Transaction(ctx, a.Pool, func(q *schema.Queries) error {
		return q.NoteLooked(ctx, schema.NoteLookedParams{AuditID: in.Audit, Place: in.Place, Projects: in.Projects})
	})
}

// How many rows one call of Differences reads.
const (
	differencesRead  = 1000
	differencesPages = 5
)

// Cursor is a place on the ledger between two pages.
type Cursor struct {
	Place string            `json:"place"`
	Kind  compute.ThingKind `json:"kind"`
	Name  string            `json:"name"`
}

// DifferencesInput asks for a page of differences. After is where the page before ended;
// nil: from the start.
type DifferencesInput struct {
	Audit uuid.UUID `json:"audit"`
	After *Cursor   `json:"after,omitempty"`
}

// DifferencesResult is a page of differences, sorted by place, kind and name.
type DifferencesResult struct {
	Findings []compute.Finding `json:"findings,omitempty"`
	Rows     int               `json:"rows"`           // how many were compared, without those handed over
	Next     *Cursor           `json:"next,omitempty"` // nil: that was the last page
}

// Differences is the activity ledger.Differences. It leaves out what changed since the
// audit began. NotFound: the audit was ended.
func (a *Activities) Differences(ctx context.Context, in DifferencesInput) (DifferencesResult, error) {
	var out DifferencesResult
	err := fence.Transaction(ctx, a.Pool, func(q *schema.Queries) error {
		if _, err := q.GetAudit(ctx, in.Audit); err != nil {
			return err
		}
		limit := resultLimit()
		out.Next = in.After
		if out.Next == nil {
			out.Next = &Cursor{}
		}
		for range differencesPages {
			rows, err := q.AuditPage(ctx, schema.AuditPageParams{
				AuditID: in.Audit, Place: out.Next.Place, Kind: string(out.Next.Kind), Name: out.Next.Name, Most: differencesRead,
			})
			if err != nil {
				return err
			}
			if !out.add(rows, &limit) {
				return nil
			}
			if len(rows) < differencesRead {
				out.Next = nil
				return nil
			}
		}
		return nil
	})
	return out, err
}

// add judges rows until the limit of the payload is reached, and reports whether it is not.
func (r *DifferencesResult) add(rows []schema.AuditPageRow, limit *PayloadLimit) bool {
	for _, row := range rows {
		entry := compute.LedgerEntry{Thing: row.Ledger.Thing(""), Project: row.Project, OwnerDeleted: row.OwnerDeleted, Busy: row.Busy, Kept: row.Kept, HostGivenUp: row.HostGivenUp}
		if row.Held {
			entry.Kept = compute.HeldShares
		}
		if verdict := entry.Judge(row.Seen, row.Looked); verdict != "" {
			found := short(entry.Finding(verdict))
			if !limit.Take(found) && len(r.Findings) > 0 {
				return false
			}
			r.Findings = append(r.Findings, found)
		}
		if entry.State != compute.ThingHandedOver {
			r.Rows++
		}
		r.Next = &Cursor{Place: row.Ledger.Place, Kind: row.Ledger.Kind, Name: row.Ledger.Name}
	}
	return true
}
