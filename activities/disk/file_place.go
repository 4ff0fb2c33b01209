package disk

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"strongroom/activities/disk/luks"
	"strongroom/compute"
)

// filePlace keeps a disk as a qcow2 file in its server's folder.
type filePlace struct {
	*Activities

	path string
}

func (filePlace) whole() bool { return false }

func (p filePlace) create(ctx context.Context, in CreateInput, want newDisk) (map[string]string, error) {
	if _, err := os.Stat(p.path); !errors.Is(err, fs.ErrNotExist) {
		i, err := p.verify(ctx, in.Disk, want)
		return i.usedOptions(), err
	}
	if err := room(p.InstancesDir, headerRoom); err != nil {
		return nil, compute.Errorf(compute.KindOf(err), "disk %s: %w", in.Disk.ID, err)
	}
	if err := p.sourceOpens(ctx, in, want); err != nil {
		return nil, err
	}
	if err := p.make(ctx, want); err != nil {
		return nil, failed(ctx, err, "disk %s: %s of server %s", in.Disk.ID, in.Disk.Name(), in.Server)
	}
	p.Logger.InfoContext(ctx, "made disk", "server", in.Server, "disk", in.Disk.ID, "file", in.Disk.Name(), "bytes", want.bytes, "encrypted", in.Disk.Encrypted)
	i, err := p.info(ctx, p.path, "qcow2")
	if err != nil {
		return nil, failed(ctx, err, "disk %s", in.Disk.ID)
	}
	return i.usedOptions(), nil
}

// make makes the file under another name and gives it its own when it is complete and
// on disk.
func (p filePlace) make(ctx context.Context, want newDisk) error {
	want.path = hidden(p.path, ".new")
	defer os.Remove(want.path)
	if err := os.Remove(want.path); err != nil && !errors.Is(err, fs.ErrNotExist) { // of an attempt that was killed
		return err
	}
	create := p.createFile
	if want.passphrase != nil {
		create = p.copyTemplate
	}
	if err := create(ctx, want); err != nil {
		return err
	}
	f, err := os.OpenFile(want.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return p.finish(f, p.path)
}

// writeWhole makes a file under another name, and gives it its own when it is complete and on disk.
func (a *Activities) writeWhole(path string, write func(*os.File) error) error {
	draft := hidden(path, ".new")
	defer os.Remove(draft)
	if err := os.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) { // of an attempt that was killed
		return err
	}
	f, err := os.OpenFile(draft, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := write(f); err != nil {
		return err
	}
	return a.finish(f, path)
}

// finish gives a whole file to QEMU's user and puts it on disk, under the name path.
func (a *Activities) finish(f *os.File, path string) error {
	if err := errors.Join(f.Chown(a.Owner.UID, a.Owner.GID), f.Chmod(0o600), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// verify checks that a file that is there is the one that is asked for.
func (p filePlace) verify(ctx context.Context, d compute.Disk, want newDisk) (imageInfo, error) {
	i, err := p.info(ctx, p.path, "qcow2")
	if err != nil {
		return i, failed(ctx, err, "disk %s", d.ID)
	}
	switch {
	case i.VirtualSize != want.bytes:
		return i, compute.Errorf(compute.Conflict, "disk %s exists with %d bytes, not %d", d.ID, i.VirtualSize, want.bytes)
	case i.BackingFilename != want.backing:
		return i, compute.Errorf(compute.Conflict, "disk %s exists with another source", d.ID)
	case i.Encrypted != d.Encrypted:
		return i, compute.Errorf(compute.Conflict, "disk %s exists and encrypted is %t", d.ID, i.Encrypted)
	case d.Encrypted:
		err = p.opens(ctx, p.path, want.passphrase)
	}
	if says(err, "Invalid password") {
		return i, compute.Errorf(compute.Conflict, "disk %s exists and does not open with secret %s", d.ID, d.Secret)
	}
	if err != nil {
		return i, failed(ctx, err, "disk %s", d.ID)
	}
	return i, nil
}

func (p filePlace) origin(ctx context.Context, in ExportInput) (o origin, err error) {
	d := in.Disk
	switch {
	case in.Image != nil && in.Image.IsEncrypted() != (d.BackingSecret != nil):
		return o, compute.Errorf(compute.Invalid, "disk %s: the secret of what lies under it is %v, and its source says otherwise", d.ID, d.BackingSecret)
	case in.Image != nil:
		if o.backing, err = p.CachedImage(in.Project, *in.Image); err != nil {
			return o, err
		}
		if o.backingFormat, err = in.Image.BackingFormat(); err != nil {
			return o, err
		}
	}
	o.path = p.path
	if o.info, err = p.idle(ctx, p.path, "qcow2"); err != nil {
		if _, missing := os.Stat(p.path); missing != nil && ctx.Err() == nil {
			return o, compute.Errorf(compute.Corrupt, "disk %s is missing", d.ID)
		}
		return o, exportFailure(ctx, d, err)
	}
	if i := o.info; i.Encrypted != d.Encrypted || i.BackingFilename != o.backing {
		return o, compute.Errorf(compute.Corrupt, "disk %s is not what it was made as: encrypted %t, on %q", d.ID, i.Encrypted, i.BackingFilename)
	}
	if err := o.measure(); err != nil {
		return o, compute.Errorf(compute.Corrupt, "disk %s: its source is missing", d.ID)
	}
	if err = o.lend(ctx, p.Keys, in); err != nil || o.backing == "" || d.BackingSecret == nil {
		return o, err
	}
	o.backingKey, err = p.Keys.Passphrase(ctx, in.Credential, *d.BackingSecret)
	return o, err
}

func (p filePlace) allows(context.Context, compute.Disk, compute.ExportTarget) error { return nil }

func (p filePlace) onHeader(do func(luks.Header) error) error {
	f, err := os.OpenFile(p.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	offset, bytes, err := cryptoHeader(f)
	if err == nil {
		err = do(luks.Header{File: f, Offset: offset, Room: bytes})
	}
	return errors.Join(err, f.Close())
}

// remove removes a file, or the folder of an export, for good.
func (p filePlace) remove(context.Context) error {
	for _, path := range []string{p.path, hidden(p.path, ".new"), notePath(p.path)} {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return syncDir(filepath.Dir(p.path))
}
