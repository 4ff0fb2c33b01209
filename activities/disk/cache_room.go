package disk

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"strongroom/compute"
)

// cachePercent is what the cache may take of its file system where nothing else is said.
const cachePercent = 40

// The files of the cache that may go: plain images, what a killed download left, and
// templates. What encrypted images take counts, and goes with their last use.
var (
	plainImage = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-[0-9a-f]{16}\.[a-z0-9]+(\.part)?$`)
	oneOfSize  = regexp.MustCompile(`^[0-9a-f]{64}\.qcow2$`)
)

// spare is a file of the cache that may go.
type spare struct {
	path  string
	bytes int64
	used  time.Time
}

// makeRoom makes room in the cache for the image that f is to be, and reserves it there: until
// it is downloaded, f has the size that it will have. Least recently used files go first.
// NoHost: all that is left is in use.
func (a *Activities) makeRoom(ctx context.Context, f *os.File, img compute.Image) error {
	unlock, err := a.lockCache(ctx) // two that count at once would both find the same room
	if err != nil {
		return err
	}
	defer unlock()
	if err := f.Truncate(0); err != nil {
		return err
	}
	used, spares, err := a.contents()
	if err != nil {
		return err
	}
	most, err := a.budget()
	if err != nil {
		return err
	}
	for _, s := range spares {
		if img.SizeBytes > most { // whatever goes
			break
		}
		if img.SizeBytes <= most-used && room(a.CacheDir, img.SizeBytes) == nil {
			break
		}
		gone, err := a.evict(ctx, s.path)
		if err != nil {
			return err
		}
		if gone {
			used -= s.bytes
			a.Logger.InfoContext(ctx, "removed from the image cache to make room", "file", filepath.Base(s.path), "bytes", s.bytes, "used", s.used)
		}
	}
	if img.SizeBytes > most-used {
		return compute.Errorf(compute.NoHost, "it has %d MiB, and the host's image cache may have %d MiB, of which %d MiB are in use",
			img.SizeBytes>>20, most>>20, used>>20)
	}
	if err := room(a.CacheDir, img.SizeBytes); err != nil {
		return err
	}
	return f.Truncate(img.SizeBytes)
}

func (a *Activities) lockCache(ctx context.Context) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(a.CacheDir, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := flock(ctx, f, syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

// budget is how many bytes the cache may have.
func (a *Activities) budget() (int64, error) {
	if a.CacheBytes > 0 {
		return a.CacheBytes, nil
	}
	var s syscall.Statfs_t
	if err := syscall.Statfs(a.CacheDir, &s); err != nil {
		return 0, err
	}
	if s.Blocks == 0 { // a file system without a size
		return math.MaxInt64, nil
	}
	return int64(s.Blocks) / 100 * cachePercent * s.Bsize, nil
}

// contents gives the bytes of all files in the cache, and those that may go, least recently
// used ones first.
func (a *Activities) contents() (used int64, spares []spare, err error) {
	templates := filepath.Join(a.CacheDir, filepath.Dir(BlankTemplate))
	err = filepath.WalkDir(a.CacheDir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // gone meanwhile
			return nil
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		used += info.Size()
		dir := filepath.Dir(path)
		if dir == filepath.Clean(a.CacheDir) && plainImage.MatchString(d.Name()) || dir == templates && oneOfSize.MatchString(d.Name()) {
			spares = append(spares, spare{path, info.Size(), lastUse(info)})
		}
		return nil
	})
	slices.SortFunc(spares, func(x, y spare) int { return x.used.Compare(y.used) })
	return used, spares, err
}

// lastUse is when a file of the cache was last used: its time of access, which touch sets.
func lastUse(info fs.FileInfo) time.Time {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(s.Atim.Unix())
	}
	return info.ModTime()
}

// touch notes that a file of the cache is used. That it was not noted is no failure.
func touch(path string) { _ = os.Chtimes(path, time.Now(), time.Time{}) }

// evict removes a file of the cache, unless a disk lies on it or somebody is at work with
// it: who makes a disk of an image, or downloads one, has its lock. What is killed in the
// middle leaves the file without the note that it is whole.
func (a *Activities) evict(ctx context.Context, path string) (gone bool, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return false, nil
	case err != nil:
		return false, err
	}
	// After the lock: who had it may just have made a disk.
	lies, err := a.liesUnderADisk(ctx, path)
	if err != nil || lies {
		return false, err
	}
	if err := os.Remove(noteOf(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return true, syncDir(filepath.Dir(path))
}

// liesUnderADisk reports whether a file in a server's folder names an image as its backing
// file. The disks themselves are asked: there is no list that could be wrong.
func (a *Activities) liesUnderADisk(ctx context.Context, image string) (found bool, err error) {
	// The cache may have had another path when the disk was made.
	name, err := filepath.Rel(a.CacheDir, image)
	if err != nil {
		return false, err
	}
	err = filepath.WalkDir(a.InstancesDir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var backing string
			if backing, err = backingFile(path); strings.HasSuffix(backing, string(filepath.Separator)+name) {
				found = true
				return filepath.SkipAll
			}
		}
		if errors.Is(err, fs.ErrNotExist) { // gone meanwhile
			err = nil
		}
		return errors.Join(err, ctx.Err())
	})
	return found, err
}

// The parts of a qcow2 header that name its backing file (docs/interop/qcow2.txt of QEMU).
const (
	qcow2Magic       = "QFI\xfb"
	qcow2Backing     = 8  // offset of the offset of its name
	qcow2BackingSize = 16 // offset of the length of its name
	qcow2NameMax     = 1023
)

// backingFile is the name of a qcow2 file's backing file, "" if it has none or is none.
func backingFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	header := make([]byte, qcow2BackingSize+4)
	if _, err := io.ReadFull(f, header); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	offset, size := binary.BigEndian.Uint64(header[qcow2Backing:]), binary.BigEndian.Uint32(header[qcow2BackingSize:])
	if string(header[:len(qcow2Magic)]) != qcow2Magic || offset == 0 || offset > math.MaxInt64 || size > qcow2NameMax {
		return "", nil
	}
	name := make([]byte, size)
	n, err := f.ReadAt(name, int64(offset))
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return string(name[:n]), err
}
