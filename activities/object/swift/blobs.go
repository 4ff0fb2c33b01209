// Package swift is an object store in OpenStack's Swift: one container per project,
// in which each blob is an object. The manifests are our own: Swift's know md5.
package swift

import (
	"context"
	"fmt"
	"io"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/objectstorage/v1/containers"
	"github.com/gophercloud/gophercloud/v2/openstack/objectstorage/v1/objects"
	"github.com/gophercloud/gophercloud/v2/pagination"

	"strongroom/activities/object"
	"strongroom/activities/openstack"
	"strongroom/compute"
)

// Container is what all is kept in.
const Container = "strongroom"

// Blobs are the objects of the container.
type Blobs struct {
	Clients openstack.Clients // of the object store, version 1
}

var _ object.Blobs = (*Blobs)(nil)

func (b *Blobs) client(ctx context.Context, cred compute.Credential) (*gophercloud.ServiceClient, error) {
	client, err := b.Clients.Client(ctx, cred)
	return client, openstack.Error(err, "log in to the object store")
}

// Put implements object.Blobs. Swift keeps nothing of what breaks off, or does not match
// the md5 that is sent ahead, if it is no Stream.
func (b *Blobs) Put(ctx context.Context, cred compute.Credential, name string, data io.ReadSeeker) error {
	client, err := b.client(ctx, cred)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("store object %s", name)
	_, once := data.(*object.Stream)
	if once { // it cannot be read for its md5, nor again once the container is there
		if err := makeContainer(ctx, client); err != nil {
			return err
		}
	}
	put := func() error {
		if _, err := data.Seek(0, io.SeekStart); err != nil {
			return compute.Errorf(compute.Unavailable, "read the data of object %s: %w", name, err)
		}
		options := objects.CreateOpts{Content: data, ContentType: "application/octet-stream", NoETag: once}
		return openstack.Error(objects.Create(ctx, client, Container, name, options).Err, what)
	}
	if err := put(); !compute.Is(err, compute.NotFound) {
		return err
	}
	if err := makeContainer(ctx, client); err != nil {
		return err
	}
	return put()
}

// makeContainer makes the container. That it is there is no error to Swift.
func makeContainer(ctx context.Context, client *gophercloud.ServiceClient) error {
	return openstack.Error(containers.Create(ctx, client, Container, nil).Err, "make the container "+Container)
}

// Size implements object.Blobs.
func (b *Blobs) Size(ctx context.Context, cred compute.Credential, name string) (int64, error) {
	client, err := b.client(ctx, cred)
	if err != nil {
		return 0, err
	}
	head, err := objects.Get(ctx, client, Container, name, lastOfItsConnection{}).Extract()
	if err != nil {
		return 0, openstack.Error(err, fmt.Sprintf("look at object %s", name))
	}
	return head.ContentLength, nil
}

// lastOfItsConnection has a request's connection closed behind it. Swift ends its answer to a HEAD in
// an account that it has yet to make as if it had a body (eventlet's issue 862): the next request
// on the connection would take that end for its answer.
type lastOfItsConnection struct{}

// ToObjectGetParams implements objects.GetOptsBuilder.
func (lastOfItsConnection) ToObjectGetParams() (headers map[string]string, query string, err error) {
	return map[string]string{"Connection": "close"}, "", nil
}

// Open implements object.Blobs.
func (b *Blobs) Open(ctx context.Context, cred compute.Credential, name string) (io.ReadCloser, error) {
	client, err := b.client(ctx, cred)
	if err != nil {
		return nil, err
	}
	data := objects.Download(ctx, client, Container, name, nil)
	if data.Err != nil {
		return nil, openstack.Error(data.Err, fmt.Sprintf("read object %s", name))
	}
	return data.Body, nil
}

// Delete implements object.Blobs.
func (b *Blobs) Delete(ctx context.Context, cred compute.Credential, name string) error {
	client, err := b.client(ctx, cred)
	if err != nil {
		return err
	}
	err = openstack.Error(objects.Delete(ctx, client, Container, name, nil).Err, fmt.Sprintf("delete object %s", name))
	if compute.Is(err, compute.NotFound) {
		return nil
	}
	return err
}

// List implements object.Blobs.
func (b *Blobs) List(ctx context.Context, cred compute.Credential, prefix, after string, limit int) ([]string, error) {
	client, err := b.client(ctx, cred)
	if err != nil {
		return nil, err
	}
	var names []string
	options := objects.ListOpts{Prefix: prefix, Marker: after, Limit: limit}
	err = objects.List(client, Container, options).EachPage(ctx, func(_ context.Context, page pagination.Page) (bool, error) {
		names, err = objects.ExtractNames(page)
		return false, err
	})
	err = openstack.Error(err, "list objects")
	if compute.Is(err, compute.NotFound) {
		return nil, nil // nothing was ever stored
	}
	return names, err
}
