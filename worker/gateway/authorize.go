package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"strongroom/compute"
	"strongroom/schema"
)

// work is what goes on with a server that is on a host, or about to be.
type work struct {
	purpose
	server     compute.Server
	operations []compute.Operation // that have begun and not ended
}

// work gives what goes on with a server of this host. Forbidden: it is not on the host.
func (r Records) work(ctx context.Context, p purpose) (work, error) {
	if err := r.requireOn(ctx, p.Server); err != nil {
		return work{}, err
	}
	q := schema.New(r.Pool)
	server, err := schema.LoadServer(ctx, q, p.Server)
	if errors.Is(err, pgx.ErrNoRows) {
		return work{}, compute.Errorf(compute.Forbidden, "there is no server %s", p.Server)
	}
	if err != nil {
		return work{}, unavailable(err)
	}
	rows, err := q.RunningOperations(ctx, p.Server)
	if err != nil {
		return work{}, unavailable(err)
	}
	w := work{purpose: p, server: server}
	for _, row := range rows {
		w.operations = append(w.operations, row.Operation())
	}
	return w, nil
}

// mayRead fails with Forbidden unless the host may have the passphrase that it asks for.
func (r Records) mayRead(ctx context.Context, in passphraseRequest) error {
	if in.Volume != (compute.VolumeID{}) {
		return r.requireVolumeKey(ctx, in)
	}
	w, err := r.work(ctx, in.purpose)
	if err != nil {
		return err
	}
	return r.requireSecret(ctx, w, in.Secret)
}

// requireSecret fails with Forbidden unless an operation that runs reads the secret with
// the credential: as the key of a disk or of the TPM that the server has, with the
// credential that its flavor says; as one that the operation made, with what it was made
// with; or as one that the request names, with the credential of the request. Each secret
// goes with its own credential: an image may name any secret as its own, which
// strongroom's own login could read.
func (r Records) requireSecret(ctx context.Context, w work, id compute.SecretID) error {
	for _, op := range w.operations {
		if w.opens(w.server, op, id) {
			return nil
		}
		if op.Kind == compute.OpRevertResize && w.server.Former != nil && w.opens(w.server.Before(), op, id) {
			return nil // a vTPM, say, that the resize took away
		}
		if will, ok := w.resized(op); ok && w.opens(will, op, id) {
			return nil // its guest starts by the new flavor before the server has that
		}
		if op.Credential == w.Credential && namesSecret(op, id) {
			return nil
		}
	}
	return r.requireMade(ctx, w, compute.ThingKeySecret, id.String())
}

// opens reports whether a secret opens a disk or the TPM that a server has, or had, with the
// credential that its flavor says, and the operation is of a kind for which hosts read keys.
func (w work) opens(server compute.Server, op compute.Operation, id compute.SecretID) bool {
	if action, err := compute.ActionOf(op.Kind); err != nil || action.ReadsNoKey {
		return false
	}
	ring := server.Keyring(op.Credential)
	for _, d := range server.Disks {
		if (is(d.Secret, id) || is(d.BackingSecret, id)) && ring.OfDisk(d) == w.Credential {
			return true
		}
	}
	return server.TPM != nil && is(server.TPM.Secret, id) && ring.TPM == w.Credential
}

// resized is the server as an operation makes it: a resize, by one who may ask for it.
func (w work) resized(op compute.Operation) (compute.Server, bool) {
	if op.Kind != compute.OpResize {
		return compute.Server{}, false
	}
	in, err := compute.Resize.Read(op.Arguments)
	if err != nil {
		return compute.Server{}, false
	}
	will, err := w.server.ResizedTo(op.ID, in.Flavor)
	return will, err == nil && w.server.CheckMover(will, op.Credential) == nil
}

// requireImage fails with Forbidden unless an operation that runs made the image, with the
// credential; or, to read it, uses it with the credential of its request: it is one of the
// server's or of its disks', or the request names it. An image that keeps a disk of a shelved
// server is read with the credential for what is its owner's.
func (r Records) requireImage(ctx context.Context, w work, id compute.ImageID, change bool) error {
	if !change && w.readsImage(id) {
		return nil
	}
	return r.requireMade(ctx, w, compute.ThingImage, id.String())
}

func (w work) readsImage(id compute.ImageID) bool {
	own := w.server.Image.ID == id ||
		slices.ContainsFunc(w.server.Disks, func(d compute.Disk) bool { return d.Image != nil && *d.Image == id })
	keeps := slices.ContainsFunc(w.server.Disks, func(d compute.Disk) bool { return d.Shelved != nil && d.Shelved.Image == id })
	for _, op := range w.operations {
		if op.Credential == w.Credential && (own || bytes.Contains(op.Arguments, []byte(`"`+id.String()+`"`))) {
			return true
		}
		if keeps && w.server.OwnersCredential(op.Credential) == w.Credential {
			return true
		}
	}
	return false
}

// requireObject fails with Forbidden unless an operation that runs made the object, with
// the credential; or, to read it, the object is the server's and the credential one with
// which that operation could remove it.
func (r Records) requireObject(ctx context.Context, w work, name string, change bool) error {
	if !change {
		row, err := schema.New(r.Pool).OpenObject(ctx, name)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return unavailable(err)
		}
		if thing := row.Thing(""); err == nil && thing.Owner == compute.ServerOwner(w.Server) {
			for _, op := range w.operations {
				if slices.Contains(thing.Removers(op.Credential), w.Credential) {
					return nil
				}
			}
		}
	}
	return r.requireMade(ctx, w, compute.ThingObject, name)
}

// requireMade fails with Forbidden unless one of the operations made the thing, with the
// credential.
func (r Records) requireMade(ctx context.Context, w work, kind compute.ThingKind, id string) error {
	operations := make([]string, len(w.operations))
	for i, op := range w.operations {
		operations[i] = string(op.ID)
	}
	made, err := schema.New(r.Pool).MadeWith(ctx, schema.MadeWithParams{
		Kind: kind, ID: id, Operations: operations,
		CredentialID: w.Credential.ID, ProjectID: w.Credential.ProjectID, UserID: w.Credential.UserID,
	})
	if err != nil {
		return unavailable(err)
	}
	if !made {
		return compute.Errorf(compute.Forbidden, "no operation that runs on server %s uses %s %s with credential %s", w.Server, kind, id, w.Credential.ID)
	}
	return nil
}

// namesSecret reports whether the request for an operation names a secret.
func namesSecret(op compute.Operation, id compute.SecretID) bool {
	switch op.Kind {
	case compute.OpCreateImage, compute.OpCreateBackup:
		var in compute.SnapshotArguments
		return json.Unmarshal(op.Arguments, &in) == nil && is(in.Secret, id)
	case compute.OpRescue:
		var in compute.RescueArguments
		if json.Unmarshal(op.Arguments, &in) != nil {
			return false
		}
		encryption, err := in.Image.Encryption()
		return err == nil && encryption != nil && encryption.Secret == id
	}
	return false
}

func is(a *compute.SecretID, b compute.SecretID) bool { return a != nil && *a == b }
