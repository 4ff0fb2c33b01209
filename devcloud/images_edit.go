package devcloud

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"strongroom/compute"
)

// patchTypes are the media types of an edit, a list of steps whose paths name one field or property each, and how a step is read.
var patchTypes = map[string]func(json.RawMessage) (patch, error){
	"application/openstack-images-v2.1-json-patch": readPatch,
	"application/openstack-images-v2.0-json-patch": readFirstPatch,
}

// patch is one step of an edit, as JSON patches have it: {"op": "replace", "path": "/name", "value": "x"}.
type patch struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value"`

	first bool // in the form of the API's first version, an add does not replace
}

func readPatch(raw json.RawMessage) (p patch, err error) {
	if json.Unmarshal(raw, &p) != nil {
		err = fault(http.StatusBadRequest, "A step of an edit is an object with op, path and value.")
	}
	return p, err
}

// readFirstPatch reads the form of the API's first version, in which the operation is the key of the path: {"replace": "/name", "value": "x"}.
func readFirstPatch(raw json.RawMessage) (p patch, err error) {
	wrong := fault(http.StatusBadRequest, "A step of an edit has exactly one member named add, replace or remove, whose value is a path.")
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return p, wrong
	}
	p.Value, p.first = members["value"], true
	for _, op := range []string{"add", "replace", "remove"} {
		path, ok := members[op]
		if !ok {
			continue
		}
		if p.Op != "" || json.Unmarshal(path, &p.Path) != nil {
			return p, wrong
		}
		p.Op = op
	}
	if p.Op == "" {
		return p, wrong
	}
	return p, nil
}

// edit is PATCH /v2/images/{id}.
func (i *images) edit(c echo.Context) error {
	media, _, _ := strings.Cut(c.Request().Header.Get("Content-Type"), ";")
	read := patchTypes[strings.TrimSpace(media)]
	if read == nil {
		known := strings.Join(slices.Sorted(maps.Keys(patchTypes)), ", ")
		c.Response().Header().Set("Accept-Patch", known)
		return fault(http.StatusUnsupportedMediaType, "The media type of an edit is one of: %s", known)
	}
	var written []json.RawMessage
	if err := readJSON(c, &written); err != nil {
		return err
	}
	steps := make([]patch, len(written))
	for n, raw := range written {
		var err error
		if steps[n], err = read(raw); err != nil {
			return err
		}
	}
	img, err := i.change(c, func(img *compute.Image) error {
		before := img.Visibility
		for _, step := range steps {
			if err := step.apply(img); err != nil {
				return err
			}
		}
		if img.Visibility == before {
			return nil
		}
		return mayPublish(callerOf(c), img.Visibility)
	})
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, imageDocument(img))
}

// change reads the image in the path, lets fn change it, and writes it.
func (i *images) change(c echo.Context, fn func(*compute.Image) error) (compute.Image, error) {
	i.editing.Lock()
	defer i.editing.Unlock()
	img, cred, err := i.find(c)
	if err != nil {
		return img, err
	}
	img.Properties = maps.Clone(img.Properties)
	if err := fn(&img); err != nil {
		return img, err
	}
	return i.library.Update(c.Request().Context(), cred, img)
}

// apply does one step. The path is a JSON pointer of one part.
func (p patch) apply(img *compute.Image) error {
	key, ok := strings.CutPrefix(p.Path, "/")
	if !ok || key == "" || strings.Contains(key, "/") {
		return fault(http.StatusBadRequest, "The path '%s' names no attribute of an image.", p.Path)
	}
	key = strings.NewReplacer("~1", "/", "~0", "~").Replace(key)
	if key == "id" || key == "owner" || key == "os_hidden" && p.Op == "remove" {
		return fault(http.StatusForbidden, "Attribute '%s' is read-only.", key)
	}
	_, isProperty := img.Properties[key]
	_, isField := attributes[key]
	isField = isField || key == "os_hidden" || slices.Contains(readOnly, key)
	switch p.Op {
	case "add":
		if p.first && (isProperty || isField) {
			return fault(http.StatusConflict, "Property %s already present.", key)
		}
		return assign(img, key, p.Value)
	case "replace":
		if !isProperty && !isField {
			return fault(http.StatusConflict, "Property %s does not exist.", key)
		}
		return assign(img, key, p.Value)
	case "remove":
		switch {
		case isField:
			return fault(http.StatusForbidden, "Property %s may not be removed.", key)
		case !isProperty:
			return fault(http.StatusConflict, "Property %s does not exist.", key)
		}
		delete(img.Properties, key)
		return nil
	}
	return fault(http.StatusBadRequest, "The operation '%s' is none of add, replace and remove.", p.Op)
}

func (i *images) tag(c echo.Context) error {
	_, err := i.change(c, func(img *compute.Image) error {
		img.Tags = unique(append(slices.Clone(img.Tags), c.Param("tag")))
		return checkLengths(img)
	})
	if err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

func (i *images) untag(c echo.Context) error {
	_, err := i.change(c, func(img *compute.Image) error {
		n := slices.Index(img.Tags, c.Param("tag"))
		if n < 0 {
			return fault(http.StatusNotFound, "The image has no such tag.")
		}
		img.Tags = slices.Delete(slices.Clone(img.Tags), n, n+1)
		return nil
	})
	if err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}
