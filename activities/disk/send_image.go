package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"syscall"

	"golang.org/x/sys/unix"

	"strongroom/compute"
)

// cacheName is what compute.Image.CacheName makes: of a plain image, and of one that is kept for a
// project.
var cacheName = regexp.MustCompile(`^([A-Za-z0-9_-]{1,64}/)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-[0-9a-f]{16}\.[a-z0-9]+$`)

// OpenImageToSend opens the host's copy of an image, by its name in the cache, that another host is
// to have. Whether it may, the caller has seen; that the bytes are the image's, the other host sees.
// The copy stays until the file is closed. NotFound: the host has none.
func (a *Activities) OpenImageToSend(name string) (*os.File, error) {
	m := cacheName.FindStringSubmatch(name)
	if m == nil {
		return nil, compute.Errorf(compute.Invalid, "%q is no name of an image", name)
	}
	path := filepath.Join(a.CacheDir, name)
	if m[1] != "" {
		path = filepath.Join(a.CacheDir, encryptedFolder, name, imageFile)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, compute.Errorf(compute.NotFound, "this host has no copy of image %s", name)
	}
	if err == nil {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	}
	if err == nil && !leadsTo(path, f) {
		err = fs.ErrNotExist
	}
	if err != nil {
		f.Close()
		return nil, compute.Errorf(compute.Unavailable, "copy of image %s: %w", name, err)
	}
	return f, nil
}
