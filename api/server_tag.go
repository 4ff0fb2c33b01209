package api

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"strongroom/api/fault"
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/schema"
)

const (
	ruleTagIndex     = "os_compute_api:os-server-tags:index"
	ruleTagShow      = "os_compute_api:os-server-tags:show"
	ruleTagUpdate    = "os_compute_api:os-server-tags:update"
	ruleTagUpdateAll = "os_compute_api:os-server-tags:update_all"
	ruleTagDelete    = "os_compute_api:os-server-tags:delete"
	ruleTagDeleteAll = "os_compute_api:os-server-tags:delete_all"
)

// serverTags are the tags of servers, from 2.26 on.
func (a *API) serverTags() Resource {
	const all, one, since = "/servers/:id/tags", "/servers/:id/tags/:tag", 26
	return Resource{
		Rules: policy.Rules{
			ruleTagIndex: policy.ProjectReaderOrAdmin, ruleTagShow: policy.ProjectReaderOrAdmin,
			ruleTagUpdate: policy.ProjectMemberOrAdmin, ruleTagUpdateAll: policy.ProjectMemberOrAdmin,
			ruleTagDelete: policy.ProjectMemberOrAdmin, ruleTagDeleteAll: policy.ProjectMemberOrAdmin,
		},
		Routes: []Route{
			{Method: http.MethodGet, Path: all, Min: since, Handle: a.listTags},
			{Method: http.MethodPut, Path: all, Min: since, Body: tagsBody, Handle: a.replaceTags},
			{Method: http.MethodDelete, Path: all, Min: since, Status: http.StatusNoContent, Handle: a.deleteTags},
			{Method: http.MethodGet, Path: one, Min: since, Status: http.StatusNoContent, Handle: a.showTag},
			{Method: http.MethodPut, Path: one, Min: since, Handle: a.addTag},
			{Method: http.MethodDelete, Path: one, Min: since, Status: http.StatusNoContent, Handle: a.deleteTag},
		},
	}
}

var tagsBody = validation.Always(validation.Object([]string{"tags"}, validation.Properties{
	"tags": {"type": "array", "items": tagName, "maxItems": maxTags},
}))

func (a *API) listTags(r *Request) (any, error) {
	row, err := a.findServer(r, ruleTagIndex)
	if err != nil {
		return nil, err
	}
	return map[string]any{"tags": orNone(row.Server.Tags)}, nil
}

func (a *API) showTag(r *Request) (any, error) {
	row, err := a.findServer(r, ruleTagShow)
	if err == nil && !slices.Contains(row.Server.Tags, r.Param("tag")) {
		err = noTag(r, row.Server)
	}
	return nil, err
}

func noTag(r *Request, s schema.Server) error {
	return fault.NotFound("Server %s has no tag '%s'", s.ID, r.Param("tag"))
}

func (a *API) replaceTags(r *Request) (any, error) {
	var body struct{ Tags []string }
	if err := r.Decode(&body); err != nil {
		return nil, err
	}
	tags := unique(body.Tags)
	err := a.changeTags(r, ruleTagUpdateAll, func(schema.Server) ([]string, error) { return tags, nil })
	return map[string]any{"tags": tags}, err
}

func (a *API) deleteTags(r *Request) (any, error) {
	return nil, a.changeTags(r, ruleTagDeleteAll, func(schema.Server) ([]string, error) { return []string{}, nil })
}

// addTag answers 201 for a tag that is new and 204 for one that was there.
func (a *API) addTag(r *Request) (any, error) {
	tag, added := r.Param("tag"), false
	if n := utf8.RuneCountInString(tag); n > maxTagLength {
		return nil, fault.BadRequest("Tag is too long: %d characters, at most %d are allowed.", n, maxTagLength)
	}
	if strings.ContainsAny(tag, ",/") { // as in a list of tags (K3)
		return nil, fault.BadRequest("Tag '%s' is invalid. It must be a non empty string without characters '/' and ','.", tag)
	}
	err := a.changeTags(r, ruleTagUpdate, func(s schema.Server) ([]string, error) {
		if slices.Contains(s.Tags, tag) {
			return s.Tags, nil
		}
		if len(s.Tags) >= maxTags {
			return nil, fault.BadRequest("The number of tags exceeded the per-server limit %d", maxTags)
		}
		added = true
		return append(s.Tags, tag), nil
	})
	if err != nil || !added {
		return Answer{Status: http.StatusNoContent}, err
	}
	r.SetHeader("Location", r.URL("servers", r.Param("id"), "tags", url.PathEscape(tag)))
	return Answer{Status: http.StatusCreated}, nil
}

func (a *API) deleteTag(r *Request) (any, error) {
	return nil, a.changeTags(r, ruleTagDelete, func(s schema.Server) ([]string, error) {
		i := slices.Index(s.Tags, r.Param("tag"))
		if i < 0 {
			return nil, noTag(r, s)
		}
		return slices.Delete(s.Tags, i, i+1), nil
	})
}

func (a *API) changeTags(r *Request, rule string, change func(schema.Server) ([]string, error)) error {
	return a.annotate(r, rule, "update tags", func(q *schema.Queries, s schema.Server) error {
		tags, err := change(s)
		if err != nil {
			return err
		}
		return q.SetServerTags(r.Context(), schema.SetServerTagsParams{ID: s.ID, Tags: orNone(tags)})
	})
}

// unique gives the tags without repetition, in their order.
func unique(tags []string) []string {
	out := []string{}
	for _, tag := range tags {
		if !slices.Contains(out, tag) {
			out = append(out, tag)
		}
	}
	return out
}

const maxTagLength = 60
