package disk

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"strongroom/compute"
)

// imageMode is that of an image in the cache. It is root's, and disks of many servers lie
// on it: QEMU reads it and cannot write to it (M5).
const imageMode = 0o444

// checked is what is noted beside an image when its bytes were compared with its record.
// A file that differs from it was written to, or is another one.
type checked struct {
	Digest   string `json:"digest"`
	Bytes    int64  `json:"bytes"`
	Inode    uint64 `json:"inode"`
	Modified int64  `json:"modified"` // nanoseconds
}

func noteOf(path string) string { return hidden(path, ".checked") }

func stateOf(info fs.FileInfo, img compute.Image) checked {
	_, _, digest, _ := digestOf(img)
	c := checked{Digest: digest, Bytes: info.Size(), Modified: info.ModTime().UnixNano()}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		c.Inode = s.Ino
	}
	return c
}

// whole reports whether the cache has the image, as it was when it was checked, in a file
// that nobody but root could have written to since.
func whole(path string, img compute.Image) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() != img.SizeBytes || info.Mode()&0o022 != 0 {
		return false
	}
	if s, ok := info.Sys().(*syscall.Stat_t); !ok || int(s.Uid) != os.Geteuid() {
		return false
	}
	text, err := os.ReadFile(noteOf(path))
	if err != nil {
		return false
	}
	var noted checked
	return json.Unmarshal(text, &noted) == nil && noted == stateOf(info, img)
}

// seal takes an image file, whose bytes were checked or are about to be, from QEMU's user.
func (a *Activities) seal(f *os.File) error {
	return errors.Join(f.Chown(os.Geteuid(), a.Owner.GID), f.Chmod(imageMode))
}

// note notes that the bytes of a sealed file were checked, for the path that it has or is
// about to get. A note that is cut off is none.
func note(f *os.File, path string, img compute.Image) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	text, err := json.Marshal(stateOf(info, img))
	if err != nil {
		return err
	}
	return os.WriteFile(noteOf(path), text, 0o600)
}

// recheck looks at a copy that is not whole: it may be of an earlier release, which noted
// nothing and looked at no header (M3), or from a backup. One that has the bytes of the image's
// record, and that inspect lets pass, is whole from now on; Corrupt where it does not. One of other
// bytes is removed, to be downloaded again, unless disks lie on it: then it is Corrupt. The caller
// holds the image's lock.
func (a *Activities) recheck(ctx context.Context, path string, img compute.Image) (ok bool, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	// First: what was noted may fit a file that was written to, once that is sealed.
	if err := os.Remove(noteOf(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if err := a.seal(f); err != nil {
		return false, err
	}
	if ok, err = a.hasBytesOf(ctx, f, img); err != nil {
		return false, err
	}
	if ok {
		if err := a.inspect(ctx, path, img); err != nil {
			return false, err
		}
		return true, note(f, path, img)
	}
	a.Logger.WarnContext(ctx, "the host's copy of an image has changed since it was downloaded", "image", img.ID)
	gone, err := a.evict(ctx, path)
	if err == nil && !gone {
		err = compute.Errorf(compute.Corrupt, "the host's copy has changed since it was downloaded, and disks of servers lie on it")
	}
	return false, err
}

// hasBytesOf compares a file with an image's record.
func (a *Activities) hasBytesOf(ctx context.Context, f *os.File, img compute.Image) (bool, error) {
	info, err := f.Stat()
	if err != nil || info.Size() != img.SizeBytes {
		return false, err
	}
	sum, _, digest, ok := digestOf(img)
	if !ok {
		return false, nil
	}
	p := &progress{ctx: ctx, Progress: Progress{Phase: "check", Total: img.SizeBytes}}
	if _, err := io.Copy(io.MultiWriter(sum, p), f); err != nil {
		return false, err
	}
	return hex.EncodeToString(sum.Sum(nil)) == digest, nil
}

// CheckedImage is CachedImage for a domain that is about to run from the copy. ok is false
// where CheckImage must look at it before: it takes a slot for long work to read all of it.
// One that is missing is the disk's to tell.
func (a *Activities) CheckedImage(project string, img compute.Image) (path string, ok bool, err error) {
	path, err = a.CachedImage(project, img)
	if err != nil || whole(path, img) {
		return path, true, err
	}
	_, err = os.Lstat(path)
	return path, errors.Is(err, fs.ErrNotExist), nil
}

// CheckImage is the activity disk.CheckImage: it compares the host's copy of an image, if
// that may have changed since it was downloaded, with the image's record. Corrupt: it has
// changed, and disks lie on it.
func (a *Activities) CheckImage(ctx context.Context, in CheckImageInput) error {
	path, ok, err := a.CheckedImage(in.Project, in.Image)
	if err != nil || ok {
		return err
	}
	lock, err := lockPart(path)
	if err != nil {
		return failed(ctx, err, "image %s: lock of the host's copy", in.Image.ID)
	}
	defer lock.Close()
	defer os.Remove(lock.Name())
	if whole(path, in.Image) { // by the one that held the lock
		return nil
	}
	left, err := a.turns.take(in.Project)
	if err != nil {
		return failed(ctx, err, "image %s", in.Image.ID)
	}
	defer left()
	if _, err = a.recheck(ctx, path, in.Image); err != nil {
		return failed(ctx, err, "image %s", in.Image.ID)
	}
	return nil
}
