package compute

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// callsPerPage bounds how often a service is asked for one page: a page comes soon,
// however many projects there are and however much a service has that is not ours.
const callsPerPage = 50

// PageOf gives a page of a place of which everything is known: sorted by kind and name,
// each thing once.
func (in SeenInput) PageOf(all []Seen) SeenResult {
	slices.SortFunc(all, compareSeen)
	all = slices.Compact(all)
	if kind, name, ok := strings.Cut(in.Page, "/"); ok {
		at, found := slices.BinarySearchFunc(all, Seen{Kind: ThingKind(kind), Name: name}, compareSeen)
		if found {
			at++
		}
		all = all[at:]
	}
	if len(all) <= SeenPage {
		return SeenResult{Seen: all, Looked: []string{LookedAll}}
	}
	last := all[SeenPage-1]
	return SeenResult{Seen: all[:SeenPage], Next: string(last.Kind) + "/" + last.Name}
}

func compareSeen(a, b Seen) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
}

// The page of a place that is looked at as a whole is "*/<marker>", that of one that is
// looked at project by project "<index of the project>/<marker>".
const wholePrefix = LookedAll + "/"

// IsWhole reports whether the page may be, or is, one of a place that is looked at as a
// whole.
func (in SeenInput) IsWhole() bool { return in.Page == "" || strings.HasPrefix(in.Page, wholePrefix) }

// IsWhole reports whether the page is one of a place that is looked at as a whole.
func (r SeenResult) IsWhole() bool {
	return strings.HasPrefix(r.Next, wholePrefix) || slices.Contains(r.Looked, LookedAll)
}

// Whole gives a page of a place that is looked at as a whole. list gives at most limit
// things from a marker on, "" at the beginning, and the marker of the rest, "" when
// there is none.
func (in SeenInput) Whole(list func(marker string, limit int) (things []Seen, next string, err error)) (SeenResult, error) {
	var out SeenResult
	marker := strings.TrimPrefix(in.Page, wholePrefix)
	for calls := 0; calls < callsPerPage && len(out.Seen) < SeenPage; calls++ {
		things, next, err := list(marker, SeenPage-len(out.Seen))
		if err != nil {
			return SeenResult{}, err
		}
		out.Seen = append(out.Seen, things...)
		if next == "" {
			out.Looked = []string{LookedAll}
			return out, nil
		}
		marker = next
	}
	out.Next = wholePrefix + marker
	return out, nil
}

// ByProject gives a page of a place that is looked at project by project. The projects
// must be the same for all pages. list is as that of Whole; the credentials of a project
// are tried in turn.
func (in SeenInput) ByProject(list func(cred Credential, marker string, limit int) (things []Seen, next string, err error)) (SeenResult, error) {
	var out SeenResult
	at, marker, err := in.project()
	if err != nil {
		return out, err
	}
	for calls := 0; at < len(in.Projects); calls++ {
		if calls == callsPerPage || len(out.Seen) >= SeenPage {
			out.Next = strconv.Itoa(at) + "/" + marker
			break
		}
		p := in.Projects[at]
		var things []Seen
		var next string
		err := WithAny(p.Credentials, func(cred Credential) (err error) {
			things, next, err = list(cred, marker, SeenPage-len(out.Seen))
			return err
		})
		switch {
		case Is(err, Forbidden):
			out.Closed = append(out.Closed, p.Project)
			next = ""
		case err != nil:
			return SeenResult{}, err
		default:
			out.Seen = append(out.Seen, things...)
			if next == "" {
				out.Looked = append(out.Looked, p.Project)
			}
		}
		if marker = next; marker == "" {
			at++
		}
	}
	return out, nil
}

// project is where the page begins.
func (in SeenInput) project() (at int, marker string, err error) {
	if in.Page == "" {
		return 0, "", nil
	}
	index, marker, ok := strings.Cut(in.Page, "/")
	at, err = strconv.Atoi(index)
	if !ok || err != nil || at < 0 {
		return 0, "", Errorf(Invalid, "%q is no page of what projects have", in.Page)
	}
	return at, marker, nil
}
