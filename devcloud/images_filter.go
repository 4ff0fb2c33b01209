package devcloud

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"strongroom/compute"
)

// filter reports whether an image is one that a query asks for.
type filter func(compute.Image) bool

// fields are what a query may ask of an image by equality.
var fields = map[string]func(compute.Image) string{
	"id":               func(img compute.Image) string { return img.ID.String() },
	"name":             func(img compute.Image) string { return img.Name },
	"status":           func(img compute.Image) string { return img.Status },
	"owner":            func(img compute.Image) string { return img.Owner },
	"disk_format":      func(img compute.Image) string { return img.DiskFormat },
	"container_format": func(img compute.Image) string { return img.ContainerFormat },
	"os_hash_value":    func(img compute.Image) string { return img.SHA256 },
	"protected":        func(img compute.Image) string { return fmt.Sprint(img.Protected) },
	"min_disk":         func(img compute.Image) string { return strconv.Itoa(img.MinDiskGB) },
	"min_ram":          func(img compute.Image) string { return strconv.Itoa(img.MinRAMMB) },
}

// passed are the keys of a query that are no filter, or are looked at elsewhere.
var passed = []string{"limit", "marker", "sort", "sort_key", "sort_dir", "member_status"}

// filters reads a query. A key that is no field asks for a property.
func filters(query url.Values) ([]filter, error) {
	var out []filter
	for key, values := range query {
		if slices.Contains(passed, key) {
			continue
		}
		for _, value := range values {
			f, err := filterOf(key, value)
			if err != nil {
				return nil, err
			}
			out = append(out, f)
		}
	}
	return out, nil
}

func filterOf(key, value string) (filter, error) {
	switch key {
	case "visibility":
		return func(img compute.Image) bool { return value == "all" || img.Visibility == value }, nil
	case "tag":
		return func(img compute.Image) bool { return slices.Contains(img.Tags, value) }, nil
	case "os_hidden":
		none := strings.EqualFold(value, "true")
		return func(compute.Image) bool { return !none }, nil
	case "size_min", "size_max":
		return sizeFilter(key, value)
	case "protected":
		value = strings.ToLower(value)
	}
	field, isField := fields[key]
	if !isField {
		return func(img compute.Image) bool { v, has := img.Properties[key]; return has && v == value }, nil
	}
	if list, some := strings.CutPrefix(value, "in:"); some {
		choices := strings.Split(list, ",")
		return func(img compute.Image) bool { return slices.Contains(choices, field(img)) }, nil
	}
	return func(img compute.Image) bool { return field(img) == value }, nil
}

func sizeFilter(key, value string) (filter, error) {
	size, err := strconv.ParseInt(value, 10, 64)
	if err != nil || size < 0 {
		return nil, fault(http.StatusBadRequest, "%s must be a size in bytes", key)
	}
	if key == "size_min" {
		return func(img compute.Image) bool { return img.SizeBytes >= size }, nil
	}
	return func(img compute.Image) bool { return img.SizeBytes <= size }, nil
}
