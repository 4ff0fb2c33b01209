package ledger

import (
	"context"
	"time"

	"github.com/google/uuid"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
	"strongroom/schema/fence"
)

// An audit compares the ledger with what hosts and services have. It is made in the
// database, page by page: neither a history nor a worker's memory holds all of it (A1).
var (
	// StartAudit begins an audit.
	StartAudit = durable.Activity[StartAuditInput, StartAuditResult]{
		Name: "ledger.StartAudit", Queue: durable.RecordQueue,
		Summary: func(in StartAuditInput) string {
			if in.Project != "" {
				return "begin the audit of project " + in.Project
			}
			return "begin the audit"
		},
	}
	// Projects gives the projects in which to look for things of a kind, page by page.
	Projects = durable.Activity[ProjectsInput, ProjectsResult]{
		Name: "ledger.Projects", Queue: durable.RecordQueue,
		Summary: func(in ProjectsInput) string { return "list the projects with things of kind " + string(in.Kind) },
	}
	// Names gives the names that are on the ledger at a place, page by page, for a service
	// whose things are looked up one by one.
	Names = durable.Activity[NamesInput, NamesResult]{
		Name: "ledger.Names", Queue: durable.RecordQueue,
		Summary: func(in NamesInput) string { return "list the names of kind " + string(in.Kind) },
	}
	// EndAudit removes an audit's notes.
	EndAudit = durable.Activity[EndAuditInput, durable.None]{
		Name: "ledger.EndAudit", Queue: durable.RecordQueue,
		Summary: func(EndAuditInput) string { return "end the audit" },
	}
	// Count counts the open rows.
	Count = durable.Activity[CountInput, CountResult]{
		Name: "ledger.Count", Queue: durable.RecordQueue,
		Summary: func(CountInput) string { return "count the ledger" },
	}
)

// StartAuditInput begins an audit: of all, or of one project.
type StartAuditInput struct {
	Project string `json:"project,omitempty"`
}

// StartAuditResult is an audit that has begun, and the hosts to ask.
type StartAuditResult struct {
	Project string      `json:"project,omitempty"` // whose the audit is; "": of all
	Audit   uuid.UUID   `json:"audit"`
	At      time.Time   `json:"at"` // by the database's clock
	Hosts   []AuditHost `json:"hosts,omitempty"`
	// Long are operations that get no further, at most longAtOnce of them.
	Long []compute.Finding `json:"long,omitempty"`
}

// longAtOnce is how many operations that get no further an audit tells of: more have one cause.
const longAtOnce = 100

// AuditHost is a host that the audit asks.
type AuditHost struct {
	durable.Host
	Up       bool `json:"up"`
	NoVolume bool `json:"no_volume,omitempty"` // it has no volume with its own state, and none can be open there
}

// StartAudit is the activity ledger.StartAudit. It removes what audits left that were
// not ended.
func (a *Activities) StartAudit(ctx context.Context, in StartAuditInput) (StartAuditResult, error) {
	out := StartAuditResult{Project: in.Project, Audit: uuid.New()}
	err := fence.Transaction(ctx, a.Pool, func(q *schema.Queries) error {
		if err := q.EndOldAudits(ctx); err != nil {
			return err
		}
		var err error
		if out.At, err = q.StartAudit(ctx, schema.StartAuditParams{ID: out.Audit, ProjectID: in.Project}); err != nil {
			return err
		}
		rows, err := q.AuditHosts(ctx)
		for _, h := range rows {
			view := compute.Host{LastSeen: h.LastSeen, ForcedDown: h.ForcedDown}
			out.Hosts = append(out.Hosts, AuditHost{Host: durable.Host{ID: h.ID, Name: h.Name}, Up: view.Up(out.At), NoVolume: !h.Volume})
		}
		if err != nil {
			return err
		}
		long, err := q.LongOperations(ctx, schema.LongOperationsParams{Project: in.Project, Seconds: compute.LongAfter.Seconds(), Most: longAtOnce})
		for _, l := range long {
			found := compute.FindingOf(l.Operation.Operation(), l.Event, l.Since)
			found.Project = l.Project
			out.Long = append(out.Long, found)
		}
		return err
	})
	return out, err
}

// EndAuditInput names an audit.
type EndAuditInput struct {
	Audit uuid.UUID `json:"audit"`
}

// EndAudit is the activity ledger.EndAudit.
func (a *Activities) EndAudit(ctx context.Context, in EndAuditInput) error {
	return fence.Transaction(ctx, a.Pool, func(q *schema.Queries) error { return q.EndAudit(ctx, in.Audit) })
}

// projectsPage is how many projects a page has: as many as a service is asked about for
// one page of things (compute.SeenInput).
const projectsPage = 50

// ProjectsInput asks for a page of projects, or for one alone. After is where the page before ended.
type ProjectsInput struct {
	Kind    compute.ThingKind `json:"kind"`
	Project string            `json:"project,omitempty"`
	After   string            `json:"after,omitempty"`
}

// ProjectsResult is a page of projects with the credentials to look into them with.
type ProjectsResult struct {
	Projects []compute.Access `json:"projects,omitempty"`
	Next     string           `json:"next,omitempty"` // "": that was the last page
}

// Projects is the activity ledger.Projects.
func (a *Activities) Projects(ctx context.Context, in ProjectsInput) (ProjectsResult, error) {
	var out ProjectsResult
	err := fence.Transaction(ctx, a.Pool, func(q *schema.Queries) error {
		ids, err := q.ProjectsWith(ctx, schema.ProjectsWithParams{Kind: in.Kind, Project: in.Project, After: in.After, Most: projectsPage})
		if err != nil {
			return err
		}
		trusts, err := q.TrustsOf(ctx, ids)
		if err != nil {
			return err
		}
		for _, id := range ids {
			out.Projects = append(out.Projects, access(id, trusts))
		}
		if len(ids) == projectsPage {
			out.Next = ids[len(ids)-1]
		}
		return nil
	})
	return out, err
}

func access(project string, trusts []schema.TrustsOfRow) compute.Access {
	if project == compute.DeploymentProject {
		return compute.Access{Project: project, Credentials: []compute.Credential{compute.DeploymentCredential()}}
	}
	out := compute.Access{Project: project, Credentials: []compute.Credential{compute.MemberCredential(project)}}
	for _, t := range trusts {
		if t.ProjectID == project {
			out.Credentials = append(out.Credentials, compute.Credential{ID: t.ID, ProjectID: t.ProjectID, UserID: t.UserID})
		}
	}
	return out
}

// CredentialsFor gives what there is to look into projects of users with, in the order in which it is
// tried: strongroom's own role, trusts of servers, and the token of a passing request.
func CredentialsFor(ctx context.Context, q *schema.Queries, projects []string) (map[string][]compute.Credential, error) {
	trusts, err := q.TrustsOf(ctx, projects)
	if err != nil {
		return nil, err
	}
	offers, err := q.OffersIn(ctx, projects)
	if err != nil {
		return nil, err
	}
	out := map[string][]compute.Credential{}
	for _, project := range projects {
		out[project] = access(project, trusts).Credentials
	}
	for _, o := range offers {
		out[o.ProjectID] = append(out[o.ProjectID], compute.Credential{ID: o.ID, ProjectID: o.ProjectID, UserID: o.UserID})
	}
	return out, nil
}

// NamesInput asks for a page of names, of all projects or of one. After is where the page before ended.
type NamesInput struct {
	Place   string            `json:"place"`
	Kind    compute.ThingKind `json:"kind"`
	Project string            `json:"project,omitempty"`
	After   string            `json:"after,omitempty"`
}

// NamesResult is a page of names.
type NamesResult struct {
	Names []string `json:"names,omitempty"`
	Next  string   `json:"next,omitempty"` // "": that was the last page
}

// Names is the activity ledger.Names. What was handed over is not among them.
func (a *Activities) Names(ctx context.Context, in NamesInput) (NamesResult, error) {
	var out NamesResult
	err := fence.Transaction(ctx, a.Pool, func(q *schema.Queries) error {
		var err error
		out.Names, err = q.OpenNames(ctx, schema.OpenNamesParams{
			Place: in.Place, Kind: in.Kind, Project: in.Project, After: in.After, Late: compute.ComesLate(in.Kind), Most: compute.SeenPage,
		})
		if len(out.Names) == compute.SeenPage {
			out.Next = out.Names[len(out.Names)-1]
		}
		return err
	})
	return out, err
}

// CountInput asks for the counts.
type CountInput struct{}

// CountResult counts the open rows of the ledger.
type CountResult struct {
	Open       int `json:"open"`    // without what was handed over
	Waiting    int `json:"waiting"` // of those
	HandedOver int `json:"handed_over"`
}

// Count is the activity ledger.Count.
func (a *Activities) Count(ctx context.Context, _ CountInput) (CountResult, error) {
	n, err := schema.New(a.Pool).CountThings(ctx)
	return CountResult{Open: int(n.Open), Waiting: int(n.Waiting), HandedOver: int(n.HandedOver)}, fence.Unavailable(err)
}
