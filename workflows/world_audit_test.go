package workflows_test

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/google/uuid"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/activities/image"
	"strongroom/activities/key"
	"strongroom/activities/ledger"
	"strongroom/activities/mount"
	"strongroom/activities/object"
	projects "strongroom/activities/project"
	"strongroom/activities/share"
	"strongroom/activities/tpm"
	"strongroom/activities/trust"
	"strongroom/activities/volume"
	"strongroom/compute"
	"strongroom/durable"
)

// notes are what an audit has noted so far.
type notes struct {
	before map[compute.Sighting]bool // what was on the ledger when it began
	seen   map[compute.Sighting]bool
	looked map[string]bool
	of     map[string]string // the projects that activities were asked about, by their names, and of what was seen by its place
}

// doomed are projects that credentials do not open.
type doomed struct {
	closed  []string // all of them, in every service
	gone    []string // those that the identity service does not know any more
	open    []string // of those, the ones that a token still opens
	left    []compute.GoneProject
	unknown error // in place of an answer of the identity service

	last []compute.SeenInput // looks with strongroom's own role alone
}

// look is the page of a service that opens none of the projects, but for a last look.
func (d *doomed) look(in compute.SeenInput) compute.SeenResult {
	if len(in.Projects) == 1 && in.Projects[0].Project == project {
		return compute.SeenResult{Closed: d.closed}
	}
	d.last = append(d.last, in)
	var out compute.SeenResult
	for _, p := range in.Projects {
		if slices.Contains(d.open, p.Project) {
			out.Looked = append(out.Looked, p.Project)
		} else {
			out.Closed = append(out.Closed, p.Project)
		}
	}
	return out
}

// pageOf is how many things the world shows on a page.
const pageOf = 3

func (w *world) registerAudit(r registry) {
	register(w, r, ledger.StartAudit, func(_ context.Context, in ledger.StartAuditInput) (ledger.StartAuditResult, error) {
		w.audited = notes{before: map[compute.Sighting]bool{}, seen: map[compute.Sighting]bool{}, looked: map[string]bool{}, of: map[string]string{}}
		w.audited.of[ledger.StartAudit.Name] += in.Project + " "
		for s := range w.ledger {
			w.audited.before[s] = w.row.current == ""
		}
		out := ledger.StartAuditResult{Project: in.Project, Audit: uuid.New()}
		for _, h := range w.hosts {
			out.Hosts = append(out.Hosts, ledger.AuditHost{Host: durable.Host{ID: h, Name: "host-" + h.String()[:4]}, Up: !w.down[h], NoVolume: w.plain[h]})
		}
		return out, nil
	})
	register(w, r, ledger.Projects, func(_ context.Context, in ledger.ProjectsInput) (ledger.ProjectsResult, error) {
		w.audited.of[ledger.Projects.Name] += in.Project + " "
		member := compute.MemberCredential(project)
		return ledger.ProjectsResult{Projects: []compute.Access{{Project: project, Credentials: []compute.Credential{member}}}}, nil
	})
	register(w, r, ledger.Names, func(_ context.Context, in ledger.NamesInput) (out ledger.NamesResult, err error) {
		w.audited.of[ledger.Names.Name] += in.Project + " "
		for s := range w.ledger {
			if s.Kind == in.Kind && s.Place == in.Place {
				out.Names = append(out.Names, s.Name)
			}
		}
		slices.Sort(out.Names)
		out.Names = slices.DeleteFunc(out.Names, func(name string) bool { return name <= in.After })
		if len(out.Names) > pageOf {
			out.Names = out.Names[:pageOf]
			out.Next = out.Names[pageOf-1]
		}
		return out, nil
	})
	register(w, r, projects.Gone, func(_ context.Context, in projects.GoneInput) (out projects.GoneResult, err error) {
		return projects.GoneResult{Projects: w.doomed.gone}, w.doomed.unknown
	})
	register(w, r, ledger.LeftIn, func(_ context.Context, in ledger.LeftInInput) (out ledger.LeftInResult, err error) {
		for _, l := range w.doomed.left {
			if slices.Contains(in.Projects, l.Project) {
				out.Left = append(out.Left, l)
			}
		}
		return out, nil
	})
	register(w, r, ledger.NoteSeen, func(_ context.Context, in ledger.NoteSeenInput) (out ledger.NoteSeenResult, err error) {
		w.audited.of[in.Place] = in.Project
		for _, seen := range in.Seen {
			s := compute.Sighting{Kind: seen.Kind, Place: in.Place, Name: seen.Name}
			w.audited.seen[s] = true
			gone := slices.ContainsFunc(w.released, func(t compute.Thing) bool { return t.Kind == s.Kind && t.Place == s.Place && t.Name == s.Name })
			if _, known := w.ledger[s]; !known && !gone {
				out.Unowned = append(out.Unowned, compute.Finding{Kind: s.Kind, Place: s.Place, Name: s.Name, What: compute.Unowned})
			}
		}
		return out, nil
	})
	register(w, r, ledger.NoteLooked, func(_ context.Context, in ledger.NoteLookedInput) (none, error) {
		for _, p := range in.Projects {
			w.audited.looked[in.Place] = w.audited.looked[in.Place] || p == compute.LookedAll
			w.audited.looked[compute.Looked(in.Place, p)] = true
		}
		return none{}, nil
	})
	register(w, r, ledger.Differences, w.differences)
	register(w, r, ledger.EndAudit, func(context.Context, ledger.EndAuditInput) (none, error) { return none{}, nil })
	w.registerSeen(r)
}

// differences gives one row of the ledger at a time.
func (w *world) differences(_ context.Context, in ledger.DifferencesInput) (out ledger.DifferencesResult, err error) {
	rest := slices.DeleteFunc(w.listed(), func(t compute.Thing) bool {
		a := in.After
		return a != nil && cmp.Or(cmp.Compare(t.Place, a.Place), cmp.Compare(t.Kind, a.Kind), cmp.Compare(t.Name, a.Name)) <= 0
	})
	if len(rest) == 0 {
		return out, nil
	}
	t := rest[0]
	s := compute.Sighting{Kind: t.Kind, Place: t.Place, Name: t.Name}
	e := compute.LedgerEntry{Thing: t, OwnerDeleted: w.row.deleted, Busy: w.row.current != "" || !w.audited.before[s]}
	looked := w.audited.looked[t.Place] || w.audited.looked[compute.Looked(t.Place, t.Credential.ProjectID)]
	if verdict := e.Judge(w.audited.seen[s], looked); verdict != "" {
		out.Findings = append(out.Findings, e.Finding(verdict))
	}
	out.Rows = 1
	if len(rest) > 1 {
		out.Next = &ledger.Cursor{Place: t.Place, Kind: t.Kind, Name: t.Name}
	}
	return out, nil
}

// registerSeen registers what lists the world, in small pages.
func (w *world) registerSeen(r registry) {
	onHost := func(kinds ...compute.ThingKind) func(context.Context, compute.SeenInput) (compute.SeenResult, error) {
		return func(ctx context.Context, in compute.SeenInput) (compute.SeenResult, error) {
			return paged(in, w.seenAt(hostOf(ctx), kinds...)), nil
		}
	}
	registerOnHost(w, r, domain.Seen, onHost(compute.ThingDomain, compute.ThingHypervisorSecret))
	registerOnHost(w, r, disk.Seen, onHost(compute.ThingDiskFile, compute.ThingCachedImage))
	registerOnHost(w, r, tpm.Seen, onHost(compute.ThingTPMState))
	registerOnHost(w, r, mount.Seen, onHost(compute.ThingShareMount))
	registerOnHost(w, r, volume.Seen, onHost(compute.ThingVolumeMapping, compute.ThingVolumeMount))
	register(w, r, share.Seen, func(_ context.Context, in compute.SeenInput) (compute.SeenResult, error) {
		return ofProject(paged(in, w.seenAt(compute.PlaceShares, compute.ThingShareAccess))), nil
	})
	register(w, r, key.Seen, func(_ context.Context, in compute.SeenInput) (compute.SeenResult, error) {
		if w.doomed.closed != nil {
			return w.doomed.look(in), nil
		}
		seen := w.seenAt(compute.PlaceKeyManager, compute.ThingKeySecret)
		for i, s := range seen {
			seen[i].Name = cmp.Or(s.Name, w.secrets[s.Name].String())
		}
		return paged(in, seen), nil
	})
	register(w, r, trust.Seen, func(_ context.Context, in compute.SeenInput) (compute.SeenResult, error) {
		return paged(in, w.seenAt(compute.PlaceIdentity, compute.ThingTrust)), nil
	})
	register(w, r, image.Seen, func(_ context.Context, in compute.SeenInput) (compute.SeenResult, error) {
		var seen []compute.Seen
		for name, img := range w.images {
			if img.data == "" || slices.Contains(in.Known, name) {
				seen = append(seen, compute.Seen{Kind: compute.ThingImage, Name: name})
			}
		}
		return ofProject(paged(in, seen)), nil
	})
	register(w, r, object.Seen, func(_ context.Context, in compute.SeenInput) (compute.SeenResult, error) {
		if w.doomed.closed != nil {
			return w.doomed.look(in), nil
		}
		var seen []compute.Seen
		for _, name := range append(slices.Collect(maps.Keys(w.stored)), w.objects...) {
			seen = append(seen, compute.Seen{Kind: compute.ThingObject, Name: name})
		}
		return ofProject(paged(in, seen)), nil
	})
}

func (w *world) seenAt(place string, kinds ...compute.ThingKind) []compute.Seen {
	var out []compute.Seen
	for _, s := range w.things() {
		if s.Place == place && slices.Contains(kinds, s.Kind) {
			out = append(out, compute.Seen{Kind: s.Kind, Name: s.Name})
		}
	}
	return out
}

// paged gives the page of all that comes after the name of in.Page.
func paged(in compute.SeenInput, all []compute.Seen) compute.SeenResult {
	named := map[string]compute.Seen{}
	for _, s := range all {
		named[string(s.Kind)+"/"+s.Name] = s
	}
	var out compute.SeenResult
	for _, key := range slices.Sorted(maps.Keys(named)) {
		if key <= in.Page {
			continue
		}
		if len(out.Seen) == pageOf {
			last := out.Seen[pageOf-1]
			out.Next = string(last.Kind) + "/" + last.Name
			return out
		}
		out.Seen = append(out.Seen, named[key])
	}
	out.Looked = []string{compute.LookedAll}
	return out
}

// ofProject makes a page one of what a project has.
func ofProject(page compute.SeenResult) compute.SeenResult {
	if page.Next == "" {
		page.Looked = []string{project}
	}
	return page
}
