package devcloud

import (
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"strongroom/activities/image"
	"strongroom/compute"
)

// imageDocument is an image as the API shows it: properties stand beside the
// fields, under their own names.
func imageDocument(img compute.Image) map[string]any {
	doc := map[string]any{}
	for key, value := range img.Properties {
		doc[key] = value
	}
	path := "/v2/images/" + img.ID.String()
	for key, value := range map[string]any{
		"id": img.ID.String(), "name": orNull(img.Name), "status": img.Status, "visibility": img.Visibility, "owner": img.Owner,
		"disk_format": orNull(img.DiskFormat), "container_format": orNull(img.ContainerFormat),
		"min_disk": img.MinDiskGB, "min_ram": img.MinRAMMB, "protected": img.Protected, "os_hidden": false,
		"size": nil, "virtual_size": nil, "checksum": nil, "os_hash_algo": nil, "os_hash_value": nil,
		"tags": append([]string{}, img.Tags...), "created_at": imageTime(img.CreatedAt), "updated_at": imageTime(img.UpdatedAt),
		"self": path, "file": path + "/file", "schema": "/v2/schemas/image",
	} {
		doc[key] = value
	}
	if img.Status == image.StatusActive {
		doc["size"], doc["virtual_size"] = img.SizeBytes, img.VirtualBytes
		doc["os_hash_algo"], doc["os_hash_value"] = "sha256", img.SHA256
	}
	return doc
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func imageTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// versions answers with the versions that are spoken.
func (i *images) versions(status int) echo.HandlerFunc {
	return func(c echo.Context) error {
		all := []any{}
		for minor := 9; minor >= 0; minor-- {
			state := "SUPPORTED"
			if minor == 9 {
				state = "CURRENT"
			}
			all = append(all, map[string]any{
				"id": fmt.Sprintf("v2.%d", minor), "status": state,
				"links": []any{map[string]string{"rel": "self", "href": i.ImageURL() + "/v2/"}},
			})
		}
		return c.JSON(status, map[string]any{"versions": all})
	}
}

func (i *images) imageSchema(c echo.Context) error { return c.JSON(http.StatusOK, imageSchema()) }

func (i *images) imagesSchema(c echo.Context) error {
	return c.JSON(http.StatusOK, map[string]any{
		"name": "images",
		"properties": map[string]any{
			"images": map[string]any{"type": "array", "items": imageSchema()},
			"first":  map[string]any{"type": "string"}, "next": map[string]any{"type": "string"}, "schema": map[string]any{"type": "string"},
		},
		"links": []any{
			map[string]string{"rel": "first", "href": "{first}"}, map[string]string{"rel": "next", "href": "{next}"},
			map[string]string{"rel": "describedby", "href": "{schema}"},
		},
	})
}

func imageSchema() map[string]any {
	kind := func(types ...any) map[string]any { return map[string]any{"type": types} }
	readOnly := func(types ...any) map[string]any { return map[string]any{"type": types, "readOnly": true} }
	oneOf := func(values ...any) map[string]any {
		return map[string]any{"type": []any{"null", "string"}, "enum": values}
	}
	return map[string]any{
		"name": "image",
		"properties": map[string]any{
			"id": kind("string"), "name": kind("null", "string"), "owner": kind("null", "string"),
			"status": readOnly("string"), "protected": kind("boolean"), "os_hidden": kind("boolean"),
			"visibility":  map[string]any{"type": "string", "enum": []any{image.Community, image.Public, image.Private, image.Shared}},
			"disk_format": oneOf(nil, "raw", "qcow2", "luks"), "container_format": oneOf(nil, "bare"),
			"min_disk": kind("integer"), "min_ram": kind("integer"),
			"size": readOnly("null", "integer"), "virtual_size": readOnly("null", "integer"),
			"checksum": readOnly("null", "string"), "os_hash_algo": readOnly("null", "string"), "os_hash_value": readOnly("null", "string"),
			"tags":       map[string]any{"type": "array", "items": map[string]any{"type": "string", "maxLength": maxTag}},
			"created_at": readOnly("string"), "updated_at": readOnly("string"),
			"self": readOnly("string"), "file": readOnly("string"), "schema": readOnly("string"),
		},
		"additionalProperties": map[string]any{"type": "string"},
		"links": []any{
			map[string]string{"rel": "self", "href": "{self}"}, map[string]string{"rel": "enclosure", "href": "{file}"},
			map[string]string{"rel": "describedby", "href": "{schema}"},
		},
	}
}
