package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"strongroom/activities/disk/luks"
	"strongroom/compute"
)

// undoTime is how long an attempt that failed may still take to leave nothing half made.
const undoTime = 20 * time.Second

// volumePlace keeps a disk of the format plain or luksv2 as a logical volume, decrypted
// by the kernel. It gets its name when it is complete, as a file does, and in the
// server's folder a link leads to it. A root disk is a copy of its image: volumes lean
// on nothing.
type volumePlace struct {
	*Activities
	volume

	link string // its path in the server's folder
}

func (volumePlace) whole() bool { return true }

func (p volumePlace) create(ctx context.Context, in CreateInput, want newDisk) (options map[string]string, err error) {
	d := in.Disk
	bytes := want.bytes
	if d.Format == compute.FormatLUKSv2 {
		bytes += luks2Header
	}
	whole, draft, err := p.findVolume(ctx, p.volume)
	switch {
	case err != nil:
	case whole != nil && !whole.holds(bytes):
		err = compute.Errorf(compute.Conflict, "it exists with %s bytes, not %d", whole.Bytes, bytes)
	case whole != nil:
		options, err = p.verify(ctx, *whole, d, want)
	default:
		err = p.sourceOpens(ctx, in, want)
		if draft != nil && err == nil { // of an attempt that was killed
			err = p.removeVolume(ctx, p.draft())
		}
		if err == nil {
			options, err = p.make(ctx, d, want, bytes)
		}
	}
	if err == nil {
		err = p.ensureLink()
	}
	if err != nil {
		return nil, volumeFailure(ctx, d, err)
	}
	return options, nil
}

func (p volumePlace) allows(context.Context, compute.Disk, compute.ExportTarget) error { return nil }

func (p volumePlace) onHeader(func(luks.Header) error) error {
	return fmt.Errorf("it is a block device: %w", errFixedKeys)
}

func (p volumePlace) remove(ctx context.Context) error {
	whole, draft, err := p.findVolume(ctx, p.volume)
	if whole != nil {
		err = p.removeVolume(ctx, p.volume)
	}
	if draft != nil {
		err = errors.Join(err, p.removeVolume(ctx, p.draft()))
	}
	return err
}

// linkedAt reports whether a path leads to the volume.
func (v volume) linkedAt(path string) bool {
	to, err := os.Readlink(path)
	return err == nil && to == v.path()
}

// ensureLink ensures that a disk's name in its server's folder leads to the volume.
func (p volumePlace) ensureLink() error {
	if p.linkedAt(p.link) {
		return nil
	}
	if err := os.Symlink(p.volume.path(), p.link); errors.Is(err, fs.ErrExist) {
		return compute.Errorf(compute.Conflict, "there is a file in its place")
	} else if err != nil {
		return err
	}
	return syncDir(filepath.Dir(p.link))
}

// make makes the volume under another name and gives it its own when it is complete.
func (p volumePlace) make(ctx context.Context, d compute.Disk, want newDisk, bytes int64) (options map[string]string, err error) {
	draft := p.draft()
	if err := p.makeVolume(ctx, draft, bytes); err != nil {
		return nil, err
	}
	defer func() {
		if err == nil {
			p.Logger.InfoContext(ctx, "made disk", "disk", d.ID, "volume", p.volume, "bytes", want.bytes, "format", d.Format)
			return
		}
		aside, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
		defer cancel()
		if undo := p.removeVolume(aside, draft); undo != nil {
			p.Logger.WarnContext(ctx, "a half made volume is left to the next attempt", "volume", draft, "error", undo)
		}
	}()
	if d.Format == compute.FormatLUKSv2 {
		if err := p.formatVolume(ctx, draft, want.passphrase); err != nil {
			return nil, err
		}
	}
	if err := p.openMapping(ctx, draft, d, want.passphrase); err != nil {
		return nil, err
	}
	if want.backing != "" {
		if err := p.fill(ctx, draft, want); err != nil {
			return nil, err
		}
	}
	if options, err = p.deviceOptions(ctx, draft, d); err != nil {
		return nil, err
	}
	if err := p.closeMapping(ctx, draft); err != nil {
		return nil, err
	}
	return options, p.renameVolume(ctx, draft, p.volume)
}

// fill copies the image to an open volume; its empty parts too, for what is not
// written there reads as noise.
func (p volumePlace) fill(ctx context.Context, v volume, want newDisk) error {
	source := origin{backing: want.backing, backingFormat: want.backingFormat, backingKey: want.backingKey}
	c := Command{Name: "qemu-img", Args: []string{
		"convert", "-p", "-n", "-t", "none", "-T", cacheMode(want.backing), "--target-image-opts"}}
	source.lendTo(&c)
	c.Args = append(c.Args, source.backingNode().json(), deviceNode(v.opened()).options())
	return p.runLong(ctx, c, want.bytes)
}

// verify checks that a volume that is there opens with the disk's passphrase,
// as far as its format can tell, and reads its options.
func (p volumePlace) verify(ctx context.Context, i volumeInfo, d compute.Disk, want newDisk) (options map[string]string, err error) {
	if err := p.activate(ctx, p.volume, i); err != nil {
		return nil, err
	}
	v := p.volume
	v.unchecked = i.has(uncheckedTag)
	wasOpen := p.isOpen()
	if err = p.openMapping(ctx, v, d, want.passphrase); err == nil {
		options, err = p.deviceOptions(ctx, v, d)
	}
	if !wasOpen {
		err = errors.Join(err, p.closeMapping(ctx, p.volume))
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
