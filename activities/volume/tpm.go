package volume

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"strongroom/securepv/initializer"
)

// tpmFolder is the volume's folder with the states of vTPMs.
const tpmFolder = "swtpm"

// showTPM ensures that the volume's folder with the states of vTPMs is what libvirt finds as swtpm's folder. The volume is mounted.
func (a *Activities) showTPM(m initializer.Mapping) error {
	if a.TPM == "" {
		return nil
	}
	if is, err := m.IsMounted(a.TPM); err != nil || is {
		return err
	}
	on := filepath.Join(a.Mount, tpmFolder)
	for _, path := range []string{on, a.TPM} {
		if err := os.MkdirAll(path, 0o711); err != nil { // as libvirt makes it
			return err
		}
	}
	if err := unix.Mount(on, a.TPM, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s at %s: %w", on, a.TPM, err)
	}
	return nil
}

// hideTPM takes it away again, and reports whether it was there.
func (a *Activities) hideTPM(ctx context.Context, m initializer.Mapping) (was bool, err error) {
	if a.TPM == "" {
		return false, nil
	}
	if was, err = m.IsMounted(a.TPM); err != nil {
		return was, err
	}
	return was, m.Unmount(ctx, a.TPM)
}

// isFileSystem reports whether a folder is the beginning of a file system.
func isFileSystem(path string) bool {
	var is, above unix.Stat_t
	return unix.Stat(path, &is) == nil && unix.Stat(filepath.Dir(path), &above) == nil && is.Dev != above.Dev
}
