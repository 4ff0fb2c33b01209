package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// BuildUEFI writes the guest of Build as an image that UEFI boots, with Secure Boot and without: a FAT
// file system with Debian's signed shim, GRUB and cloud kernel. It has no file system for the guest to
// write to, and takes 512 MiB of memory. It needs what Build does, with dosfstools and
// mtools in place of extlinux and e2fsprogs, and apt-get, with which it downloads shim and GRUB.
func BuildUEFI(ctx context.Context, out string, opts Options) error {
	return build(ctx, out, opts, "uefi", assembleUEFI)
}

// signed are the packages with what Debian had signed, and where they have it.
var (
	signedPackages = []string{"shim-signed", "grub-efi-amd64-signed"}
	signedShim     = "usr/lib/shim/shimx64.efi.signed"
	signedGRUB     = "usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed"
)

func assembleUEFI(ctx context.Context, work, out string, k Kernel, ramdisk []byte, opts Options) error {
	signed := filepath.Join(opts.CacheDir, "signed")
	if _, err := os.Stat(signed); err != nil {
		if err := unpack(ctx, signed, signedPackages...); err != nil {
			return err
		}
	}
	raw, initrd, menu := filepath.Join(work, "raw"), filepath.Join(work, "initrd"), filepath.Join(work, "grub.cfg")
	config := strings.Join([]string{
		"search --no-floppy --file /vmlinuz --set=root",
		"linux /vmlinuz " + opts.commandLine(),
		"initrd /initrd",
		"boot",
		"",
	}, "\n")
	err := errors.Join(
		os.WriteFile(initrd, ramdisk, 0o644),
		os.WriteFile(menu, []byte(config), 0o644),
		os.WriteFile(raw, nil, 0o644),
		os.Truncate(raw, int64(opts.SizeMiB)<<20),
	)
	if err != nil {
		return fmt.Errorf("guest: %w", err)
	}
	temp := out + ".tmp"
	for _, args := range [][]string{
		{"/sbin/mkfs.vfat", "-F", "16", raw},
		{"mmd", "-i", raw, "::/EFI", "::/EFI/BOOT", "::/EFI/debian"},
		{"mcopy", "-i", raw, filepath.Join(signed, signedShim), "::/EFI/BOOT/BOOTX64.EFI"},
		{"mcopy", "-i", raw, filepath.Join(signed, signedGRUB), "::/EFI/BOOT/grubx64.efi"},
		{"mcopy", "-i", raw, menu, "::/EFI/debian/grub.cfg"},
		{"mcopy", "-i", raw, k.Image, "::/vmlinuz"},
		{"mcopy", "-i", raw, initrd, "::/initrd"},
		{"qemu-img", "convert", "-f", "raw", "-O", opts.Format, raw, temp},
	} {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Env = append(os.Environ(), "MTOOLS_SKIP_CHECK=1")
		if err := run(cmd); err != nil {
			return err
		}
	}
	return os.Rename(temp, out)
}
