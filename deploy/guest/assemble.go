package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// inHaste are words for the kernel that spare an emulated CPU what only guards or
// measures. ("nokaslr" is not among them: the kernel hands it on to init.)
const inHaste = "mitigations=off init_on_alloc=0 no_timer_check tsc=reliable cryptomgr.notests"

// InHaste is inHaste with the speed of this machine's time-stamp counter, which QEMU gives its guests. A kernel that measures it
// at boot while its CPU is not let run finds it many times too fast; by that it sets the timers, none of which ends then.
var InHaste = sync.OnceValue(func() string {
	if khz := tscKHz(); khz > 0 {
		return fmt.Sprintf("%s tsc_early_khz=%d", inHaste, khz)
	}
	return inHaste
})

// install is run by sh in a mount namespace of its own, so that the mount and
// its loop device go away with it however it ends: $1 the image, $2 a folder to
// mount at, $3 the folder with the files of /boot.
const install = `set -e
mount -o loop "$1" "$2"
mkdir "$2/boot"
cp "$3"/* "$2/boot/"
extlinux --install "$2/boot"
umount "$2"`

// assemble makes the image: an ext4 filesystem on the whole disk, of the kind
// that extlinux can read, whose first sector SeaBIOS boots.
func assemble(ctx context.Context, work, out string, k Kernel, ramdisk []byte, opts Options) error {
	raw, mnt, boot := filepath.Join(work, "raw"), filepath.Join(work, "mnt"), filepath.Join(work, "boot")
	config := strings.Join([]string{
		"SERIAL 0 115200",
		"DEFAULT guest",
		"PROMPT 0",
		"TIMEOUT 1",
		"LABEL guest",
		" LINUX vmlinuz",
		" INITRD initrd",
		" APPEND " + opts.commandLine(),
		"",
	}, "\n")
	err := errors.Join(
		os.Mkdir(mnt, 0o755),
		os.Mkdir(boot, 0o755),
		copyFile(k.Image, filepath.Join(boot, "vmlinuz")),
		os.WriteFile(filepath.Join(boot, "initrd"), ramdisk, 0o644),
		os.WriteFile(filepath.Join(boot, "extlinux.conf"), []byte(config), 0o644),
		os.WriteFile(raw, nil, 0o644),
		os.Truncate(raw, int64(opts.SizeMiB)<<20),
	)
	if err != nil {
		return fmt.Errorf("guest: %w", err)
	}
	temp := out + ".tmp"
	for _, args := range [][]string{
		{"/sbin/mkfs.ext4", "-q", "-F", "-O", "^64bit,^metadata_csum", "-m", "0", "-L", "guest", raw},
		{"unshare", "--mount", "--propagation", "private", "sh", "-c", install, "install", raw, mnt, boot},
		{"qemu-img", "convert", "-f", "raw", "-O", opts.Format, raw, temp},
	} {
		if err := run(exec.CommandContext(ctx, args[0], args[1:]...)); err != nil {
			return err
		}
	}
	return os.Rename(temp, out)
}
