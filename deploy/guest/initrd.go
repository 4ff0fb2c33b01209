package guest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// modules of the guest: what the cloud kernel does not have built in of disks,
// network, console, power button and CD-ROM.
var modules = []string{"virtio_pci", "virtio_blk", "virtio_net", "virtio_console", "evdev", "button", "virtio_scsi", "sr_mod", "isofs"}

// initrd packs /init and the kernel modules as /mods/NN-name.ko.
func initrd(init string, k kernel) ([]byte, error) {
	files, err := k.moduleFiles(modules...)
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed) // the guest unpacks it under emulation
	if err != nil {
		return nil, err
	}
	a := &archive{w: z}
	a.folder("dev")
	a.folder("mods")
	a.file("init", init, 0o755)
	for i, f := range files {
		a.file(fmt.Sprintf("mods/%02d-%s", i, filepath.Base(f)), f, 0o644)
	}
	a.end()
	if a.err != nil {
		return nil, a.err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}

// archive writes a cpio archive of the "newc" format, the one that the kernel
// unpacks. It keeps its first error.
type archive struct {
	w   io.Writer
	ino int
	err error
}

const (
	modeFolder  = 0o040000
	modeRegular = 0o100000
)

func (a *archive) folder(name string) { a.entry(name, modeFolder|0o755, nil) }

func (a *archive) file(name, from string, perm int) {
	b, err := os.ReadFile(from)
	if err != nil && a.err == nil {
		a.err = err
		return
	}
	a.entry(name, modeRegular|perm, b)
}

func (a *archive) end() { a.entry("TRAILER!!!", 0, nil) }

func (a *archive) entry(name string, mode int, data []byte) {
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
