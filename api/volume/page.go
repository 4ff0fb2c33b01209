package volume

import (
	"bytes"
	"cmp"
	"errors"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"strongroom/api/fault"
	"strongroom/schema"
)

// MaxLimit is how many types a list shows at most at once.
const MaxLimit = 1000

// page is which part of a list a request asks for, and in which order.
type page struct {
	limit, offset int
	marker        string
	order         []sortKey
}

type sortKey struct {
	name       string
	descending bool
}

// sortKeys are what types can be sorted by: nothing that follows from an extra
// spec is among them.
var sortKeys = map[string]func(a, b schema.ListVolumeTypesRow) int{
	"id":   func(a, b schema.ListVolumeTypesRow) int { return bytes.Compare(a.ID[:], b.ID[:]) },
	"name": func(a, b schema.ListVolumeTypesRow) int { return strings.Compare(a.Name, b.Name) },
	"description": func(a, b schema.ListVolumeTypesRow) int {
		return strings.Compare(deref(a.Description), deref(b.Description))
	},
	"is_public":    func(a, b schema.ListVolumeTypesRow) int { return compareBool(a.IsPublic, b.IsPublic) },
	"created_at":   func(a, b schema.ListVolumeTypesRow) int { return a.CreatedAt.Compare(b.CreatedAt) },
	"updated_at":   func(a, b schema.ListVolumeTypesRow) int { return deref(a.UpdatedAt).Compare(deref(b.UpdatedAt)) },
	"qos_specs_id": func(_, _ schema.ListVolumeTypesRow) int { return 0 },
}

func (r *request) page() (page, error) {
	p := page{limit: MaxLimit, marker: r.query.Get("marker")}
	if r.query.Has("limit") {
		n, ok := integer(r.query.Get("limit"))
		if !ok {
			return p, fault.BadRequest("limit param must be an integer")
		}
		if n < 0 {
			return p, fault.BadRequest("limit param must be positive")
		}
		p.limit = min(n, MaxLimit)
	}
	if r.query.Has("offset") {
		n, ok := integer(r.query.Get("offset"))
		switch {
		case !ok:
			return p, fault.BadRequest("offset must be an integer")
		case n < 0:
			return p, fault.BadRequest("offset must be >= 0")
		case n > math.MaxInt32:
			return p, fault.BadRequest("offset must be <= %d", math.MaxInt32)
		}
		p.offset = n
	}
	var err error
	p.order, err = order(r.query)
	return p, err
}

// integer reads a whole number. One that is too long for an int is as good as
// the largest.
func integer(text string) (int, bool) {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	return n, err == nil || errors.Is(err, strconv.ErrRange)
}

// order reads "sort=name:asc,id", or the older "sort_key=name&sort_dir=asc".
// What does not say how is sorted down, and what says nothing by age.
func order(q url.Values) ([]sortKey, error) {
	var asked []string
	switch {
	case q.Has("sort") && (q.Has("sort_key") || q.Has("sort_dir")):
		return nil, fault.BadRequest("The 'sort_key' and 'sort_dir' parameters are deprecated and cannot be used with the 'sort' parameter.")
	case q.Has("sort"):
		asked = strings.Split(q.Get("sort"), ",")
	default:
		asked = []string{cmp.Or(q.Get("sort_key"), "created_at") + ":" + cmp.Or(q.Get("sort_dir"), "desc")}
	}
	var keys []sortKey
	for _, item := range asked {
		name, direction, _ := strings.Cut(item, ":")
		name, direction = strings.TrimSpace(name), strings.TrimSpace(direction)
		if _, ok := sortKeys[name]; !ok {
			return nil, fault.BadRequest("Invalid input received: Invalid sort key")
		}
		switch direction {
		case "asc", "desc", "":
			if slices.ContainsFunc(keys, func(k sortKey) bool { return k.name == name }) {
				continue // named again, it changes no order
			}
			keys = append(keys, sortKey{name: name, descending: direction != "asc"})
		default:
			return nil, fault.BadRequest("Invalid input received: Unknown sort direction, must be 'desc' or 'asc'.")
		}
	}
	// No two types have one id: with it last, the order is always the same.
	return append(keys, sortKey{name: "id", descending: keys[0].descending}), nil
}

func (p page) compare(a, b schema.ListVolumeTypesRow) int {
	for _, key := range p.order {
		if c := sortKeys[key.name](a, b); c != 0 {
			if key.descending {
				return -c
			}
			return c
		}
	}
	return 0
}

// cut gives the page out of all sorted types. A marker that the caller does not
// see in the list is refused, whether there is such a type or not.
func (p page) cut(all []schema.ListVolumeTypesRow) ([]schema.ListVolumeTypesRow, error) {
	if p.marker != "" {
		at := slices.IndexFunc(all, func(t schema.ListVolumeTypesRow) bool { return t.ID.String() == p.marker })
		if at < 0 {
			return nil, fault.BadRequest("marker [%s] not found", p.marker)
		}
		all = all[at+1:]
	}
	all = all[min(p.offset, len(all)):]
	return all[:min(p.limit, len(all))], nil
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

func deref[T string | time.Time](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
