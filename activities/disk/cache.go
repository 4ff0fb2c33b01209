package disk

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"go.temporal.io/sdk/activity"

	"strongroom/compute"
)

// digestOf gives what an image's record says of its bytes, and the hash for it.
func digestOf(img compute.Image) (sum hash.Hash, name, digest string, ok bool) {
	name, digest, ok = img.Digest()
	if name == "sha512" {
		return sha512.New(), name, digest, ok
	}
	return sha256.New(), name, digest, ok
}

// CacheImage is the activity disk.CacheImage: it ensures that the host has a
// whole and checked copy of an image. Of several at once one downloads, and the others
// are Unavailable for some seconds, as is a third image for the project of the credential. A broken download leaves nothing that could be taken
// for an image, and the next one begins anew.
//
// Invalid: no format that a host can boot from, or an encrypted image for no use of
// it; Corrupt: the bytes are not those of the record, or no sound qcow2 or LUKS, or
// they name other files of the host, or the host's copy has changed and is in use;
// NoHost: no room; Unavailable, for some seconds: what takes the room was cached for disks
// that are about to be made; otherwise as the image store says.
func (a *Activities) CacheImage(ctx context.Context, in CacheImageInput) error {
	u, err := useOf(in)
	if err != nil {
		return err
	}
	path, err := a.CachedImage(u.project, in.Image)
	if err != nil {
		return err
	}
	if in.Image.IsEncrypted() {
		if err := a.markUse(ctx, u); err != nil {
			return failed(ctx, err, "image %s: note of its use", in.Image.ID)
		}
	}
	return a.cache(ctx, in, u.project, path)
}

// cache is CacheImage once the use is noted.
func (a *Activities) cache(ctx context.Context, in CacheImageInput, project, path string) error {
	if whole(path, in.Image) {
		touch(path)
		return nil
	}
	f, err := lockPart(path)
	if err != nil {
		return failed(ctx, err, "image %s: lock of the host's copy", in.Image.ID)
	}
	defer f.Close()
	done := false
	defer func() {
		if !done {
			os.Remove(f.Name())
		}
	}()
	if whole(path, in.Image) { // by the one that held the lock
		touch(path)
		return nil
	}
	left, err := a.turns.take(in.Credential.ProjectID)
	if err != nil {
		return failed(ctx, err, "image %s", in.Image.ID)
	}
	defer left()
	if ok, err := a.recheck(ctx, path, in.Image); err != nil {
		return failed(ctx, err, "image %s", in.Image.ID)
	} else if ok {
		touch(path)
		return nil
	}
	if err := a.makeRoom(ctx, f, in.Image); err != nil {
		return failed(ctx, err, "image %s", in.Image.ID)
	}
	if err := a.download(ctx, in, project, f); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil { // as QEMU and those that look at it before must find it
		return failed(ctx, err, "image %s", in.Image.ID)
	}
	if err := a.inspect(ctx, f.Name(), in.Image); err != nil {
		return err
	}
	err = errors.Join(a.seal(f), f.Sync())
	if err == nil {
		err = note(f, path, in.Image)
	}
	if err == nil {
		touch(f.Name()) // what is written is not used by that
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return failed(ctx, err, "image %s", in.Image.ID)
	}
	done = true
	if err := syncDir(filepath.Dir(path)); err != nil {
		return failed(ctx, err, "image %s", in.Image.ID)
	}
	a.Logger.InfoContext(ctx, "cached image", "image", in.Image.ID, "bytes", in.Image.SizeBytes)
	return nil
}

// partSuffix is that of the name of an image that is downloaded.
const partSuffix = ".part"

// lockPart takes the lock of an image that is downloaded or checked: the file that is
// filled. Unavailable, for some seconds: another one has it.
func lockPart(path string) (*os.File, error) {
	temp := path + partSuffix
	f, err := tryLockPath(temp, func() (*os.File, error) { return os.OpenFile(temp, os.O_CREATE|os.O_RDWR, 0o600) })
	if errors.Is(err, syscall.EWOULDBLOCK) {
		// To wait here would take all slots of the host from others (H6).
		return nil, busy{compute.Errorf(compute.Unavailable, "another operation is downloading or checking it")}
	}
	return f, err
}

// hold keeps the image in the cache under a disk that is about to be made, until release is
// called. Then the disk lies on it, and it stays for that. NotFound: the cache does not have
// it, or not as it was checked, so that CacheImage must look at it again: a copy that nothing
// lies on makes room for others. Nothing is downloaded or compared here, in a slot for short
// work (H6).
func (a *Activities) hold(ctx context.Context, in CreateInput, path string) (release func(), err error) {
	gone := compute.Errorf(compute.NotFound, "image %s is not in the host's cache", in.Image.ID)
	touch(path)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, gone
	}
	if err == nil {
		err = flock(ctx, f, syscall.LOCK_SH)
	}
	if err != nil {
		f.Close()
		return nil, failed(ctx, err, "image %s: lock of the host's copy", in.Image.ID)
	}
	if !leadsTo(path, f) || !whole(path, *in.Image) {
		f.Close()
		return nil, gone
	}
	return func() { f.Close() }, nil
}

// CachedImage is the path of the host's copy of an image, whether it is there or
// not; that of an encrypted image is the project's. Invalid: no host can use the
// image.
func (a *Activities) CachedImage(project string, img compute.Image) (string, error) {
	name, err := img.CacheName(project)
	if err != nil {
		return "", err
	}
	if img.IsEncrypted() {
		return filepath.Join(a.CacheDir, encryptedFolder, name, imageFile), nil
	}
	return filepath.Join(a.CacheDir, name), nil
}

// download fills the file and checks size and sha256. project is for which a host keeps the image, if it
// is encrypted.
func (a *Activities) download(ctx context.Context, in CacheImageInput, project string, to io.Writer) error {
	if activity.IsActivity(ctx) && !slices.Contains([]string{CacheImage.Name, Restore.Name}, activity.GetInfo(ctx).ActivityType.Name) {
		return compute.Errorf(compute.Invalid, "image %s: a bug: %s downloads, in a slot for short work", in.Image.ID, activity.GetInfo(ctx).ActivityType.Name)
	}
	sum, name, digest, ok := digestOf(in.Image)
	if !ok {
		return compute.Errorf(compute.Invalid, "image %s has no sha256 to check it by", in.Image.ID)
	}
	from, err := a.openImage(ctx, in, project)
	if err != nil {
		return err
	}
	defer from.Close()
	stop := context.AfterFunc(ctx, func() { from.Close() }) // a Read that hangs ends with it
	defer stop()
	p := &progress{ctx: ctx, Progress: Progress{Phase: "download", Total: in.Image.SizeBytes}}
	// One byte more than the record says is enough to know that it is wrong.
	n, err := io.Copy(io.MultiWriter(to, sum, p), io.LimitReader(from, in.Image.SizeBytes+1))
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, syscall.ENOSPC):
		return compute.Errorf(compute.NoHost, "image %s: the host's image cache is full", in.Image.ID)
	case compute.KindOf(err) != "":
		return err
	case err != nil:
		return compute.Errorf(compute.Unavailable, "image %s: download broke off after %d bytes: %w", in.Image.ID, n, err)
	case n < in.Image.SizeBytes:
		return compute.Errorf(compute.Unavailable, "image %s: download ended after %d of %d bytes", in.Image.ID, n, in.Image.SizeBytes)
	case n > in.Image.SizeBytes:
		return compute.Errorf(compute.Corrupt, "image %s has more than the %d bytes of its record", in.Image.ID, in.Image.SizeBytes)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != digest {
		return compute.Errorf(compute.Corrupt, "image %s: %s is %s, its record says %s", in.Image.ID, name, got, digest)
	}
	return nil
}

// openImage opens the image in the image store or, where that gives none, on the host that the
// server leaves. What that one says is told to nobody: it is the image store's answer that can be
// mended.
func (a *Activities) openImage(ctx context.Context, in CacheImageInput, project string) (io.ReadCloser, error) {
	from, err := a.Images.Open(ctx, in.Credential, in.Image.ID)
	if err == nil || in.Former == nil || a.Hosts == nil || ctx.Err() != nil {
		return from, err
	}
	name, nameErr := in.Image.CacheName(project)
	if nameErr != nil {
		return nil, err
	}
	log := a.Logger.With("image", in.Image.ID, "host", in.Former.Agent.Name, "server", in.Former.Server, "refusal", err)
	from, copyErr := a.Hosts.Image(ctx, in.Former.Agent, compute.Transfer{
		Server: in.Former.Server, Operation: in.Former.Operation, Kind: compute.ThingCachedImage, Name: name,
	})
	if copyErr != nil {
		log.WarnContext(ctx, "neither the image store nor the server's former host gives the image", "error", copyErr)
		return nil, err
	}
	log.InfoContext(ctx, "the server's former host gives the image, for the image store does not")
	return from, nil
}

// reserve is what a file system must keep free beside what is to be written.
const reserve = 64 << 20

// room checks that a folder's file system takes so many bytes more.
func room(dir string, bytes int64) error {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return compute.Errorf(compute.Unavailable, "file system: %w", err)
	}
	if free := int64(fs.Bavail) * fs.Bsize; free < bytes+reserve {
		return compute.Errorf(compute.NoHost, "the host has %d MiB free and needs %d MiB", free>>20, (bytes+reserve)>>20)
	}
	return nil
}
