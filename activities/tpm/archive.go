package tpm

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"strongroom/activities/folder"
	"strongroom/compute"
)

// maxState bounds the state of a TPM. swtpm's is some ten KiB.
const maxState = 4 << 20

// maxFiles bounds how many files and folders a state has. swtpm's has three.
const maxFiles = 1000

// lockName is swtpm's lock within a state. It says nothing once swtpm has ended.
const lockName = ".lock"

// isPermanent reports whether a file of swtpm's, within a server's folder, keeps what a TPM keeps without power. swtpm writes
// it as TMP2-00.permall and then gives it its name, so that it is whole whenever it is read. Of another name or folder it is none: no start finds it (K20).
func isPermanent(path string) bool {
	for _, version := range []compute.TPMVersion{compute.TPM20, compute.TPM12} {
		if path == filepath.Join(stateOf(version)) {
			return true
		}
	}
	return false
}

var (
	errEmpty   = compute.Errorf(compute.Corrupt, "it is empty")
	errDamaged = compute.Errorf(compute.Corrupt, "it is damaged: it has not as many bytes as swtpm wrote")
)

// pack gives the files of a state folder as a tar: the same folder always gives the same
// bytes. What swtpm keeps is encrypted already. Owners are the host's and left out.
func pack(dir string) ([]byte, error) { return packFiles(dir, packer{}) }

// packWhole is pack of a state that is to be a backup, or another host's: a damaged one must not take the place of a good one (K20).
func packWhole(dir string) ([]byte, error) { return packFiles(dir, packer{whole: true}) }

// packPermanent is packWhole of what the TPM keeps without power, also while swtpm writes. As long as
// that is the same, so are the bytes.
func packPermanent(dir string) ([]byte, error) {
	return packFiles(dir, packer{whole: true, permanent: true})
}

func packFiles(dir string, p packer) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	p.root, p.w = root, tar.NewWriter(&p.out)
	err = p.pack(".")
	if err == nil && p.permanents == 0 {
		err = errEmpty
	}
	return p.out.Bytes(), errors.Join(err, p.w.Close())
}

// packer makes a tar of a state folder.
type packer struct {
	root       *os.Root
	whole      bool // what swtpm would not open is refused
	permanent  bool // what the TPM keeps without power, and nothing else
	out        bytes.Buffer
	w          *tar.Writer
	entries    int
	permanents int // files that have what a TPM keeps without power
}

// pack packs what is in a folder, in the order of names.
func (p *packer) pack(folder string) error {
	entries, err := listed(p.root, folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := filepath.Join(folder, entry.Name())
		if entry.Name() == lockName || isOurs(strings.TrimSuffix(entry.Name(), ".new")) || p.permanent && !entry.IsDir() && !isPermanent(name) {
			continue
		}
		if p.entries++; p.entries > maxFiles {
			return errMany
		}
		if entry.IsDir() {
			if err = packDir(p.w, name, entry, p.permanent); err == nil {
				err = p.pack(name)
			}
		} else {
			err = p.packFile(name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

var errMany = compute.Errorf(compute.Corrupt, "it has more than %d files", maxFiles)

// listed gives what is in a folder of swtpm's user, in the order of names, and no more of it than a state can have.
func listed(root *os.Root, name string) ([]fs.DirEntry, error) {
	d, err := root.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	entries, err := d.ReadDir(maxFiles + 1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if len(entries) > maxFiles {
		err = errMany
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
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

// packFile packs the file that has a name now: another one may have it a moment later. The folders are swtpm's user's, who may put a
// symbolic link into their place: no file that is outside is packed. Nor is a state whose permanent file is empty: swtpm would make a new one of it,
// and a copy of it would take the place of a good one (K20).
func (p *packer) packFile(name string) error {
	f, info, err := folder.OpenIn(p.root, name)
	if errors.Is(err, folder.ErrNoFile) {
		return compute.Errorf(compute.Corrupt, "%w", err)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if isPermanent(name) {
		err := checkLength(f, info.Size())
		switch {
		case errors.Is(err, errEmpty) && !p.whole: // as good as none
		case err == nil, errors.Is(err, errDamaged) && !p.whole:
			p.permanents++
		default:
			return compute.Errorf(compute.Corrupt, "%s: %w", name, err)
		}
	}
	if info.Size() > maxState-int64(p.out.Len()) {
		return compute.Errorf(compute.Corrupt, "it has more than %d MiB", maxState>>20)
	}
	header := &tar.Header{
		Typeflag: tar.TypeReg, Name: name, Size: info.Size(), Mode: int64(info.Mode().Perm()), ModTime: info.ModTime().Truncate(1e9), Format: tar.FormatPAX,
	}
	if err := p.w.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.CopyN(p.w, f, info.Size())
	return err
}

// swtpm begins each of its files with a header that is not encrypted. The last four bytes of it are the length of the file, the header with it. swtpm
// takes a file of another length for one without a header, and does not open it.
const (
	headerBytes = 10
	lengthAt    = 6
)

// checkLength refuses, with Corrupt, a file of swtpm's that is not as long as swtpm wrote it.
func checkLength(f io.ReaderAt, size int64) error {
	if size == 0 {
		return errEmpty
	}
	var header [headerBytes]byte
	n, err := f.ReadAt(header[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if wrote := binary.BigEndian.Uint32(header[lengthAt:]); n < headerBytes || int64(wrote) != size {
		return errDamaged
	}
	return nil
}

// unpack makes the files of a tar in a new folder, each owned by swtpm's user and group. A tar
// may say that its files are larger than it is, or that they are many: it is not all believed.
// Guests of other servers may have that user in their power (S3): the new folder stays root's, as libvirt makes it, so that nobody puts anything
// in the place of what libvirt, which is root, changes in it by its path; those in it are given away at the end, the inner ones first, so that
// nothing is changed here by a path of which a part is that user's.
func (o Owner) unpack(data []byte, dir string) error {
	if err := errors.Join(os.Mkdir(dir, 0o711), os.Chmod(dir, 0o711)); err != nil {
		return err
	}
	var folders []unpacked
	r := tar.NewReader(bytes.NewReader(data))
	for files, size := 0, int64(0); ; files++ {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return o.give(folders)
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
		path, mode := filepath.Join(dir, h.Name), fs.FileMode(h.Mode).Perm() //nolint:gosec // the name is local
		switch h.Typeflag {
		case tar.TypeDir:
			folders = append(folders, unpacked{path, mode})
			err = os.Mkdir(path, 0o700)
		case tar.TypeReg:
			err = o.unpackFile(h, r, path, mode)
		default:
			err = compute.Errorf(compute.Corrupt, "%q is neither a file nor a folder", h.Name)
		}
		if err != nil {
			return err
		}
	}
}

// unpacked is a folder that is made, and the mode that it is to have.
type unpacked struct {
	path string
	mode fs.FileMode
}

// give gives folders to swtpm's user: the last ones, which are in others, first.
func (o Owner) give(folders []unpacked) error {
	for _, f := range slices.Backward(folders) {
		if err := errors.Join(os.Chmod(f.path, f.mode), os.Lchown(f.path, o.UID, o.GID)); err != nil {
			return err
		}
	}
	return nil
}

func (o Owner) unpackFile(h *tar.Header, data io.Reader, path string, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, data)
	if err == nil {
		err = errors.Join(f.Chmod(mode), f.Chown(o.UID, o.GID))
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Chtimes(path, h.ModTime, h.ModTime)
}
