// Package glance is an image.Library in OpenStack's Glance.
//
// The ids are ours. Glance checks who may see and change an image; what it lets
// an administrator do beyond the port's rules is refused here.
package glance

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"

	"strongroom/activities/image"
	"strongroom/activities/openstack"
	"strongroom/compute"
)

// Library is an image.Library in Glance.
type Library struct {
	// Clients gives clients of the image API, version 2. A credential without a
	// project is the operator's: who may list all images.
	Clients openstack.Clients
}

var _ image.Library = (*Library)(nil)

func (l *Library) client(ctx context.Context, cred compute.Credential) (*gophercloud.ServiceClient, error) {
	client, err := l.Clients.Client(ctx, cred)
	return client, openstack.Error(err, "log in to the image store")
}

// Get implements image.Store.
func (l *Library) Get(ctx context.Context, cred compute.Credential, id compute.ImageID) (compute.Image, error) {
	client, err := l.client(ctx, cred)
	if err != nil {
		return compute.Image{}, err
	}
	r, err := get(ctx, client, cred, id)
	return r.Image, err
}

// get gives an image that the credential may see. Glance knows who is a member of
// a shared image, so its word counts; without a project only what is everybody's
// does, whoever the client is.
func get(ctx context.Context, client *gophercloud.ServiceClient, cred compute.Credential, id compute.ImageID) (record, error) {
	doc, err := images.Get(ctx, client, id.String()).Extract()
	if err := openstack.Error(err, fmt.Sprintf("look at image %s", id)); err != nil {
		if compute.Is(err, compute.NotFound) {
			err = image.Missing(id)
		}
		return record{}, err
	}
	r, err := recordOf(doc)
	if err == nil && cred.ProjectID == "" && !image.MayRead(cred, r.Image) {
		err = image.Missing(id)
	}
	if err != nil {
		return record{}, err
	}
	return r, nil
}

// own gives an image that the credential may change.
func own(ctx context.Context, client *gophercloud.ServiceClient, cred compute.Credential, id compute.ImageID) (record, error) {
	r, err := get(ctx, client, cred, id)
	if err == nil && !image.Owns(cred, r.Image) {
		err = compute.Errorf(compute.Forbidden, "image %s belongs to another project", id)
	}
	return r, err
}

// Create implements image.Library. Glance keeps the ids of deleted images: they
// cannot be used again and give Conflict.
func (l *Library) Create(ctx context.Context, cred compute.Credential, img compute.Image) (compute.Image, error) {
	img, err := image.Asked(cred, img)
	if err != nil {
		return compute.Image{}, err
	}
	body, err := creation(img)
	if err != nil {
		return compute.Image{}, err
	}
	client, err := l.client(ctx, cred)
	if err != nil {
		return compute.Image{}, err
	}
	doc, err := images.Create(ctx, client, body).Extract()
	err = openstack.Error(err, fmt.Sprintf("create image %s", img.ID))
	var answer *openstack.Answer
	if errors.As(err, &answer) && answer.Status == http.StatusRequestEntityTooLarge {
		// The project's quota; Nova, too, makes a 403 of it.
		return compute.Image{}, compute.Errorf(compute.Forbidden, "the image store's quota allows no image %s: %w", img.ID, answer)
	}
	if err == nil {
		r, err := recordOf(doc)
		return r.Image, err
	}
	if !compute.Is(err, compute.Conflict) && !compute.Is(err, compute.Unavailable) {
		return compute.Image{}, err
	}
	// An earlier attempt made it, or one at the same time, or its answer got lost.
	have, look := own(ctx, client, cred, img.ID)
	switch {
	case look == nil && image.Same(have.Image, sorted(img)):
		return have.Image, nil
	case compute.Is(err, compute.Unavailable):
		return compute.Image{}, err
	}
	return compute.Image{}, compute.Errorf(compute.Conflict, "image id %s is taken by another image", img.ID)
}

// Update implements image.Library.
func (l *Library) Update(ctx context.Context, cred compute.Credential, img compute.Image) (compute.Image, error) {
	client, err := l.client(ctx, cred)
	if err != nil {
		return compute.Image{}, err
	}
	have, err := own(ctx, client, cred, img.ID)
	if err != nil {
		return compute.Image{}, err
	}
	if err := image.CheckChange(have.Image, img); err != nil {
		return compute.Image{}, err
	}
	if have.Status != image.StatusQueued && (have.DiskFormat != img.DiskFormat || have.ContainerFormat != img.ContainerFormat) {
		return compute.Image{}, compute.Errorf(compute.Forbidden, "the formats of image %s are fixed since it has data", img.ID)
	}
	changes, err := difference(have.Image, img)
	if err != nil || len(changes) == 0 {
		return have.Image, err
	}
	doc, err := images.Update(ctx, client, img.ID.String(), changes).Extract()
	if err != nil {
		return compute.Image{}, openstack.Error(err, fmt.Sprintf("change image %s", img.ID))
	}
	r, err := recordOf(doc)
	return r.Image, err
}

// ChangeProperties implements image.Library. What is not said of a property leaves it as Glance has it.
func (l *Library) ChangeProperties(ctx context.Context, cred compute.Credential, id compute.ImageID, set map[string]string, remove func(name string) bool) (compute.Image, error) {
	client, err := l.client(ctx, cred)
	if err != nil {
		return compute.Image{}, err
	}
	have, err := own(ctx, client, cred, id)
	if err != nil {
		return compute.Image{}, err
	}
	changes, err := propertyChanges(have.Properties, set, remove)
	if err != nil || len(changes) == 0 {
		return have.Image, err
	}
	doc, err := images.Update(ctx, client, id.String(), changes).Extract()
	if err != nil {
		return compute.Image{}, openstack.Error(err, fmt.Sprintf("change the properties of image %s", id))
	}
	r, err := recordOf(doc)
	return r.Image, err
}

// Delete implements image.Library.
func (l *Library) Delete(ctx context.Context, cred compute.Credential, id compute.ImageID) error {
	client, err := l.client(ctx, cred)
	if err != nil {
		return err
	}
	img, err := own(ctx, client, cred, id)
	if err != nil {
		return err
	}
	if img.Protected {
		return compute.Errorf(compute.Forbidden, "image %s is protected and cannot be deleted", id)
	}
	err = openstack.Error(images.Delete(ctx, client, id.String()).ExtractErr(), fmt.Sprintf("delete image %s", id))
	if compute.Is(err, compute.NotFound) {
		return image.Missing(id)
	}
	return err
}
