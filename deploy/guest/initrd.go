package guest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"path/filepath"
)

// modules of the guest: what the cloud kernel does not have built in of disks,
// network, console, power button, CD-ROM and UEFI.
var modules = []string{"virtio_pci", "virtio_blk", "virtio_net", "virtio_console", "evdev", "button", "virtio_scsi", "sd_mod", "sr_mod", "isofs", "virtiofs", "efivarfs"}

// initrd packs /init and the kernel modules as /mods/NN-name.ko.
func initrd(init string, k Kernel) ([]byte, error) {
	files, err := k.ModuleFiles(modules...)
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed) // the guest unpacks it under emulation
	if err != nil {
		return nil, err
	}
	a := NewArchive(z)
	a.Folder("dev")
	a.Folder("mods")
	a.File("init", init, 0o755)
	for i, f := range files {
		a.File(fmt.Sprintf("mods/%02d-%s", i, filepath.Base(f)), f, 0o644)
	}
	if err := a.Close(); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}
