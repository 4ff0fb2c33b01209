// Package key keeps the passphrases of disks and vTPMs in a key manager.
//
// Manager is the port; each adapter lives in a folder of its own and passes the
// suite in keytest. Activities is what workflows call: it moves references only,
// a passphrase is made and stays behind the port.
package key

import (
	"context"

	"strongroom/activities/secret"
	"strongroom/compute"
)

// Manager is a key manager. Every secret belongs to the project of the
// credential it was made with; another project's credential gets Forbidden or
// NotFound, never a value. No error text carries a value. All methods may be
// called at once, also from several processes.
type Manager interface {
	// Check reports whether the credential may make secrets in its project, without
	// making any. Forbidden: it may not; Unavailable: the manager does not answer.
	Check(ctx context.Context, cred compute.Credential) error
	// Create ensures that one secret of this name exists in the credential's
	// project and gives its id. The passphrase, base64 text of in.Bytes random
	// bytes, is made here and is not returned. When the secret exists already,
	// its id is given and its value stays. Two calls at once make one secret.
	// Invalid: no project, no name, or no sensible number of bytes; Corrupt: the
	// secret exists and cannot be read; Conflict: the id is taken by another name.
	Create(ctx context.Context, in CreateInput) (compute.SecretID, error)
	// Copy ensures, as Create does, that one secret of this name exists in the
	// credential's project, with the passphrase of another secret, which may be
	// another project's; the copy of a private secret of its own project is as private.
	// NotFound, Forbidden, Corrupt: that one cannot be read;
	// Conflict: the name is taken by a secret with another passphrase; otherwise
	// as Create.
	Copy(ctx context.Context, in CopyInput) (compute.SecretID, error)
	// Passphrase reads a secret. The caller wipes it.
	// NotFound: no such secret; Forbidden: not the caller's; Corrupt: it was
	// damaged or is not sealed by this manager's key.
	Passphrase(ctx context.Context, cred compute.Credential, id compute.SecretID) (*secret.Passphrase, error)
	// Name gives what a secret is called, for whoever may read it. It fails as Passphrase
	// does.
	Name(ctx context.Context, cred compute.Credential, id compute.SecretID) (string, error)
	// Delete ensures that no secret of this name (and of this id, where it is
	// known) is left in the credential's project. One that is not there is a
	// success. Forbidden: the id is another project's secret. A name is looked for
	// in the credential's project only: another project's of the same name stays.
	Delete(ctx context.Context, in DeleteInput) error
	// List gives a part of the secrets that strongroom made and the credential can
	// see. One that is there from the first part to the last is in one of them, or in
	// several, whatever comes and goes meanwhile. A marker outlives the process. A
	// credential without a project is the operator's own: where the manager lets it, it
	// sees every project's. A secret too damaged to tell its name is listed by its id
	// alone, to the operator only.
	List(ctx context.Context, cred compute.Credential, in ListInput) (ListResult, error)
}

// CreateInput asks for a secret.
type CreateInput struct {
	Credential compute.Credential `json:"credential"`
	ID         compute.SecretID   `json:"id"`    // derived from the operation; used where the manager lets the client choose
	Name       string             `json:"name"`  // deterministic: names the server, disk and operation
	Bytes      int                `json:"bytes"` // random bytes before base64: compute.DiskPassphraseBytes or TPMPassphraseBytes
	// Like is a secret that the new one takes the place of, or stands beside: where the manager lets
	// a secret be private, the new one is as private. nil, or one that is gone: it is the project's.
	Like *compute.SecretID `json:"like,omitempty"`
	// Private keeps it from the project's other users, where the manager lets it: what it opens was
	// opened by a secret that is gone, and nobody knows any more whether that was private.
	Private bool `json:"private,omitempty"`
}

// CreateResult says which secret it is.
type CreateResult struct {
	Secret compute.SecretID `json:"secret"`
}

// DeleteInput names the secret to remove.
type DeleteInput struct {
	Credential compute.Credential
	Name       string
	ID         *compute.SecretID
}

// ListInput asks for a part of a list.
type ListInput struct {
	Marker string // "": from the beginning; else ListResult.Next of the part before
	Limit  int    // how many at most; the manager may give fewer. 0: as many as it likes
}

// ListResult is a part of a list.
type ListResult struct {
	Items []Item
	Next  string // "": that is all
}

// Item is a secret as the audit sees it.
type Item struct {
	ID        compute.SecretID
	Name      string
	ProjectID string
}
