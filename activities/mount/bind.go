package mount

import (
	"context"
	"os"

	"golang.org/x/sys/unix"

	"strongroom/compute"
)

// bind mounts a share that is a folder of this machine.
type bind struct{}

// at implements protocol.
func (bind) at(_ context.Context, id compute.ShareID, point string, from Export) (state, error) {
	same, err := isSame(point, from.Path)
	if err != nil {
		return elsewhere, refused(id, "it could not be mounted", err)
	}
	if same {
		return here, nil
	}
	return elsewhere, nil
}

// mount implements protocol.
func (bind) mount(_ context.Context, id compute.ShareID, point string, from Export) error {
	if err := bindMount(from.Path, point); err != nil {
		return refused(id, "it could not be mounted", err)
	}
	return nil
}

// isSame reports whether two paths lead to the same folder.
func isSame(one, other string) (bool, error) {
	a, err := os.Stat(one)
	if err != nil {
		return false, err
	}
	b, err := os.Stat(other)
	if err != nil {
		return false, err
	}
	return os.SameFile(a, b), nil
}

// bindMount shows a folder at another path, for reading and writing.
func bindMount(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return unix.ENOTDIR
	}
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return harmless(to)
}
