package workflows

import (
	"slices"

	"github.com/google/uuid"
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/ledger"
	"strongroom/activities/project"
	"strongroom/activities/volume"
	"strongroom/compute"
	"strongroom/durable"
)

// AuditName is the registered name of Audit.
const AuditName = "audit"

// AuditID is the id of the workflow that audits a project, or all ("").
func AuditID(project string) string {
	if project == "" {
		return AuditName
	}
	return AuditName + "/" + project
}

// AuditResult is the ledger against the world. No findings is the normal answer.
type AuditResult struct {
	Project    string                `json:"project,omitempty"`     // whose the audit was; "": of all
	Findings   []compute.Finding     `json:"findings"`              // at most mostFindings of them
	More       int                   `json:"more,omitempty"`        // how many there are besides
	Things     int                   `json:"things"`                // open ledger rows
	Looked     []string              `json:"looked"`                // hosts and services that answered
	Silent     []string              `json:"silent"`                // those that did not
	Closed     []string              `json:"closed"`                // where no credential lets strongroom look; at most mostClosed of them
	MoreClosed int                   `json:"more_closed,omitempty"` // how many there are besides
	Gone       []compute.GoneProject `json:"gone,omitempty"`        // of projects that were deleted; at most mostClosed of them
}

const (
	// mostFindings is how many findings an audit tells: who has more has one cause for them.
	// It tells fewer when they are long: all that a run knows is the next one's input.
	mostFindings  = 500
	findingsBytes = 96 << 10
	mostClosed    = 200
	// asked is how many hosts and services are asked at once.
	asked = 8
	// auditHistory is how large a history may grow before the audit goes on in a new run.
	auditHistory = 2 << 20
)

// AuditInput is how far an audit is. One without Audit begins a new one: of all, or of one project.
type AuditInput struct {
	Project string         `json:"project,omitempty"`
	Audit   uuid.UUID      `json:"audit,omitzero"`
	Places  []auditPlace   `json:"places,omitempty"` // still to be looked at
	After   *ledger.Cursor `json:"after,omitempty"`  // how far the ledger has been compared
	Result  AuditResult    `json:"result"`
}

// auditPlace is a host or a service, and how far it has been looked at.
type auditPlace struct {
	Place string            `json:"place"`
	Name  string            `json:"name"`
	Kind  compute.ThingKind `json:"kind,omitempty"` // of what a service has; its projects are those that have some
	Seer  int               `json:"seer,omitempty"` // of the host
	// NoVolume: the host is not asked for open volumes. One that has none may run an older release, which does not
	// answer that.
	NoVolume bool `json:"no_volume,omitempty"`
	// Projects are those that are looked into now. They are read once: a page of a
	// service's list is only good with the same ones.
	Projects *ledger.ProjectsResult `json:"projects,omitempty"`
	After    string                 `json:"after,omitempty"` // the projects up to here are done
	Page     string                 `json:"page,omitempty"`
	// Known are images and ports on the ledger, which are looked for one by one: whole images, and ports that
	// users bring, are their owners', and are not listed. Where there are more, all projects are looked
	// into once more for each page of them.
	Known      *ledger.NamesResult `json:"known,omitempty"`
	KnownAfter string              `json:"known_after,omitempty"` // those up to here were looked at
	Done       bool                `json:"done,omitempty"`
}

// host gives the host that the place is, if it is one.
func (p *auditPlace) host() (durable.Host, bool) {
	id, err := uuid.Parse(p.Place)
	return durable.Host{ID: compute.HostID{UUID: id}, Name: p.Name}, err == nil
}

// seers are the activities that list what is on the host.
func (p *auditPlace) seers() []*hostSeer {
	if p.NoVolume {
		return seersOnHost
	}
	return append(slices.Clone(seersOnHost), &volume.Seen)
}

// lastKnown reports whether this is the last time that the projects are looked into.
func (p *auditPlace) lastKnown() bool { return p.Known == nil || p.Known.Next == "" }

// Audit compares the ledger with what hosts and cloud services really have, in both
// directions. Both are read in pages and compared in the database, so that neither a
// history nor a worker holds all of them; a run whose history grows large goes on in a
// new one.
func Audit(ctx workflow.Context, in AuditInput) (AuditResult, error) {
	a := &audit{AuditInput: in}
	if a.Audit == uuid.Nil {
		if err := a.start(ctx); err != nil {
			return AuditResult{}, err
		}
	}
	a.look(ctx)
	for a.more(ctx) {
		if err := a.compare(ctx); err != nil {
			return AuditResult{}, err
		}
	}
	if !a.compared {
		return AuditResult{}, workflow.NewContinueAsNewError(ctx, AuditName, a.AuditInput)
	}
	slices.SortFunc(a.Result.Findings, compute.ByPlace)
	a.Result.Findings = slices.Compact(a.Result.Findings) // a place whose list changes may show a thing on two pages
	return a.Result, ledger.EndAudit.Do(ctx, ledger.EndAuditInput{Audit: a.Audit})
}

type audit struct {
	AuditInput
	compared bool
}

func (a *audit) start(ctx workflow.Context) error {
	got, err := ledger.StartAudit.Run(ctx, ledger.StartAuditInput{Project: a.Project})
	if err != nil {
		return err
	}
	a.Audit, a.Places, a.Result.Project = got.Audit, slices.Clone(services), got.Project
	a.addFindings(got.Long, 0)
	for _, h := range got.Hosts {
		if h.Up {
			a.Places = append(a.Places, auditPlace{Place: h.ID.String(), Name: h.Name, NoVolume: h.NoVolume})
		} else {
			a.Result.Silent = append(a.Result.Silent, h.Name)
		}
	}
	return nil
}

// full reports whether the run's history has grown so large that a new one goes on.
func (a *audit) full(ctx workflow.Context) bool {
	info := workflow.GetInfo(ctx)
	return info.GetCurrentHistorySize() > auditHistory || info.GetContinueAsNewSuggested()
}

// look looks at the places, some at once, until all are done or the history is full.
func (a *audit) look(ctx workflow.Context) {
	slots := workflow.NewSemaphore(ctx, asked)
	all := workflow.NewWaitGroup(ctx)
	for i := range a.Places {
		p := &a.Places[i]
		all.Add(1)
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer all.Done()
			if slots.Acquire(ctx, 1) != nil {
				return
			}
			defer slots.Release(1)
			for !p.Done && !a.full(ctx) {
				a.lookAt(ctx, p)
			}
		})
	}
	all.Wait(ctx)
	a.Places = slices.DeleteFunc(a.Places, func(p auditPlace) bool { return p.Done })
}

// lookAt looks at one page of a place.
func (a *audit) lookAt(ctx workflow.Context, p *auditPlace) {
	var err error
	if host, ok := p.host(); ok {
		err = a.lookAtHost(ctx, p, host)
	} else {
		err = a.lookAtService(ctx, p)
	}
	if err != nil {
		p.Done = true
		a.Result.Silent = append(a.Result.Silent, p.Name)
	} else if p.Done {
		a.Result.Looked = append(a.Result.Looked, p.Name)
	}
}

func (a *audit) lookAtHost(ctx workflow.Context, p *auditPlace, host durable.Host) error {
	seers := p.seers()
	got, err := seers[p.Seer].On(host).BestEffort().Run(ctx, compute.SeenInput{Page: p.Page})
	if err != nil {
		return err
	}
	if err := a.note(ctx, p.Place, "", got.Seen); err != nil {
		return err
	}
	if p.Page = got.Next; p.Page == "" {
		p.Seer++
	}
	if p.Seer < len(seers) {
		return nil
	}
	p.Done = true
	return a.noteLooked(ctx, p.Place, []string{compute.LookedAll})
}

func (a *audit) lookAtService(ctx workflow.Context, p *auditPlace) error {
	in, err := a.askService(ctx, p)
	if err != nil {
		return err
	}
	got, err := seersInCloud[p.Place].BestEffort().Run(ctx, in)
	if err != nil {
		return err
	}
	within := a.Project // of one project, unless the service has shown those of all
	if got.IsWhole() {
		within = ""
	}
	if err := a.note(ctx, p.Place, within, got.Seen); err != nil {
		return err
	}
	last := p.lastKnown()
	p.turn(got)
	if !last {
		return nil // what is known was not all looked at
	}
	a.closed(p.Name, a.notGone(ctx, p.Place, in, got.Closed))
	if len(got.Looked) == 0 {
		return nil
	}
	return a.noteLooked(ctx, p.Place, got.Looked)
}

// askService gives what a service is asked for its next page.
func (a *audit) askService(ctx workflow.Context, p *auditPlace) (compute.SeenInput, error) {
	in := compute.SeenInput{Page: p.Page}
	if things[p.Kind].byName {
		if p.Known == nil {
			known, err := ledger.Names.Run(ctx, ledger.NamesInput{Place: p.Place, Kind: p.Kind, Project: a.Project, After: p.KnownAfter})
			if err != nil {
				return in, err
			}
			p.Known = &known
		}
		in.Known = p.Known.Names
	}
	if p.Kind == "" || p.Page != "" && in.IsWhole() {
		return in, nil
	}
	if p.Projects == nil {
		projects, err := ledger.Projects.Run(ctx, ledger.ProjectsInput{Kind: p.Kind, Project: a.Project, After: p.After})
		if err != nil {
			return in, err
		}
		p.Projects = &projects
	}
	in.Projects = p.Projects.Projects
	return in, nil
}

// turn goes on to what comes after a page.
func (p *auditPlace) turn(got compute.SeenResult) {
	if p.Page = got.Next; p.Page != "" {
		return
	}
	more := p.Projects != nil && p.Projects.Next != "" && !slices.Contains(got.Looked, compute.LookedAll)
	switch {
	case more:
		p.After, p.Projects = p.Projects.Next, nil
	case !p.lastKnown():
		p.KnownAfter, p.Known = p.Known.Next, nil
		p.After, p.Projects = "", nil
	default:
		p.Done = true
	}
}

func (a *audit) closed(name string, projects []string) {
	for _, id := range projects {
		if len(a.Result.Closed) == mostClosed {
			a.Result.MoreClosed++
		} else {
			a.Result.Closed = append(a.Result.Closed, name+"'s project "+id)
		}
	}
}

// notGone gives those of the closed projects that the identity service still knows, or of
// which it gives no clear answer (P21). One that is gone is looked into a last time, with
// strongroom's own role alone, as services may take tokens for a while that ended with it; then
// it is told only if the ledger has something of it.
func (a *audit) notGone(ctx workflow.Context, place string, in compute.SeenInput, closed []string) []string {
	if len(closed) == 0 {
		return nil
	}
	gone, err := project.Gone.BestEffort().Run(ctx, project.GoneInput{Projects: closed})
	if err != nil || len(gone.Projects) == 0 {
		return closed
	}
	last := compute.SeenInput{Known: in.Known}
	for _, id := range gone.Projects {
		last.Projects = append(last.Projects, compute.Access{Project: id, Credentials: []compute.Credential{compute.MemberCredential(id)}})
	}
	got, err := seersInCloud[place].BestEffort().Run(ctx, last)
	if err != nil || a.note(ctx, place, "", got.Seen) != nil {
		return closed
	}
	left, err := ledger.LeftIn.Run(ctx, ledger.LeftInInput{Projects: got.Closed})
	if err != nil {
		return closed
	}
	for _, l := range left.Left {
		if !slices.ContainsFunc(a.Result.Gone, func(told compute.GoneProject) bool { return told.Project == l.Project }) && len(a.Result.Gone) < mostClosed {
			a.Result.Gone = append(a.Result.Gone, l)
		}
	}
	return slices.DeleteFunc(slices.Clone(closed), func(id string) bool { return slices.Contains(got.Closed, id) })
}

// note notes what was seen at a place, in a project ("": nobody knows in which).
func (a *audit) note(ctx workflow.Context, place, project string, seen []compute.Seen) error {
	if len(seen) == 0 {
		return nil
	}
	got, err := ledger.NoteSeen.Run(ctx, ledger.NoteSeenInput{Audit: a.Audit, Place: place, Project: project, Seen: seen})
	a.addFindings(got.Unowned, got.More)
	return err
}

func (a *audit) noteLooked(ctx workflow.Context, place string, projects []string) error {
	return ledger.NoteLooked.Do(ctx, ledger.NoteLookedInput{Audit: a.Audit, Place: place, Projects: projects})
}

// more reports whether the ledger is still to be compared, now that all was looked at.
func (a *audit) more(ctx workflow.Context) bool {
	return len(a.Places) == 0 && !a.compared && !a.full(ctx)
}

// compare compares a page of the ledger with what was seen.
func (a *audit) compare(ctx workflow.Context) error {
	got, err := ledger.Differences.Run(ctx, ledger.DifferencesInput{Audit: a.Audit, After: a.After})
	if err != nil {
		return err
	}
	a.addFindings(got.Findings, 0)
	a.Result.Things += got.Rows
	a.After, a.compared = got.Next, got.Next == nil
	return nil
}

// addFindings adds what was found, and more that is only counted.
func (a *audit) addFindings(found []compute.Finding, more int) {
	limit := ledger.PayloadLimit{Findings: mostFindings, Bytes: findingsBytes}
	for _, f := range a.Result.Findings {
		limit.Take(f)
	}
	for _, f := range found {
		if limit.Take(f) {
			a.Result.Findings = append(a.Result.Findings, f)
		} else {
			more++
		}
	}
	a.Result.More += more
}
