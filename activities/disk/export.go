package disk

import (
	"context"
	"crypto/subtle"
	"path/filepath"

	"strongroom/activities/secret"
	"strongroom/compute"
)

// ExportInput asks for a copy of a disk of a server that does not run.
type ExportInput struct {
	Credential compute.Credential   `json:"credential"` // to read the disk's own secrets with
	Server     compute.ServerID     `json:"server"`
	Operation  compute.OperationID  `json:"operation"`         // names the folder of the copy
	Project    string               `json:"project,omitempty"` // as in CreateInput
	Disk       compute.Disk         `json:"disk"`
	Image      *compute.Image       `json:"image,omitempty"` // the source of a root disk, as in CreateInput
	Target     compute.ExportTarget `json:"target"`
}

// Export is the activity disk.Export: it ensures that the operation's folder has
// a copy of the disk that leans on no other file.
//
// With the same key the disk's clusters are copied as they are, header and all:
// they are not decrypted on the way, and the copy shares the disk's master key.
// What the disk has from its source alone is added under that key. Any other
// choice is one pass of decryption and encryption into a file with a LUKS header
// of its own.
//
// A killed attempt's file is begun anew. Conflict: the server runs, or the
// secret that is said to be the disk's own is another, or the disk cannot have such a
// copy (EE-21); Corrupt: a passphrase does not open its disk, or the disk is not what
// it should be; Invalid: the request contradicts itself; NoHost: no room; otherwise as
// the key manager says.
func (a *Activities) Export(ctx context.Context, in ExportInput) (compute.Export, error) {
	plan := compute.ExportPlan{Server: in.Server, Operation: in.Operation, Disk: in.Disk, Target: in.Target}
	x, err := a.exportFile(plan)
	if err != nil {
		return compute.Export{}, err
	}
	if err := a.AllowExport(ctx, plan); err != nil {
		return compute.Export{}, err
	}
	from, err := a.origin(ctx, in)
	defer from.wipe()
	if err != nil {
		return compute.Export{}, err
	}
	key, err := a.targetKey(ctx, in.Target, from)
	defer key.Wipe()
	if err != nil {
		return compute.Export{}, err
	}
	unlock, err := a.LockExport(ctx, plan)
	if err != nil {
		return compute.Export{}, err
	}
	defer unlock()
	if done, found, err := a.FindExport(ctx, plan, key); err != nil || found {
		return done, err
	}
	if err := room(a.InstancesDir, from.most(in.Target)); err != nil {
		return compute.Export{}, compute.Errorf(compute.KindOf(err), "disk %s: its copy: %w", in.Disk.ID, err)
	}
	defer x.discard()
	var i imageInfo
	if from.copiesAsIs(in.Target) {
		i, err = a.copyAsIs(ctx, from, x, plan.Disk)
	} else {
		i, err = a.convert(ctx, from, x, plan, key)
	}
	var done compute.Export
	if err == nil {
		done, err = x.keep(plan, i)
	}
	if err != nil {
		return compute.Export{}, exportFailure(ctx, in.Disk, err)
	}
	a.Logger.InfoContext(ctx, "exported disk", "server", in.Server, "disk", in.Disk.ID, "key", in.Target.Key, "format", done.Format, "bytes", done.Bytes)
	return done, nil
}

// AllowExport refuses a copy that cannot be made of a disk where it is. Conflict: it is
// refused; Unavailable: what says so does not answer.
func (a *Activities) AllowExport(ctx context.Context, p compute.ExportPlan) error {
	at, err := a.place(p.Server, p.Disk)
	if err != nil {
		return err
	}
	return at.allows(ctx, p.Disk, p.Target)
}

// targetKey reads the passphrase of the copy; nil: it is not encrypted.
func (a *Activities) targetKey(ctx context.Context, t compute.ExportTarget, from origin) (*secret.Passphrase, error) {
	if t.Secret == nil {
		return nil, nil //nolint:nilnil // a passphrase that is nil is none
	}
	key, err := a.Keys.Passphrase(ctx, t.Credential, *t.Secret)
	if err != nil || t.Key != compute.KeySame {
		return key, err
	}
	same := false
	err = key.Use(func(copied []byte) error {
		return from.key.Use(func(own []byte) error {
			same = subtle.ConstantTimeCompare(copied, own) == 1
			return nil
		})
	})
	if err == nil && !same {
		err = compute.Errorf(compute.Conflict, "secret %s is no copy of the disk's own", t.Secret)
	}
	return key, err
}

// exportFailure gives a failed copy its kind.
func exportFailure(ctx context.Context, d compute.Disk, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case says(err, "Invalid password"):
		return compute.Errorf(compute.Corrupt, "disk %s: a passphrase does not open it: %w", d.ID, err)
	case says(err, inUse):
		return compute.Errorf(compute.Conflict, "disk %s is in use by a server that runs", d.ID)
	}
	return failed(ctx, err, "copy of disk %s", d.ID)
}

// name is an export's file, relative to the folder of the servers.
func (x exportFile) name() string {
	folder := filepath.Dir(x.final)
	return filepath.Join(filepath.Base(filepath.Dir(folder)), filepath.Base(folder), filepath.Base(x.final))
}
