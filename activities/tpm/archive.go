package tpm

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"strongroom/compute"
)

// maxState bounds the state of a TPM. swtpm's is some ten KiB.
const maxState = 64 << 20

// maxFiles bounds how many files and folders a state has. swtpm's has three.
const maxFiles = 1000

// lockName is swtpm's lock within a state. It says nothing once swtpm has ended.
const lockName = ".lock"

// isPermanent reports whether a file of swtpm's keeps what a TPM keeps without power. swtpm writes
// it as TMP2-00.permall and then gives it its name, so that it is whole whenever it is read.
func isPermanent(path string) bool {
	name := filepath.Base(path)
	return strings.HasPrefix(name, "tpm") && strings.HasSuffix(name, ".permall")
}

var errEmpty = compute.Errorf(compute.Corrupt, "it is empty")

// pack gives the files of a state folder as a tar: the same folder always gives the same
// bytes. What swtpm keeps is encrypted already. Owners are the host's and left out.
func pack(dir string) ([]byte, error) { return packFiles(dir, false) }

// packPermanent is pack for what the TPM keeps without power, also while swtpm writes. As long as
// that is the same, so are the bytes.
func packPermanent(dir string) ([]byte, error) { return packFiles(dir, true) }

func packFiles(dir string, permanent bool) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	files := 0
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == dir || entry.Name() == lockName || isOurs(strings.TrimSuffix(entry.Name(), ".new")) {
			return err
		}
		if permanent && !entry.IsDir() && !isPermanent(path) {
			return nil
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return packDir(w, name, entry, permanent)
		}
		files++
		return packFile(w, name, path, maxState-int64(out.Len()))
	})
	if err == nil && files == 0 {
		err = errEmpty
	}
	return out.Bytes(), errors.Join(err, w.Close())
}

func packDir(w *tar.Writer, name string, entry fs.DirEntry, timeless bool) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	header := &tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: int64(info.Mode().Perm()), Format: tar.FormatPAX}
	if !timeless {
		header.ModTime = info.ModTime().Truncate(1e9)
	}
	return w.WriteHeader(header)
}

// packFile packs the file that has a name now: another one may have it a moment later.
func packFile(w *tar.Writer, name, path string, room int64) error {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENXIO) {
		return compute.Errorf(compute.Corrupt, "%s is neither a file nor a folder", name)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return compute.Errorf(compute.Corrupt, "%s is neither a file nor a folder", name)
	case info.Size() > room:
		return compute.Errorf(compute.Corrupt, "it has more than %d MiB", maxState>>20)
	}
	header := &tar.Header{
		Typeflag: tar.TypeReg, Name: name, Size: info.Size(), Mode: int64(info.Mode().Perm()), ModTime: info.ModTime().Truncate(1e9), Format: tar.FormatPAX,
	}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.CopyN(w, f, info.Size())
	return err
}

// unpack makes the files of a tar in a new folder, each owned by swtpm's user and group. A tar
// may say that its files are larger than it is, or that they are many: it is not all believed.
func (o Owner) unpack(data []byte, dir string) error {
	if err := os.Mkdir(dir, 0o711); err != nil {
		return err
	}
	r := tar.NewReader(bytes.NewReader(data))
	for files, size := 0, int64(0); ; files++ {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return errors.Join(os.Chmod(dir, 0o711), os.Chown(dir, o.UID, o.GID))
		}
		if err != nil {
			return compute.Errorf(compute.Corrupt, "it is no tar: %w", err)
		}
		if !filepath.IsLocal(h.Name) || isOurs(filepath.Base(h.Name)) {
			return compute.Errorf(compute.Corrupt, "%q is no name in it", h.Name)
		}
		if size += h.Size; size > maxState || files == maxFiles {
			return compute.Errorf(compute.Corrupt, "it has more than %d MiB or %d files", maxState>>20, maxFiles)
		}
		if err := o.unpackOne(h, r, filepath.Join(dir, h.Name)); err != nil { //nolint:gosec // the name is local
			return err
		}
	}
}

func (o Owner) unpackOne(h *tar.Header, data io.Reader, path string) error {
	mode := fs.FileMode(h.Mode).Perm()
	switch h.Typeflag {
	case tar.TypeDir:
		if err := os.Mkdir(path, 0o700); err != nil {
			return err
		}
	case tar.TypeReg:
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, data)
		if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
			return err
		}
		if err := os.Chtimes(path, h.ModTime, h.ModTime); err != nil {
			return err
		}
	default:
		return compute.Errorf(compute.Corrupt, "%q is neither a file nor a folder", h.Name)
	}
	return errors.Join(os.Chmod(path, mode), os.Chown(path, o.UID, o.GID))
}
