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

	"strongroom/compute"
)

// maxState bounds the state of a TPM. swtpm's is some ten KiB.
const maxState = 64 << 20

// maxFiles bounds how many files and folders a state has. swtpm's has three.
const maxFiles = 1000

// lockName is swtpm's lock within a state. It says nothing once swtpm has ended.
const lockName = ".lock"

// pack gives the files of a state folder as a tar: the same folder always gives the same
// bytes. What swtpm keeps is encrypted already. Owners are the host's and left out.
func pack(dir string) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	files := 0
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == dir || entry.Name() == lockName || isOurs(strings.TrimSuffix(entry.Name(), ".new")) {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		header := &tar.Header{Name: name, Mode: int64(info.Mode().Perm()), ModTime: info.ModTime().Truncate(1e9), Format: tar.FormatPAX}
		switch {
		case entry.IsDir():
			header.Typeflag, header.Name = tar.TypeDir, name+"/"
			return w.WriteHeader(header)
		case !info.Mode().IsRegular():
			return compute.Errorf(compute.Corrupt, "%s is neither a file nor a folder", name)
		case info.Size()+int64(out.Len()) > maxState:
			return compute.Errorf(compute.Corrupt, "it has more than %d MiB", maxState>>20)
		}
		files++
		header.Typeflag, header.Size = tar.TypeReg, info.Size()
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		return copyFile(w, path, info.Size())
	})
	if err == nil && files == 0 {
		err = compute.Errorf(compute.Corrupt, "it is empty")
	}
	return out.Bytes(), errors.Join(err, w.Close())
}

func copyFile(to io.Writer, path string, size int64) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.CopyN(to, f, size)
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
