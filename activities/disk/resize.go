package disk

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"strongroom/compute"
)

// ResizeInput asks for a disk of a server that is off as another one of it has it: Disk, in a
// file of its own or in the same one, which is as large or larger. Its key opens both.
type ResizeInput struct {
	Credential compute.Credential `json:"credential"`
	Server     compute.ServerID   `json:"server"`
	From       compute.Disk       `json:"from"`
	Disk       compute.Disk       `json:"disk"`
}

// resizable finds the file of a disk.
func (a *Activities) resizable(server compute.ServerID, d compute.Disk) (filePlace, error) {
	at, err := a.place(server, d)
	if err != nil {
		return filePlace{}, err
	}
	file, is := at.(filePlace)
	if !is || a.Pool.Name != "" {
		return file, compute.Errorf(compute.Conflict, "disk %s is no file of its host: it cannot be moved or resized", d.ID)
	}
	return file, nil
}

// allocated is how much of the host a file takes.
func allocated(path string) (int64, error) {
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		return 0, err
	}
	return st.Blocks * 512, nil
}

func lacking(ctx context.Context, d compute.Disk, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return compute.Errorf(compute.Corrupt, "disk %s is missing", d.ID)
	}
	return failed(ctx, err, "disk %s", d.ID)
}

// Resize is the activity disk.Resize. What is on the disk is copied as it is: only to grow it
// takes its key. The file appears under its name when all of it is there.
//
// Conflict: it is no file, or in use; Corrupt: it is not there, or not what it was made as;
// NoHost: no room; otherwise as the key manager says.
func (a *Activities) Resize(ctx context.Context, in ResizeInput) error {
	from, err := a.resizable(in.Server, in.From)
	if err != nil {
		return err
	}
	path, err := a.diskPath(in.Server, in.Disk)
	if err != nil {
		return err
	}
	unlock, err := lockFile(ctx, path, false)
	if err != nil {
		return lacking(ctx, in.From, err)
	}
	defer unlock()
	if path == from.path {
		return a.growInPlace(ctx, in, path)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		if err != nil {
			return failed(ctx, err, "disk %s", in.Disk.ID)
		}
		return nil // it got its name when it was whole
	}
	if err := a.resize(ctx, in, from.path, path); err != nil {
		return failed(ctx, err, "disk %s", in.Disk.ID)
	}
	a.Logger.InfoContext(ctx, "resized disk", "server", in.Server, "disk", in.Disk.ID, "file", in.Disk.Name(), "mib", in.Disk.SizeMB)
	return nil
}

func (a *Activities) resize(ctx context.Context, in ResizeInput, from, path string) error {
	used, err := allocated(from)
	if err != nil {
		return lacking(ctx, in.From, err)
	}
	if _, err := a.closed(ctx, from, "qcow2"); err != nil {
		return err
	}
	if err := room(a.InstancesDir, used+headerRoom); err != nil {
		return err
	}
	draft := hidden(path, ".new")
	defer os.Remove(draft)
	if err := os.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) { // of an attempt that was killed
		return err
	}
	if err := a.copyFile(ctx, from, draft); err != nil {
		return err
	}
	if err := a.growTo(ctx, in, draft); err != nil {
		return err
	}
	f, err := os.OpenFile(draft, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return a.finish(f, path)
}

// growInPlace grows a disk that was received from another host. QEMU writes the new size last.
func (a *Activities) growInPlace(ctx context.Context, in ResizeInput, path string) error {
	if _, err := allocated(path); err != nil {
		return lacking(ctx, in.From, err)
	}
	_, err := a.closed(ctx, path, "qcow2")
	if err == nil {
		err = a.growTo(ctx, in, path)
	}
	if err != nil {
		return failed(ctx, err, "disk %s", in.Disk.ID)
	}
	return nil
}

// growTo sees that a file is what it was made as, and as large as it is to be.
func (a *Activities) growTo(ctx context.Context, in ResizeInput, path string) error {
	i, err := ofOurs(a.idle(ctx, path, "qcow2"))
	if err != nil {
		return err
	}
	if i.Encrypted != in.Disk.Encrypted || i.BackingFilename != "" && !a.inCache(i.BackingFilename) {
		return compute.Errorf(compute.Corrupt, "it is not what it was made as: encrypted %t, on %q", i.Encrypted, i.BackingFilename)
	}
	if bytes := in.Disk.SizeMB * mib; bytes > i.VirtualSize && in.Disk.SizeMB > in.From.SizeMB {
		return a.grow(ctx, in, path, bytes)
	}
	return nil
}

// inCache reports whether a path is below the image cache's folder.
func (a *Activities) inCache(path string) bool {
	name, err := filepath.Rel(a.CacheDir, path)
	return err == nil && filepath.IsLocal(name)
}

// grow grows a file.
func (a *Activities) grow(ctx context.Context, in ResizeInput, path string, bytes int64) error {
	c := Command{Name: "qemu-img", Args: []string{"resize", "-q"}}
	file := qcow2Node(path, "", nil)
	if in.Disk.Encrypted {
		if in.Disk.Secret == nil {
			return compute.Errorf(compute.Invalid, "it is encrypted and names no secret")
		}
		key, err := a.Keys.Passphrase(ctx, in.Credential, *in.Disk.Secret)
		if err != nil {
			return err
		}
		defer key.Wipe()
		file = qcow2Node(path, originKey, nil)
		c.lend(originKey, key)
	}
	c.Args = append(c.Args, file.json(), strconv.FormatInt(bytes, 10))
	_, err := a.Runner.Run(ctx, c)
	if says(err, "Invalid password") {
		return compute.Errorf(compute.Corrupt, "it does not open with secret %s", in.Disk.Secret)
	}
	return err
}
