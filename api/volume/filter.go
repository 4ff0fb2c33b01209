package volume

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"strongroom/api/fault"
	"strongroom/api/microversion"
	"strongroom/schema"
)

// filterVersion is the version from which everybody may filter by extra specs,
// and from which a filter that is not offered is refused and not ignored.
const filterVersion microversion.Version = 52

// What a list can be asked for: types by their own columns, and by their extra specs.
var columnFilters = []string{"is_public", "id", "name", "description"}

const specsFilter = "extra_specs"

// notFilters are parameters of a list that say nothing of what it holds.
var notFilters = []string{"limit", "marker", "offset", "sort", "sort_key", "sort_dir"}

// filter reads which types a list holds. Everybody may ask for a type's own
// columns: the standard client looks for a name that way. Extra specs can be asked
// for from 3.52 on, by administrators at every version.
func (r *request) filter(may reading) (schema.ListVolumeTypesParams, error) {
	public := true
	f := schema.ListVolumeTypesParams{
		AllKeys: may.allKeys, VisibleKeys: VisibleExtraSpecs, IsPublic: &public, ProjectID: may.projectID, Specs: []byte("{}"),
	}
	offered := slices.Clone(columnFilters)
	if may.specs && (may.everyones || r.version >= filterVersion) {
		offered = append(offered, specsFilter)
	}
	unknown := slices.DeleteFunc(slices.Sorted(maps.Keys(r.query)), func(name string) bool {
		return slices.Contains(offered, name) || slices.Contains(notFilters, name)
	})
	if len(unknown) > 0 && r.version >= filterVersion {
		return f, fault.BadRequest("Invalid filters %s are found in query options.", strings.Join(unknown, ","))
	}
	r.filterColumns(&f)
	if slices.Contains(offered, specsFilter) && r.query.Has(specsFilter) {
		if err := filterSpecs(&f, r.query.Get(specsFilter)); err != nil {
			return f, err
		}
	}
	if may.everyones {
		return f, r.filterPublic(&f)
	}
	return f, nil
}

// filterSpecs asks for types that have all of the extra specs. The zones match by
// a part of their text, every other key by its whole value. A key that the caller
// may not read is one that no type has: what the query compares with holds the
// keys that the caller may read and no other (VT-11).
func filterSpecs(f *schema.ListVolumeTypesParams, text string) error {
	specs, ok := parseSpecs(text)
	if !ok {
		return fault.BadRequest("Invalid extra_specs filter [%s]: it must map keys to texts", text)
	}
	if zone := specs[zonesKey]; zone != nil {
		f.Zone = zone
		delete(specs, zonesKey)
	}
	var err error
	f.Specs, err = json.Marshal(specs)
	return err
}

// filterColumns asks for types by their own columns.
func (r *request) filterColumns(f *schema.ListVolumeTypesParams) {
	if r.query.Has("name") {
		name := r.query.Get("name")
		f.Name = &name
	}
	if r.query.Has("description") {
		description := r.query.Get("description")
		f.Description = &description
	}
	if r.query.Has("id") {
		id, err := parseID(r.query.Get("id"))
		if err != nil { // no type has such an id
			id = uuid.Nil
		}
		f.ID = &id
	}
}

// filterPublic asks for public types, private ones, or both.
func (r *request) filterPublic(f *schema.ListVolumeTypesParams) error {
	if !r.query.Has("is_public") {
		return nil
	}
	text := r.query.Get("is_public")
	if strings.EqualFold(text, "none") {
		f.IsPublic = nil
		return nil
	}
	public, ok := boolean(text)
	if !ok {
		return fault.BadRequest("Invalid is_public filter [%s]", text)
	}
	f.IsPublic = &public
	return nil
}
