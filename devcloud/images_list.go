package devcloud

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"strongroom/activities/image"
	"strongroom/compute"
)

const (
	defaultLimit = 25
	maxLimit     = 1000
)

// list is GET /v2/images: what the caller may see and the query asks for.
func (i *images) list(c echo.Context) error {
	all, err := i.everybodys(c.Request().Context(), image.ListInput{})
	if err != nil {
		return err
	}
	query := c.QueryParams()
	wanted, err := filters(query)
	if err != nil {
		return err
	}
	caller := callerOf(c)
	all = slices.DeleteFunc(all, func(img compute.Image) bool {
		return !listed(caller, img, query.Get("visibility")) || slices.ContainsFunc(wanted, func(f filter) bool { return !f(img) })
	})
	if err := sortImages(all, query); err != nil {
		return err
	}
	page, next, err := pageOf(all, query)
	if err != nil {
		return err
	}
	docs := make([]any, 0, len(page))
	for _, img := range page {
		docs = append(docs, imageDocument(img))
	}
	answer := map[string]any{"images": docs, "schema": "/v2/schemas/images", "first": "/v2/images" + queryString(query, "")}
	if next != "" {
		answer["next"] = "/v2/images" + queryString(query, next)
	}
	return c.JSON(http.StatusOK, answer)
}

// everybodys gives all projects' images.
func (i *images) everybodys(ctx context.Context, in image.ListInput) (all []compute.Image, err error) {
	for img, err := range image.All(ctx, i.library, compute.Credential{}, in) {
		if err != nil {
			return nil, err
		}
		all = append(all, img)
	}
	return all, nil
}

// listed reports whether a caller sees an image in a list. Other projects'
// community images are listed to those who ask for them.
func listed(caller session, img compute.Image, visibility string) bool {
	switch {
	case img.Owner == caller.project.ID || img.Visibility == image.Public:
		return true
	case img.Visibility == image.Community:
		return visibility == image.Community || visibility == "all"
	}
	return caller.has("admin")
}

// queryString is the query with another marker; "" for none.
func queryString(query url.Values, marker string) string {
	next := url.Values{}
	for key, values := range query {
		next[key] = values
	}
	next.Del("marker")
	if marker != "" {
		next.Set("marker", marker)
	}
	if len(next) == 0 {
		return ""
	}
	return "?" + next.Encode()
}

// pageOf cuts a page out of a sorted list; next is the marker of the one after it.
func pageOf(all []compute.Image, query url.Values) (page []compute.Image, next string, err error) {
	limit := defaultLimit
	if text := query.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 0 {
			return nil, "", fault(http.StatusBadRequest, "limit param must be an integer that is not negative")
		}
	}
	limit = min(limit, maxLimit)
	if marker := query.Get("marker"); marker != "" {
		at := slices.IndexFunc(all, func(img compute.Image) bool { return img.ID.String() == marker })
		if at < 0 {
			return nil, "", fault(http.StatusBadRequest, "Marker %s could not be found.", marker)
		}
		all = all[at+1:]
	}
	if limit == 0 || len(all) <= limit {
		return all[:min(limit, len(all))], "", nil
	}
	return all[:limit], all[limit-1].ID.String(), nil
}

// orders compare two images by a key of sort.
var orders = map[string]func(a, b compute.Image) int{
	"name":             func(a, b compute.Image) int { return cmp.Compare(a.Name, b.Name) },
	"status":           func(a, b compute.Image) int { return cmp.Compare(a.Status, b.Status) },
	"container_format": func(a, b compute.Image) int { return cmp.Compare(a.ContainerFormat, b.ContainerFormat) },
	"disk_format":      func(a, b compute.Image) int { return cmp.Compare(a.DiskFormat, b.DiskFormat) },
	"size":             func(a, b compute.Image) int { return cmp.Compare(a.SizeBytes, b.SizeBytes) },
	"id":               func(a, b compute.Image) int { return cmp.Compare(a.ID.String(), b.ID.String()) },
	"created_at":       func(a, b compute.Image) int { return a.CreatedAt.Compare(b.CreatedAt) },
	"updated_at":       func(a, b compute.Image) int { return a.UpdatedAt.Compare(b.UpdatedAt) },
}

// sortImages sorts as sort (key:dir,…) or sort_key and sort_dir say; the newest
// come first where nothing is said, and the id settles what is equal.
func sortImages(all []compute.Image, query url.Values) error {
	keys, err := sortKeys(query)
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b compute.Image) int {
		for _, key := range keys {
			if c := orders[key.name](a, b); c != 0 {
				return c * key.sign
			}
		}
		return orders["id"](b, a)
	})
	return nil
}

type sortKey struct {
	name string
	sign int
}

func sortKeys(query url.Values) ([]sortKey, error) {
	parts := strings.FieldsFunc(query.Get("sort"), func(r rune) bool { return r == ',' })
	for n, name := range query["sort_key"] {
		dirs := query["sort_dir"]
		if len(dirs) > 0 {
			name += ":" + dirs[min(n, len(dirs)-1)]
		}
		parts = append(parts, name)
	}
	if len(parts) == 0 {
		parts = []string{"created_at:desc"}
	}
	var keys []sortKey
	for _, part := range parts {
		name, dir, _ := strings.Cut(strings.TrimSpace(part), ":")
		sign, ok := map[string]int{"": -1, "desc": -1, "asc": 1}[dir]
		if orders[name] == nil || !ok {
			return nil, fault(http.StatusBadRequest, "Invalid sort key or direction: %s", part)
		}
		keys = append(keys, sortKey{name, sign})
	}
	return keys, nil
}
