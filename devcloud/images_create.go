package devcloud

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"strongroom/activities/image"
	"strongroom/compute"
)

// create is POST /v2/images: a record without data.
func (i *images) create(c echo.Context) error {
	var body map[string]json.RawMessage
	if err := readJSON(c, &body); err != nil {
		return err
	}
	caller := callerOf(c)
	img := compute.Image{Visibility: image.Shared, Owner: caller.project.ID}
	for _, key := range slices.Sorted(maps.Keys(body)) {
		var err error
		switch key {
		case "id":
			err = assignID(&img, body[key])
		case "owner":
			err = assignOwner(&img, caller, body[key])
		default:
			err = assign(&img, key, body[key])
		}
		if err != nil {
			return err
		}
	}
	if err := mayPublish(caller, img.Visibility); err != nil {
		return err
	}
	if img.ID != (compute.ImageID{}) && i.taken(c, img.ID) {
		return fault(http.StatusConflict, "Image ID %s already exists!", img.ID)
	}
	cred := compute.Credential{ProjectID: img.Owner, UserID: caller.user.ID}
	made, err := i.library.Create(c.Request().Context(), cred, img)
	if err != nil {
		return err
	}
	c.Response().Header().Set("Location", i.ImageURL()+"/v2/images/"+made.ID.String())
	return c.JSON(http.StatusCreated, imageDocument(made))
}

// taken reports whether an id is in use: the library would take a repeated
// create for the first one, the API answers with a conflict.
func (i *images) taken(c echo.Context, id compute.ImageID) bool {
	found, err := i.everybodys(c.Request().Context(), image.ListInput{IDs: []compute.ImageID{id}})
	return err == nil && len(found) > 0
}

// assignOwner: an administrator may make an image for another project.
func assignOwner(img *compute.Image, caller session, raw json.RawMessage) error {
	var owner string
	if json.Unmarshal(raw, &owner) != nil || owner == "" {
		return fault(http.StatusBadRequest, "Attribute 'owner' must be a project's id.")
	}
	if owner != caller.project.ID && !caller.has("admin") {
		return fault(http.StatusForbidden, "You are not permitted to create images owned by '%s'.", owner)
	}
	img.Owner = owner
	return nil
}
