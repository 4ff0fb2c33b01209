package swift

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/objectstorage/v1/containers"
	"github.com/gophercloud/gophercloud/v2/openstack/objectstorage/v1/objects"
	"github.com/gophercloud/gophercloud/v2/pagination"

	"strongroom/activities/object"
	"strongroom/activities/openstack"
	"strongroom/compute"
)

const (
	// checkTime bounds a Check: a user waits for it.
	checkTime = 30 * time.Second
	// checkBytes is the room that a Check wants: what the state of a vTPM has, and more. It
	// is more than a document has, too: clients take it for a transfer, which makes nothing
	// where it is given up in its midst.
	checkBytes = 128 << 10
	checkName  = "check." // which is no name of an object
)

var _ object.Checker = (*Blobs)(nil)

// Check implements object.Checker. It uploads with an md5 that is another's: Swift looks at
// the project, the role, the quotas and the container as for any upload, takes the data,
// and keeps nothing of it (422).
//
// 404 says that there is no container yet, which Put makes, or that there is no account:
// one that was deleted, is made by an administrator only, or an address at which no Swift is. The
// account itself tells, since a Swift that makes accounts as they are used answers for those
// that it has yet to make.
func (b *Blobs) Check(ctx context.Context, cred compute.Credential) error {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	client, err := b.client(ctx, cred)
	if err != nil {
		return err
	}
	const what = "ask whether objects may be stored"
	err = objects.Create(ctx, client, Container, checkName, objects.CreateOpts{
		Content: bytes.NewReader(make([]byte, checkBytes)), ETag: "00000000000000000000000000000000", ContentType: "application/octet-stream",
	}).Err
	if err == nil {
		return compute.Errorf(compute.Unavailable, "%s: what is at the object store's address takes data whose md5 is wrong", what)
	}
	err = openstack.Error(err, what)
	var answer *openstack.Answer
	if !errors.As(err, &answer) {
		return err
	}
	switch answer.Status {
	case http.StatusUnprocessableEntity:
		return nil
	case http.StatusRequestEntityTooLarge:
		return compute.Errorf(compute.Conflict, "the project's account in the object store is full: its quota leaves no room for the state of a vTPM")
	case http.StatusNotFound:
		// A HEAD would do, but Swift ends its answer for an account that it has yet to make as if it had a body.
		err = containers.List(client, containers.ListOpts{Limit: 1}).EachPage(ctx, func(context.Context, pagination.Page) (bool, error) { return false, nil })
		return openstack.Error(err, "look for the project's account in the object store")
	}
	return err
}
