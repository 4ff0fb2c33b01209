package volume

import (
	"errors"
	"net/http"
	"slices"

	"github.com/jackc/pgx/v5"

	"strongroom/api/fault"
	"strongroom/schema"
)

// types is what everybody sees of types.
func (a *API) types() []route {
	return []route{
		{method: http.MethodGet, path: "/types", rule: ruleList, query: slices.Concat(columnFilters, []string{specsFilter}, notFilters), handle: a.listTypes},
		{method: http.MethodGet, path: "/types/:id", rule: ruleShow, handle: a.showType},
	}
}

func (a *API) showType(r *request) (any, error) {
	if r.param("id") == "default" {
		return a.showDefault(r)
	}
	may := r.reading()
	t, err := r.get(may)
	if err != nil {
		return nil, err
	}
	return may.answer(t), nil
}

func (a *API) showDefault(r *request) (any, error) {
	may, none := r.reading(), fault.NotFound("Default volume type can not be found.")
	id, err := a.db.VolumeTypeNamed(r.context(), a.config.DefaultType)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, none
	}
	if err != nil {
		return nil, err
	}
	t, err := r.getByID(may, id)
	var refused *fault.Fault
	if errors.As(err, &refused) { // it is private, or was deleted just now
		return nil, none
	}
	if err != nil {
		return nil, err
	}
	return may.answer(t), nil
}

// listTypes lists types in one query. There are few in a cloud, and a page
// without a limit holds them all: they are sorted and cut here.
func (a *API) listTypes(r *request) (any, error) {
	may := r.reading()
	page, err := r.page()
	if err != nil {
		return nil, err
	}
	filter, err := r.filter(may)
	if err != nil {
		return nil, err
	}
	rows, err := a.db.ListVolumeTypes(r.context(), filter)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(rows, page.compare)
	if rows, err = page.cut(rows); err != nil {
		return nil, err
	}
	views := make([]view, len(rows))
	for i, row := range rows {
		views[i] = may.view(schema.GetVolumeTypeRow(row))
	}
	answer := map[string]any{"volume_types": views}
	if len(views) > 0 && len(views) >= page.limit {
		query := r.query
		query.Set("marker", views[len(views)-1].ID)
		answer["volume_type_links"] = []versionLink{{Rel: "next", Href: r.url("types") + "?" + query.Encode()}}
	}
	return answer, nil
}
