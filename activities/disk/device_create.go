package disk

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"strongroom/compute"
)

// A disk of the format plain or luksv2 is a logical volume, decrypted by the kernel.
// It gets its name when it is complete, as a file does, and in the server's folder a
// link leads to it. A root disk is a copy of its image: volumes lean on nothing.

// undoTime is how long an attempt that failed may still take to leave nothing half made.
const undoTime = 20 * time.Second

// createVolume is Create for such a disk. The caller has the disk's lock.
func (a *Activities) createVolume(ctx context.Context, in CreateInput, want newDisk) (CreateResult, error) {
	d := in.Disk
	v := a.volume(in.Server, d.Name())
	bytes := want.bytes
	if d.Format == compute.FormatLUKSv2 {
		bytes += luks2Header
	}
	whole, draft, err := a.findVolume(ctx, v)
	var options map[string]string
	switch {
	case err != nil:
	case whole != nil && !whole.holds(bytes):
		err = compute.Errorf(compute.Conflict, "it exists with %s bytes, not %d", whole.Bytes, bytes)
	case whole != nil:
		options, err = a.verifyVolume(ctx, v, *whole, d, want)
	default:
		err = a.sourceOpens(ctx, in, want)
		if draft != nil && err == nil { // of an attempt that was killed
			err = a.removeVolume(ctx, v.draft())
		}
		if err == nil {
			options, err = a.makeDisk(ctx, v, d, want, bytes)
		}
	}
	if err == nil {
		err = a.link(v, in.Server, d)
	}
	if err != nil {
		return CreateResult{}, volumeFailure(ctx, d, err)
	}
	return CreateResult{EncryptionOptions: options}, nil
}

// link ensures that a disk's name in its server's folder leads to the volume.
func (a *Activities) link(v volume, server compute.ServerID, d compute.Disk) error {
	dir, err := a.serverDir(server)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, d.Name())
	if to, err := os.Readlink(path); err == nil && to == v.path() {
		return nil
	}
	if err := os.Symlink(v.path(), path); errors.Is(err, fs.ErrExist) {
		return compute.Errorf(compute.Conflict, "there is a file in its place")
	} else if err != nil {
		return err
	}
	return syncDir(dir)
}

// makeDisk makes the volume under another name and gives it its own when it is
// complete.
func (a *Activities) makeDisk(ctx context.Context, v volume, d compute.Disk, want newDisk, bytes int64) (options map[string]string, err error) {
	draft := v.draft()
	if err := a.makeVolume(ctx, draft, bytes); err != nil {
		return nil, err
	}
	defer func() {
		if err == nil {
			a.Logger.InfoContext(ctx, "made disk", "disk", d.ID, "volume", v, "bytes", want.bytes, "format", d.Format)
			return
		}
		aside, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
		defer cancel()
		if undo := a.removeVolume(aside, draft); undo != nil {
			a.Logger.WarnContext(ctx, "a half made volume is left to the next attempt", "volume", draft, "error", undo)
		}
	}()
	if d.Format == compute.FormatLUKSv2 {
		if err := a.formatVolume(ctx, draft, want.passphrase); err != nil {
			return nil, err
		}
	}
	if err := a.openMapping(ctx, draft, d.Format, want.passphrase); err != nil {
		return nil, err
	}
	if want.backing != "" {
		if err := a.fill(ctx, draft, want); err != nil {
			return nil, err
		}
	}
	if options, err = a.deviceOptions(ctx, draft, d.Format); err != nil {
		return nil, err
	}
	if err := a.closeMapping(ctx, draft); err != nil {
		return nil, err
	}
	return options, a.renameVolume(ctx, draft, v)
}

// fill copies the image to an open volume; its empty parts too, for what is not
// written there reads as noise.
func (a *Activities) fill(ctx context.Context, v volume, want newDisk) error {
	source := origin{backing: want.backing, backingFormat: want.backingFormat, backingKey: want.backingKey}
	c := Command{Name: "qemu-img", Args: []string{
		"convert", "-p", "-n", "-t", "none", "-T", cacheMode(want.backing), "--target-image-opts"}}
	source.lendTo(&c)
	c.Args = append(c.Args, source.backingNode().json(), deviceNode(v.opened()).options())
	return a.runLong(ctx, c, want.bytes)
}

// verifyVolume checks that a volume that is there opens with the disk's passphrase,
// as far as its format can tell, and reads its options.
func (a *Activities) verifyVolume(ctx context.Context, v volume, i volumeInfo, d compute.Disk, want newDisk) (options map[string]string, err error) {
	if err := a.activate(ctx, v, i); err != nil {
		return nil, err
	}
	wasOpen := v.isOpen()
	if err = a.openMapping(ctx, v, d.Format, want.passphrase); err == nil {
		options, err = a.deviceOptions(ctx, v, d.Format)
	}
	if !wasOpen {
		err = errors.Join(err, a.closeMapping(ctx, v))
	}
	if compute.Is(err, compute.Corrupt) {
		return nil, compute.Errorf(compute.Conflict, "it exists and does not open with secret %s: %w", d.Secret, err)
	}
	return options, err
}

// volumeFailure gives the kind to a failure of a command on a volume.
func volumeFailure(ctx context.Context, d compute.Disk, err error) error {
	if ctx.Err() == nil && (says(err, "insufficient free space") || says(err, "Insufficient free space") || says(err, "Volume group \"")) {
		return compute.Errorf(compute.NoHost, "disk %s: %w", d.ID, err)
	}
	return failed(ctx, err, "disk %s", d.ID)
}
