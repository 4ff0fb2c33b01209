package disk

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"strongroom/compute"
)

// RestoreInput asks for a disk of a shelved server, made of what the image store keeps of
// it (compute.Disk.Shelved).
type RestoreInput struct {
	Credential compute.Credential `json:"credential"` // to read the image with
	Server     compute.ServerID   `json:"server"`
	Disk       compute.Disk       `json:"disk"`
}

// Restore is the activity disk.Restore: it ensures that the server's folder has the disk as
// it was shelved, byte for byte: it is neither decrypted nor encrypted, no key is needed. The
// file appears under its name when all of it is there and has the digest that the server's
// record says. A project has two downloads at once on a host, and others are Unavailable for some seconds.
//
// NotFound: the image is not there; Corrupt: its bytes are others, or its header costs too much; NoHost: no room, or the
// host keeps disks in a pool; Invalid: the disk is not shelved; otherwise as the image store
// says.
func (a *Activities) Restore(ctx context.Context, in RestoreInput) error {
	if in.Disk.Shelved == nil || in.Disk.OnDevice() {
		return compute.Errorf(compute.Invalid, "disk %s is not kept as an image", in.Disk.ID)
	}
	if a.Pool.Name != "" {
		return compute.Errorf(compute.NoHost, "disk %s: this host keeps disks in a pool, where shelved ones are not brought back to", in.Disk.ID)
	}
	path, err := a.diskPath(in.Server, in.Disk)
	if err != nil {
		return err
	}
	left, err := a.turns.take(in.Credential.ProjectID)
	if err != nil {
		return failed(ctx, err, "disk %s", in.Disk.ID)
	}
	defer left()
	unlock, err := lockFile(ctx, path, true)
	if err != nil {
		return failed(ctx, err, "disk %s: lock of its file", in.Disk.ID)
	}
	defer unlock()
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		if err != nil {
			return failed(ctx, err, "disk %s", in.Disk.ID)
		}
		return nil // it got its name when it was whole
	}
	if err := room(a.InstancesDir, in.Disk.Shelved.SizeBytes); err != nil {
		return compute.Errorf(compute.KindOf(err), "disk %s: %w", in.Disk.ID, err)
	}
	return a.restore(ctx, in, path)
}

func (a *Activities) restore(ctx context.Context, in RestoreInput, path string) error {
	draft := hidden(path, ".new")
	defer os.Remove(draft)
	f, err := os.OpenFile(draft, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return failed(ctx, err, "disk %s", in.Disk.ID)
	}
	defer f.Close()
	if err := a.download(ctx, CacheImageInput{Credential: in.Credential, Image: in.Disk.Shelved.Record()}, "", f); err != nil {
		return err
	}
	i, err := a.idle(ctx, draft, "qcow2")
	if err == nil && (i.Encrypted != in.Disk.Encrypted || i.BackingFilename != "") {
		err = compute.Errorf(compute.Corrupt, "it is encrypted: %t, its backing file is %q", i.Encrypted, i.BackingFilename)
	}
	if err == nil {
		err = a.finish(f, path)
	}
	if err != nil {
		return failed(ctx, err, "disk %s", in.Disk.ID)
	}
	a.Logger.InfoContext(ctx, "restored disk", "server", in.Server, "disk", in.Disk.ID, "image", in.Disk.Shelved.Image, "bytes", in.Disk.Shelved.SizeBytes)
	return nil
}
