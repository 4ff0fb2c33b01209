package mount

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"strongroom/compute"
)

const (
	cephType = "ceph"
	// cephOptions are those of each mount by the kernel: it looks for a monitor as long as ceph-fuse does. A client
	// of its own (noshare) is not one that was shut out.
	cephOptions = "name=%s,key=%s,mount_timeout=%d,noshare"
	// secondPort is where monitors speak the second version of Ceph's messages alone.
	secondPort = ":3300"
)

// byKernel mounts a share with the kernel's client. It is given the user's key by way of a keyring, which is this
// thread's: not among the options, which would be a string that stays in memory.
func (c cephFS) byKernel(ctx context.Context, id compute.ShareID, point string, from Export) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	name := filepath.Base(c.told(point))
	key, err := addCephKey(name, from)
	if errors.Is(err, unix.ENODEV) { // the kernel loads the module by itself only when it is asked to mount
		if err := command(ctx, "modprobe", cephType).Run(); err != nil {
			return refused(id, "the kernel's module for CephFS could not be loaded", err)
		}
		key, err = addCephKey(name, from)
	}
	if err != nil {
		return refused(id, "its key could not be given to the kernel", err)
	}
	defer func() { _, _ = unix.KeyctlInt(unix.KEYCTL_UNLINK, key, unix.KEY_SPEC_THREAD_KEYRING, 0, 0) }()
	options := fmt.Sprintf(cephOptions, from.User, name, cephPatience)
	if strings.Contains(from.Path, secondPort) {
		options += ",ms_mode=prefer-crc"
	}
	err = unix.Mount(from.Path, point, cephType, unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, options)
	if errors.Is(err, unix.ETIMEDOUT) || errors.Is(err, unix.EIO) {
		return failed(id, "no monitor of Ceph's answers, or none knows the key", err)
	}
	if err != nil {
		return refused(id, "it could not be mounted", err)
	}
	return nil
}

// addCephKey puts the user's key, as it is without base64, where a mount of this thread's finds it.
func addCephKey(name string, from Export) (id int, err error) {
	err = from.Key.Use(func(value []byte) error {
		key := make([]byte, base64.StdEncoding.DecodedLen(len(value)))
		defer clear(key)
		n, err := base64.StdEncoding.Decode(key, value)
		if err != nil {
			return errors.New("it is not base64")
		}
		id, err = unix.AddKey(cephType, name, key[:n], unix.KEY_SPEC_THREAD_KEYRING)
		return err
	})
	return id, err
}
