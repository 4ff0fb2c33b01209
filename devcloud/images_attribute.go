package devcloud

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"strongroom/compute"
)

const (
	maxTag      = 255
	maxName     = 255
	maxProperty = 255 // of a property's name; a value may be as long as the body
)

// attribute reads or clears one field of an image that a client may say.
// raw is nil to clear it.
type attribute func(img *compute.Image, raw json.RawMessage) error

// attributes are the fields of an image beside its properties.
var attributes = map[string]attribute{
	"name":             nullable(func(img *compute.Image, v string) { img.Name = v }),
	"disk_format":      nullable(func(img *compute.Image, v string) { img.DiskFormat = v }),
	"container_format": nullable(func(img *compute.Image, v string) { img.ContainerFormat = v }),
	"visibility":       required(func(img *compute.Image, v string) { img.Visibility = v }),
	"min_disk":         required(func(img *compute.Image, v int) { img.MinDiskGB = v }),
	"min_ram":          required(func(img *compute.Image, v int) { img.MinRAMMB = v }),
	"protected":        required(func(img *compute.Image, v bool) { img.Protected = v }),
	"tags":             required(func(img *compute.Image, v []string) { img.Tags = unique(v) }),
}

// readOnly are the fields that only the service itself says.
var readOnly = []string{
	"status", "size", "virtual_size", "checksum", "os_hash_algo", "os_hash_value", "created_at", "updated_at",
	"self", "file", "schema", "first", "direct_url", "locations",
}

func required[T any](set func(*compute.Image, T)) attribute {
	return func(img *compute.Image, raw json.RawMessage) error {
		var value *T
		if json.Unmarshal(raw, &value) != nil || value == nil {
			return fault(http.StatusBadRequest, "has a value of the wrong type")
		}
		set(img, *value)
		return nil
	}
}

func nullable(set func(*compute.Image, string)) attribute {
	return func(img *compute.Image, raw json.RawMessage) error {
		if string(raw) == "null" {
			set(img, "")
			return nil
		}
		return required(set)(img, raw)
	}
}

func unique(tags []string) []string {
	out := slices.Sorted(slices.Values(tags))
	return slices.Compact(out)
}

// assign sets what a client says of an image under a key: a field or a property.
func assign(img *compute.Image, key string, raw json.RawMessage) error {
	set, known := attributes[key]
	switch {
	case slices.Contains(readOnly, key):
		return fault(http.StatusForbidden, "Attribute '%s' is read-only.", key)
	case known:
		if err := set(img, raw); err != nil {
			return fault(http.StatusBadRequest, "Attribute '%s' %s.", key, err)
		}
	case key == "os_hidden":
		if string(raw) != "false" {
			return fault(http.StatusBadRequest, "Hidden images are not supported here.")
		}
	default:
		return assignProperty(img, key, raw)
	}
	return checkLengths(img)
}

func assignProperty(img *compute.Image, key string, raw json.RawMessage) error {
	var value *string
	if key == "" || len(key) > maxProperty || json.Unmarshal(raw, &value) != nil || value == nil {
		return fault(http.StatusBadRequest, "Property '%s' must be a string, and its name 1 to %d bytes.", key, maxProperty)
	}
	if img.Properties == nil {
		img.Properties = map[string]string{}
	}
	img.Properties[key] = *value
	return nil
}

func checkLengths(img *compute.Image) error {
	if len(img.Name) > maxName {
		return fault(http.StatusBadRequest, "The name is longer than %d bytes.", maxName)
	}
	if slices.ContainsFunc(img.Tags, func(tag string) bool { return len(tag) > maxTag }) {
		return fault(http.StatusBadRequest, "A tag is longer than %d bytes.", maxTag)
	}
	return nil
}

// assignID reads the id that a client chose for a new image.
func assignID(img *compute.Image, raw json.RawMessage) error {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return fault(http.StatusBadRequest, "Attribute 'id' must be a UUID.")
	}
	id, err := uuid.Parse(text)
	if err != nil {
		return fault(http.StatusBadRequest, "Attribute 'id' must be a UUID.")
	}
	img.ID = compute.ImageID{UUID: id}
	return nil
}
