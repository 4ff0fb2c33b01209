package api

import (
	"math"
	"net/url"
	"strconv"
	"strings"
)

// MaxLimit is how many items a list shows at most at once.
const MaxLimit = 1000

// Link is a link of an answer.
type Link struct {
	Rel  string `json:"rel"`
	Type string `json:"type,omitempty"`
	Href string `json:"href"`
}

// project gives the project part of links: there when the client put it into
// its own path.
func (r *Request) project() string {
	if id := r.Param("project_id"); id != "" {
		return "/" + id
	}
	return ""
}

func (r *Request) root() string {
	if r.legacy {
		return rootV2
	}
	return rootV21
}

// URL is the address of something of the API: URL("servers", id).
func (r *Request) URL(parts ...string) string {
	return r.api.prefix(r.echo.Request()) + r.root() + r.project() + join(parts)
}

// Bookmark is URL without a version.
func (r *Request) Bookmark(parts ...string) string {
	return r.api.prefix(r.echo.Request()) + r.project() + join(parts)
}

func join(parts []string) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteByte('/')
		b.WriteString(p)
	}
	return b.String()
}

// Links are the links of an item: self and bookmark.
func (r *Request) Links(collection, id string) []Link {
	return []Link{{Rel: "self", Href: r.URL(collection, id)}, {Rel: "bookmark", Href: r.Bookmark(collection, id)}}
}

// Limit is how many items the client wants at most, never more than MaxLimit.
// The query's schema has refused what is no number.
func (r *Request) Limit() int {
	text := r.Query.Get("limit")
	if text == "" {
		return MaxLimit
	}
	n, err := strconv.Atoi(text)
	if err != nil || n > MaxLimit { // too long for an int is too much as well
		return MaxLimit
	}
	return n
}

// Offset is how many items the client wants left out before the first. The query's schema has refused what is no number.
func (r *Request) Offset() int {
	text := r.Query.Get("offset")
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return math.MaxInt32 // there are not so many
	}
	return int(n)
}

// Marker is the item after which the client's page begins.
func (r *Request) Marker() string { return r.Query.Get("marker") }

// Next links the next page of a collection ("servers", "flavors/detail") when
// this one is full. count is how many items it has, last the marker of its last.
func (r *Request) Next(collection string, count int, last string) []Link {
	if count == 0 || count < r.Limit() {
		return nil
	}
	return r.nextAfter(collection, last)
}

// nextAfter links what is behind an item.
func (r *Request) nextAfter(collection, last string) []Link {
	query := url.Values{}
	for name, values := range r.Query {
		query[name] = values
	}
	query.Set("marker", last)
	return []Link{{Rel: "next", Href: r.URL(collection) + "?" + query.Encode()}}
}

// Collection is the answer of a list: the items, and the link to more of them.
func Collection(name string, items any, next []Link) map[string]any {
	answer := map[string]any{name: items}
	if len(next) > 0 {
		answer[name+"_links"] = next
	}
	return answer
}
