package guest

import (
	"fmt"
	"io"
	"os"
	"path"
)

// Archive writes a cpio archive of the "newc" format, the one that the kernel
// unpacks. It keeps its first error.
type Archive struct {
	w       io.Writer
	folders map[string]bool
	ino     int
	err     error
}

// NewArchive begins an archive.
func NewArchive(w io.Writer) *Archive { return &Archive{w: w, folders: map[string]bool{".": true}} }

const (
	modeFolder  = 0o040000
	modeRegular = 0o100000
)

// Folder adds a folder, and those above it, once.
func (a *Archive) Folder(name string) {
	if a.folders[name] {
		return
	}
	a.folders[name] = true
	a.Folder(path.Dir(name))
	a.entry(name, modeFolder|0o755, nil)
}

// File adds a copy of a file.
func (a *Archive) File(name, from string, perm int) {
	b, err := os.ReadFile(from)
	if err != nil && a.err == nil {
		a.err = err
		return
	}
	a.Text(name, string(b), perm)
}

// Text adds a file with this content.
func (a *Archive) Text(name, content string, perm int) {
	a.Folder(path.Dir(name))
	a.entry(name, modeRegular|perm, []byte(content))
}

// Close ends the archive and gives the first error.
func (a *Archive) Close() error {
	a.entry("TRAILER!!!", 0, nil)
	return a.err
}

func (a *Archive) entry(name string, mode int, data []byte) {
	if a.err != nil {
		return
	}
	a.ino++
	// magic, ino, mode, uid, gid, nlink, mtime, filesize, devmajor, devminor,
	// rdevmajor, rdevminor, namesize with its NUL, check; name and data are
	// each filled up to a multiple of four.
	head := fmt.Sprintf("070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00",
		a.ino, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name)+1, 0, name)
	for _, part := range [][]byte{[]byte(head), data} {
		if _, a.err = a.w.Write(part); a.err != nil {
			return
		}
		if _, a.err = a.w.Write(make([]byte, -len(part)&3)); a.err != nil {
			return
		}
	}
}
