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

// cacheHold is how long an image stays for the disk that is to be made of it, which is made as
// soon as the image is there unless the host or the control plane is hard pressed.
const cacheHold = time.Minute

// makeRoom makes room in the cache for the image that f is to be, and reserves it there: until
// it is downloaded, f has the size that it will have. Least recently used files go first, and
// none that was used within CacheHold: the disk for which it was cached may not be made yet,
// and projects that need the same room would take their images from each other for ever (H6).
// Nothing goes where all that may go is too little.
// NoHost: all that is left is in use; busy: some of that only since a moment.
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
	// fits reports whether the image has room once so many bytes have gone.
	fits := func(gone int64) bool {
		return img.SizeBytes <= most-used+gone && room(a.CacheDir, img.SizeBytes-gone) == nil
	}
	if img.SizeBytes <= most && !fits(0) { // else whatever goes
		free, held, err := a.mayGo(ctx, spares)
		if err != nil {
			return err
		}
		if may := bytesOf(free); !fits(may) {
			if fits(may + held) {
				return errHeld
			}
			used, free = used-may, nil // what is in use; nothing goes in vain
		}
		for _, s := range free {
			if fits(0) {
				break
			}
			gone, err := a.evict(ctx, s.path)
			if err != nil && !errors.Is(err, errAtWork) {
				return err
			}
			if gone {
				used -= s.bytes
				a.Logger.InfoContext(ctx, "removed from the image cache to make room", "file", filepath.Base(s.path), "bytes", s.bytes, "used", s.used)
			}
		}
		if held > 0 && !fits(0) && fits(held) {
			return errHeld
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

// errHeld says that what takes the room was cached for disks that are about to be made.
var errHeld error = busy{compute.Errorf(compute.Unavailable, "the host's image cache is full of images that servers are about to be made of")}

// mayGo gives the files that may go now, and how many bytes may go once disks are made of them
// or CacheHold is over.
func (a *Activities) mayGo(ctx context.Context, spares []spare) (free []spare, held int64, err error) {
	names, err := a.backingFiles(ctx)
	for _, s := range spares {
		switch {
		case slices.ContainsFunc(names, a.isImage(s.path)):
		case a.isHeld(s):
			held += s.bytes
		default:
			free = append(free, s)
		}
	}
	return free, held, err
}

func bytesOf(files []spare) (sum int64) {
	for _, f := range files {
		sum += f.bytes
	}
	return sum
}

// isHeld reports whether an image was cached or used a moment ago. What a killed download left
// is for no disk, and a use that is to come is one of before the clock was set back.
func (a *Activities) isHeld(s spare) bool {
	return time.Since(s.used).Abs() < a.CacheHold && !strings.HasSuffix(s.path, partSuffix)
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

// lockPatience is how long a file must be locked for somebody to be at work with it: a program that is being started has all locks of this process for
// a moment, until it is executed.
const lockPatience = time.Second

// errAtWork says that somebody is at work with a file of the cache.
var errAtWork error = busy{compute.Errorf(compute.Unavailable, "another operation is making a disk on it, or downloading it")}

// evict removes a file of the cache, unless a disk lies on it. errAtWork: who makes a disk of
// an image, or downloads one, has its lock. What is killed in the
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
	brief, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	switch err := flock(brief, f, syscall.LOCK_EX); {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return false, errAtWork
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
func (a *Activities) liesUnderADisk(ctx context.Context, image string) (bool, error) {
	names, err := a.backingFiles(ctx)
	return slices.ContainsFunc(names, a.isImage(image)), err
}

// isImage tells whether the name of a backing file is that of an image of the cache, which may
// have had another path when the disk was made.
func (a *Activities) isImage(image string) func(name string) bool {
	end := strings.TrimPrefix(image, filepath.Clean(a.CacheDir))
	return func(name string) bool { return strings.HasSuffix(name, end) }
}

// backingFiles are the names of the backing files of all files in servers' folders.
func (a *Activities) backingFiles(ctx context.Context) (names []string, err error) {
	err = filepath.WalkDir(a.InstancesDir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var name string
			if name, err = backingFile(path); name != "" {
				names = append(names, name)
			}
		}
		if errors.Is(err, fs.ErrNotExist) { // gone meanwhile
			err = nil
		}
		return errors.Join(err, ctx.Err())
	})
	return names, err
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

// qcow2ClusterBits is the offset of the size of a cluster: the header has the first one.
const qcow2ClusterBits = 20

// setBackingFile gives a qcow2 file that has one another backing file. QEMU writes the name behind
// all else that is in the header's cluster.
func setBackingFile(path, name string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	header := make([]byte, qcow2ClusterBits+4)
	if _, err := f.ReadAt(header, 0); err != nil {
		return err
	}
	offset, bits := binary.BigEndian.Uint64(header[qcow2Backing:]), binary.BigEndian.Uint32(header[qcow2ClusterBits:])
	if bits > 21 || offset < uint64(len(header)) || offset > 1<<21 || len(name) > qcow2NameMax || offset+uint64(len(name)) > 1<<bits {
		return compute.Errorf(compute.Corrupt, "its header has no room for the name of its backing file")
	}
	size := binary.BigEndian.AppendUint32(nil, uint32(len(name)))
	if _, err := f.WriteAt([]byte(name), int64(offset)); err != nil {
		return err
	}
	if _, err := f.WriteAt(size, qcow2BackingSize); err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
