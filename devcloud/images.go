package devcloud

import (
	"net/http"
	"sync"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"strongroom/activities/image"
	"strongroom/compute"
)

// images is the image service, Glance's API v2 over an image library.
type images struct {
	*Server
	library image.Library
	editing sync.Mutex // an edit is a read, a change and a write
}

func (i *images) mount(g *echo.Group) {
	for _, path := range []string{"", "/", "/v2", "/v2/"} {
		g.GET(path, i.versions(http.StatusMultipleChoices))
	}
	g.GET("/versions", i.versions(http.StatusOK))

	v2 := g.Group("/v2", i.authenticated, inProject)
	v2.GET("/schemas/image", i.imageSchema)
	v2.GET("/schemas/images", i.imagesSchema)
	v2.GET("/images", i.list)
	v2.GET("/images/:id", i.show)
	v2.GET("/images/:id/file", i.download)

	v2.POST("/images", i.create, mayWrite) // a group of them would refuse readers what is not there
	v2.PATCH("/images/:id", i.edit, mayWrite)
	v2.DELETE("/images/:id", i.remove, mayWrite)
	v2.PUT("/images/:id/file", i.upload, mayWrite)
	v2.PUT("/images/:id/tags/:tag", i.tag, mayWrite)
	v2.DELETE("/images/:id/tags/:tag", i.untag, mayWrite)
}

// inProject refuses tokens that are for no project: images belong to projects.
func inProject(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if callerOf(c).project == nil {
			return fault(http.StatusForbidden, "A token for a project is needed.")
		}
		return next(c)
	}
}

// mayWrite refuses those who may only read.
func mayWrite(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if !callerOf(c).has("admin", "member") {
			return fault(http.StatusForbidden, "You are not authorized to complete this action.")
		}
		return next(c)
	}
}

// find gives the image in the path, and the credential to act on it with. An
// administrator acts for the project that owns it.
func (i *images) find(c echo.Context) (compute.Image, compute.Credential, error) {
	caller := callerOf(c)
	cred := caller.credential()
	parsed, err := uuid.Parse(c.Param("id"))
	if err != nil {
		return compute.Image{}, cred, noImage(c.Param("id"))
	}
	id := compute.ImageID{UUID: parsed}
	ctx := c.Request().Context()
	if caller.has("admin") {
		found, err := i.everybodys(ctx, image.ListInput{IDs: []compute.ImageID{id}})
		if err != nil {
			return compute.Image{}, cred, err
		}
		if len(found) > 0 {
			cred.ProjectID = found[0].Owner
		}
	}
	img, err := i.library.Get(ctx, cred, id)
	if compute.Is(err, compute.NotFound) {
		err = noImage(id.String())
	}
	return img, cred, err
}

func noImage(id string) error {
	return fault(http.StatusNotFound, "No image found with ID %s", id)
}

// mayPublish: what everybody sees is an administrator's to say.
func mayPublish(caller session, visibility string) error {
	if visibility == image.Public && !caller.has("admin") {
		return fault(http.StatusForbidden, "You are not authorized to complete publicize_image action.")
	}
	return nil
}

func (i *images) show(c echo.Context) error {
	img, _, err := i.find(c)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, imageDocument(img))
}

func (i *images) remove(c echo.Context) error {
	img, cred, err := i.find(c)
	if err != nil {
		return err
	}
	if err := i.library.Delete(c.Request().Context(), cred, img.ID); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}
