package disk

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"strongroom/activities/secret"
	"strongroom/compute"
)

// copyAsIs makes the copy of a disk from its file as it is. What the disk has
// from its source is added to it, under the disk's own key, so that the copy
// leans on nothing.
func (a *Activities) copyAsIs(ctx context.Context, from origin, x exportFile, d compute.Disk) (imageInfo, error) {
	if err := x.clear(d); err != nil {
		return imageInfo{}, err
	}
	copying, both := errgroup.WithContext(ctx)
	copying.Go(func() error { return a.copyFile(both, from.path, x.draft) })
	if from.key != nil { // which the copying itself does not try
		copying.Go(func() error { return a.opens(both, from.path, from.key) })
	}
	if err := copying.Wait(); err != nil || from.backing == "" {
		return from.info, err
	}
	// "unsafe" spares the wait until all that was just copied is on disk.
	c := Command{Name: "qemu-img", Args: []string{"rebase", "-p", "-t", "unsafe", "-b", ""}}
	from.lendTo(&c)
	c.Args = append(c.Args, from.node(x.draft).json())
	if err := a.runLong(ctx, c, from.bytes()); err != nil {
		return imageInfo{}, err
	}
	return ofOurs(a.idle(ctx, x.draft, compute.ImageQcow2))
}

// convert makes the copy of a disk in one pass over what the guest sees of it.
func (a *Activities) convert(ctx context.Context, from origin, x exportFile, p compute.ExportPlan, key *secret.Passphrase) (imageInfo, error) {
	if err := a.MakeExportDraft(ctx, p, from.bytes(), key); err != nil {
		return imageInfo{}, err
	}
	to := rawNode(x.draft)
	switch {
	case p.Target.Format == compute.ImageQcow2 && key != nil:
		to = qcow2Node(x.draft, targetKey, nil)
	case p.Target.Format == compute.ImageQcow2:
		to = qcow2Node(x.draft, "", nil)
	case key != nil:
		to = luksNode(x.draft, targetKey)
	}
	c := Command{Name: "qemu-img", Args: []string{
		"convert", "-p", "-n", "-W", "-m", "16", "-t", cacheMode(x.draft), "-T", cacheMode(from.path), "--target-image-opts"}}
	if p.Target.Format != compute.ImageLUKS { // whose holes are noise to its reader
		c.Args = append(c.Args, "--target-is-zero")
	}
	from.lendTo(&c)
	if key != nil {
		c.lend(targetKey, key)
	}
	c.Args = append(c.Args, from.node(from.path).json(), to.options())
	if err := a.runLong(ctx, c, from.bytes()); err != nil {
		return imageInfo{}, err
	}
	return ofOurs(a.idle(ctx, x.draft, p.Target.Format))
}

// runLong runs a command with -p and reports how far it is.
func (a *Activities) runLong(ctx context.Context, c Command, bytes int64) error {
	p := &progress{ctx: ctx, Progress: Progress{Phase: "convert", Total: bytes}}
	c.Percent = func(percent float64) { p.reach(int64(percent / 100 * float64(bytes))) }
	_, err := a.Runner.Run(ctx, c)
	return err
}

// copyChunk is how much is copied between two looks at the context.
const copyChunk = 64 << 20

// copyFile makes a file with another's content, sharing its blocks where the file
// system can, and with holes where that has some.
func (a *Activities) copyFile(ctx context.Context, from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	if unix.IoctlFileClone(int(out.Fd()), int(in.Fd())) == nil {
		return out.Close()
	}
	p := &progress{ctx: ctx, Progress: Progress{Phase: "copy", Total: info.Size()}}
	for at := int64(0); at < info.Size(); {
		if err := ctx.Err(); err != nil {
			return err
		}
		at, err = in.Seek(at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) { // a hole up to the end
			break
		}
		if err != nil {
			return err
		}
		hole, err := in.Seek(at, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		n := min(hole-at, copyChunk)
		if err := copyRange(in, out, at, n); err != nil {
			return err
		}
		at += n
		p.reach(at)
	}
	return errors.Join(out.Truncate(info.Size()), out.Close())
}

// copyRange copies a part of a file; the kernel does it.
func copyRange(in, out *os.File, at, n int64) error {
	if _, err := in.Seek(at, io.SeekStart); err != nil {
		return err
	}
	if _, err := out.Seek(at, io.SeekStart); err != nil {
		return err
	}
	_, err := io.CopyN(out, in, n)
	return err
}
