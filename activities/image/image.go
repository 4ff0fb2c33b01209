// Package image reads and writes images of an image store.
//
// Library is the port; each adapter lives in a folder of its own and passes the
// suite in imagetest.
package image

import (
	"context"
	"io"

	"strongroom/compute"
)

// Store is an image store.
type Store interface {
	// Get gives an image's record. NotFound: no such image that this credential may see.
	Get(ctx context.Context, cred compute.Credential, id compute.ImageID) (compute.Image, error)
	// Open streams an image's bytes. The reader checks the record's digest as it
	// goes: the last Read gives a Corrupt error instead of io.EOF when it does
	// not match. NotFound as Get; Conflict: the image has no data yet.
	Open(ctx context.Context, cred compute.Credential, id compute.ImageID) (io.ReadCloser, error)
}

// The statuses of an image here.
const (
	StatusQueued = "queued" // a record without data
	StatusActive = "active" // its data is whole and never changes again
)

// halfMade are the statuses of an image whose data is not whole yet.
var halfMade = []string{StatusQueued, "saving", "uploading", "importing"}

// The visibilities of an image. Whoever may not see an image gets NotFound.
const (
	Public    = "public"    // everybody reads and lists it
	Community = "community" // everybody reads it, its owner lists it
	Shared    = "shared"    // its owner alone, while it has no members
	Private   = "private"   // its owner alone
)

// Library is a Store that can also be written. An image is changed and deleted by its
// owner's project: another project's credential gets Forbidden, or NotFound if
// it may not even see the image. All methods may be called at once, also from
// several processes.
type Library interface {
	Store
	// OpenUnchecked is Open whose reader takes no digest: for who hands the bytes on to
	// somebody who does.
	OpenUnchecked(ctx context.Context, cred compute.Credential, id compute.ImageID) (io.ReadCloser, error)
	// Create ensures a record with the id in img, status "queued", owned by the
	// credential's project. Without an id one is made. Conflict: the id exists
	// with other content. Invalid: unknown formats or visibility, negative sizes.
	// Forbidden: the project may make no images, or no more of them.
	Create(ctx context.Context, cred compute.Credential, img compute.Image) (compute.Image, error)
	// Update changes name, visibility, tags, protected, min_* and properties, and
	// the formats while the image is queued (Forbidden afterwards). All of them become what img says: of properties alone use
	// ChangeProperties.
	Update(ctx context.Context, cred compute.Credential, img compute.Image) (compute.Image, error)
	// ChangeProperties gives an image the properties of set, and takes those others of which remove says so; nil: none. It changes
	// what the image has at that moment, and gives the image as it is then: what somebody else gave it since the caller looked stays.
	// Conflict: one that is to be removed was removed meanwhile.
	ChangeProperties(ctx context.Context, cred compute.Credential, id compute.ImageID, set map[string]string, remove func(name string) bool) (compute.Image, error)
	// Upload stores the data of a queued image and makes it "active", with size,
	// sha256 (or sha512, where the store keeps that) and virtual size taken from the data. A broken upload leaves it queued.
	// Conflict: it has data already, or no formats yet. Invalid: the data is not
	// what disk_format says, is empty, or refers to other files.
	Upload(ctx context.Context, cred compute.Credential, id compute.ImageID, data io.Reader) error
	// Delete removes record and data. NotFound when it is not there; Forbidden
	// when it is protected or another project's.
	Delete(ctx context.Context, cred compute.Credential, id compute.ImageID) error
	// List gives a part of the images that the credential may see: its own, public ones.
	// A credential without a project is the operator's own and is given all. An image that
	// is there from the first part to the last is in one of them, or in several, whatever
	// comes and goes meanwhile. A marker outlives the process.
	List(ctx context.Context, cred compute.Credential, in ListInput) (ListResult, error)
	// Naming gives images that the credential may list, also hidden ones, and that name a
	// secret as what opens them (compute.Image.Names), whoever made them. Not all of them
	// where there are many, but at least one where there is any. Forbidden: it may list none.
	Naming(ctx context.Context, cred compute.Credential, secret compute.SecretID) ([]compute.ImageID, error)
}
