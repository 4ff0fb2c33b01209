package mount

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"strongroom/activities/folder"
	"strongroom/compute"
)

const (
	// endPatience is how long ceph-fuse may take to write what it holds once it is unmounted.
	endPatience = 30 * time.Second

	pidName   = "pid"  // beside the mount point: which process mounted it
	oldSuffix = ".old" // of the note of one before, which may still write: "<its id>.old"
)

// endBegun ends the ceph-fuse of an attempt that was cut off before its mount was made, and forgets
// what that was told; found says that there was such an attempt. Without it a mount might come
// up later, below the next one. Nobody has written to it.
func (a *Activities) endBegun(p place, id compute.ShareID) (found bool, err error) {
	point := a.Path(id)
	told := a.told(point)
	if _, err := os.Lstat(told); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, failed(id, "look for an attempt that was cut off", err)
	}
	old, err := a.servedBefore(id)
	if err != nil {
		return false, err
	}
	begun := func(pid int) bool {
		return !slices.Contains(old, pid) && p.serves(pid, point) && p.has(pid, filepath.Join(told, confName))
	}
	for end := time.Now().Add(endPatience); ; time.Sleep(20 * time.Millisecond) { // it goes into the background by a fork
		left, err := p.kill(begun)
		if err != nil {
			return false, failed(id, "end an attempt that was cut off", err)
		}
		if left == 0 {
			break
		}
		if time.Now().After(end) {
			return false, compute.Errorf(compute.Unavailable, "share %s: a ceph-fuse that was cut off does not end", id)
		}
	}
	if err := os.RemoveAll(told); err != nil {
		return false, failed(id, "clear its settings", err)
	}
	return true, nil
}

// keep keeps the note of a process that still serves the mount that was there before, under
// another name: ceph-fuse writes its own, and would not start where another holds the file.
func (a *Activities) keep(p place, id compute.ShareID) error {
	f := folder.Folder{Path: filepath.Join(a.Dir, id.String())}
	pid, err := readPID(f.File(pidName))
	if err == nil && pid > 0 && p.serves(pid, a.Path(id)) {
		err = os.Rename(f.File(pidName), f.File(strconv.Itoa(pid)+oldSuffix))
	}
	if err != nil {
		return failed(id, "note who served it before", err)
	}
	return nil
}

// readPID reads the note of a process; 0: there is none, or it had not begun.
func readPID(file string) (int, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return pid, nil
}

// servedBefore gives the processes that keep noted.
func (a *Activities) servedBefore(id compute.ShareID) (pids []int, err error) {
	entries, err := os.ReadDir(filepath.Join(a.Dir, id.String()))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, failed(id, "list who served it before", err)
	}
	for _, e := range entries {
		if text, ok := strings.CutSuffix(e.Name(), oldSuffix); ok {
			if pid, err := strconv.Atoi(text); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids, nil
}

// ended waits until the processes that served a share's mounts have ended: until then they may
// write to the storage, and whoever denies them access loses that.
func (a *Activities) ended(ctx context.Context, p place, id compute.ShareID) error {
	f := folder.Folder{Path: filepath.Join(a.Dir, id.String())}
	pid, err := readPID(f.File(pidName))
	if err != nil {
		return failed(id, "read who mounted it", err)
	}
	old, err := a.servedBefore(id)
	if err != nil {
		return err
	}
	serves := func(pid int) bool { return pid > 0 && p.serves(pid, a.Path(id)) }
	for end := time.Now().Add(endPatience); serves(pid) || slices.ContainsFunc(old, serves); {
		if time.Now().After(end) {
			return compute.Errorf(compute.Unavailable, "share %s is unmounted, and ceph-fuse still writes to its storage", id)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	for _, pid := range old {
		if err := os.Remove(f.File(strconv.Itoa(pid) + oldSuffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return failed(id, "forget who served it before", err)
		}
	}
	return nil
}
