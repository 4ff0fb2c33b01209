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

// patchTypes are the media types of an edit: a JSON patch whose paths name one
// field or property each.
var patchTypes = []string{"application/openstack-images-v2.1-json-patch", "application/openstack-images-v2.0-json-patch"}

// patch is one step of an edit.
type patch struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value"`
}

// edit is PATCH /v2/images/{id}.
func (i *images) edit(c echo.Context) error {
	media, _, _ := strings.Cut(c.Request().Header.Get("Content-Type"), ";")
	if !slices.Contains(patchTypes, strings.TrimSpace(media)) {
		c.Response().Header().Set("Accept-Patch", strings.Join(patchTypes, ", "))
		return fault(http.StatusUnsupportedMediaType, "The media type of an edit is one of: %s", strings.Join(patchTypes, ", "))
	}
	var steps []patch
	if err := readJSON(c, &steps); err != nil {
		return err
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
