package record

import (
	"context"
	"time"

	"strongroom/compute"
	"strongroom/schema"
)

// Book is the ledger's side of the audit: what should exist, and on which hosts.
type Book struct {
	At     time.Time             `json:"at"` // when it was read, by the database's clock
	Hosts  []AuditHost           `json:"hosts"`
	Things []compute.LedgerEntry `json:"things"`
	// Keys, Images and Objects are the projects to look for secrets, for images and for
	// objects in. Objects are the state of vTPMs, so those without any have none.
	Keys    []compute.Access `json:"keys,omitempty"`
	Images  []compute.Access `json:"images,omitempty"`
	Objects []compute.Access `json:"objects,omitempty"`
	// Gone are things that went off the books since LedgerInput.Since.
	Gone []compute.Thing `json:"gone,omitempty"`
}

// LedgerInput asks for the books. Since asks also for what went off them.
type LedgerInput struct {
	Since *time.Time `json:"since,omitempty"`
}

// AuditHost is a host that the audit asks.
type AuditHost struct {
	ID   compute.HostID `json:"id"`
	Name string         `json:"name"`
	Up   bool           `json:"up"`
}

// commitTime is how long before its commit a transaction may have begun. A row
// carries the time of the beginning.
const commitTime = time.Minute

// Ledger is the activity record.Ledger.
func (a *Activities) Ledger(ctx context.Context, in LedgerInput) (Book, error) {
	var out Book
	err := a.tx(ctx, func(q *schema.Queries) error {
		var err error
		if out.At, err = q.Now(ctx); err != nil {
			return err
		}
		if out.Hosts, err = auditHosts(ctx, q); err != nil {
			return err
		}
		if out.Things, err = openThings(ctx, q); err != nil {
			return err
		}
		if in.Since == nil {
			return out.findProjects(ctx, q)
		}
		rows, err := q.ThingsReleasedSince(ctx, in.Since.Add(-commitTime))
		for _, row := range rows {
			out.Gone = append(out.Gone, Thing(row))
		}
		return err
	})
	return out, err
}

// findProjects finds where to look for what services keep project by project.
func (b *Book) findProjects(ctx context.Context, q *schema.Queries) error {
	trusts, err := q.Trusts(ctx)
	if err != nil {
		return err
	}
	for _, find := range []struct {
		kind compute.ThingKind
		in   *[]compute.Access
	}{
		{compute.ThingKeySecret, &b.Keys}, {compute.ThingImage, &b.Images}, {compute.ThingTPMState, &b.Objects},
	} {
		if *find.in, err = projectsWith(ctx, q, find.kind, trusts); err != nil {
			return err
		}
	}
	return nil
}

func auditHosts(ctx context.Context, q *schema.Queries) ([]AuditHost, error) {
	var out []AuditHost
	rows, err := q.HostIDs(ctx)
	for _, h := range rows {
		view := compute.Host{LastSeen: h.LastSeen, ForcedDown: h.ForcedDown}
		out = append(out, AuditHost{ID: h.ID, Name: h.Name, Up: view.Up(time.Now())})
	}
	return out, err
}

func openThings(ctx context.Context, q *schema.Queries) ([]compute.LedgerEntry, error) {
	var out []compute.LedgerEntry
	rows, err := q.OpenThings(ctx)
	for _, row := range rows {
		out = append(out, compute.LedgerEntry{Thing: Thing(row.Ledger), ServerDeleted: row.ServerDeleted, Busy: row.CurrentOperation != ""})
	}
	return out, err
}

// projectsWith gives the projects that have things of a kind, each with the
// credentials with which it can be looked into.
func projectsWith(ctx context.Context, q *schema.Queries, kind compute.ThingKind, trusts []schema.TrustsRow) ([]compute.Access, error) {
	var out []compute.Access
	ids, err := q.ProjectsWith(ctx, kind)
	for _, id := range ids {
		p := compute.Access{Project: id}
		if id == compute.DeploymentProject {
			p.Credentials = []compute.Credential{compute.DeploymentCredential()}
		} else {
			p.Credentials = []compute.Credential{compute.MemberCredential(id)}
		}
		for _, t := range trusts {
			if t.ProjectID == id {
				p.Credentials = append(p.Credentials, compute.Credential{ID: t.ID, ProjectID: t.ProjectID, UserID: t.UserID})
			}
		}
		out = append(out, p)
	}
	return out, err
}
