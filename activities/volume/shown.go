package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"strongroom/compute"
	"strongroom/securepv/initializer"
)

// Shown is a folder that libvirt has where it is. While the volume is open, a folder of it is mounted there.
type Shown struct {
	Name    string // on the volume
	At      string // where libvirt finds it
	Without string // the setting with which it is not on the volume
}

// folders are those in which the volume appears.
func (a *Activities) folders() []string {
	all := []string{a.Mount}
	for _, s := range a.Shown {
		all = append(all, s.At)
	}
	return all
}

// show ensures that libvirt finds these folders of the volume, which is mounted.
func (a *Activities) show(m initializer.Mapping, folders []Shown) error {
	for _, s := range folders {
		if is, err := m.IsMounted(s.At); err != nil {
			return err
		} else if is {
			continue
		}
		if err := showAt(filepath.Join(a.Mount, s.Name), s.At); err != nil {
			return err
		}
	}
	return nil
}

// showAt mounts a folder of the volume at a path, and where that leads somewhere else by then, nowhere.
func showAt(on, path string) error {
	at, err := place(path)
	if err != nil {
		return err
	}
	defer func() { _ = at.Close() }()
	if err := asIs(on, at); err != nil {
		return err
	}
	held := fmt.Sprintf("/proc/self/fd/%d", at.Fd())
	if err := unix.Mount(on, held, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s at %s: %w", on, path, err)
	}
	if isAt(path, on) {
		return nil
	}
	moved, err := os.Readlink(held)
	if err == nil {
		err = unix.Unmount(moved, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
	}
	return errors.Join(compute.Errorf(compute.Conflict, "the folder %s was moved while the volume was mounted there: a user of the host did that", path), err)
}

// isAt reports whether a path leads to a folder.
func isAt(path, folder string) bool {
	is, err := os.Stat(path)
	want, failure := os.Stat(folder)
	return err == nil && failure == nil && os.SameFile(is, want)
}

// asIs ensures a folder of the volume. A new one gets the owner and the mode of another, which it is to stand in for, before it has its name.
func asIs(dir string, like *os.File) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	is, err := like.Stat()
	if err != nil {
		return err
	}
	owner, made := is.Sys().(*syscall.Stat_t), dir+".new"
	if err := os.MkdirAll(made, 0o700); err != nil {
		return err
	}
	if err := errors.Join(os.Chown(made, int(owner.Uid), int(owner.Gid)), os.Chmod(made, is.Mode().Perm())); err != nil {
		return err
	}
	return os.Rename(made, dir)
}

// hide takes the volume's folders away again, and gives those that were there.
func (a *Activities) hide(ctx context.Context, m initializer.Mapping) (were []Shown, err error) {
	for _, s := range a.Shown {
		is, err := m.IsMounted(s.At)
		if err == nil {
			err = m.Unmount(ctx, s.At)
		}
		if err != nil {
			return were, err
		}
		if is {
			were = append(were, s)
		}
	}
	return were, nil
}

// hidden takes the volume's folders away for what is done then, and has them there again if that fails: what libvirt writes meanwhile would be beside
// the volume.
func (a *Activities) hidden(ctx context.Context, m initializer.Mapping, do func() error) error {
	were, err := a.hide(ctx, m)
	if err == nil {
		err = do()
	}
	if err != nil && len(were) > 0 {
		is, unknown := m.IsMounted(a.Mount)
		if err = errors.Join(err, unknown); is {
			err = errors.Join(err, a.show(m, were))
		}
	}
	return failed(err)
}

// hidesNothing sees that the folders in which the volume is to appear, and does not yet, are empty: what is there would be out of
// sight.
func (a *Activities) hidesNothing(m initializer.Mapping) error {
	if err := isEmpty(m, a.Mount, ""); err != nil {
		return err
	}
	for _, s := range a.Shown {
		if err := isEmpty(m, s.At, s.Without); err != nil {
			return err
		}
	}
	return nil
}

// isEmpty fails with Conflict where something is in a folder that is not of the volume, or, if there is a setting without it, where
// it is a file system of its own.
func isEmpty(m initializer.Mapping, at, without string) error {
	mounted, err := m.IsMounted(at)
	if err != nil || mounted {
		return failed(err)
	}
	hint := ""
	if without != "" {
		if isFileSystem(at) {
			return compute.Errorf(compute.Conflict, "%s is a file system of its own: with %s it stays as it is", at, without)
		}
		hint = ". With " + without + " it stays as it is"
	}
	entries, err := os.ReadDir(at)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return failed(err)
	}
	if len(entries) > 0 {
		return compute.Errorf(compute.Conflict, "the folder %s is not empty: the volume would hide what is in it%s", at, hint)
	}
	return nil
}

// isFileSystem reports whether a folder is the beginning of a file system.
func isFileSystem(path string) bool {
	var is, above unix.Stat_t
	return unix.Stat(path, &is) == nil && unix.Stat(filepath.Dir(path), &above) == nil && is.Dev != above.Dev
}
