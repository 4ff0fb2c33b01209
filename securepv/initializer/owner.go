package initializer

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Owner is to whom a new file system belongs, by number. The zero value is root, whose it is as mkfs makes it.
type Owner struct{ User, Group int }

// lostAndFound is what mkfs makes in a file system.
const lostAndFound = "lost+found"

// give gives the file system that a volume's folder shows to its owner, while it is root's and nothing was written to it: whatever the workload, or an init
// container of it, made of it since stays. A group's members may write, and what they make is the group's, as Kubernetes has it for fsGroup. mkfs
// has no option for that mode in each release; and a start that was killed before this is followed by one that does it.
func (v Volume) give() error {
	if v.Owner == (Owner{}) {
		return nil
	}
	var s unix.Stat_t
	if err := unix.Stat(v.Mount, &s); err != nil {
		return err
	}
	shared := uint32(unix.S_IFDIR | unix.S_ISGID | 0o775) // by a start that was killed
	if s.Uid != 0 || s.Gid != 0 || s.Mode != unix.S_IFDIR|0o755 && s.Mode != shared {
		return nil // it is somebody's, or somebody has said who may come in
	}
	if is, err := isUnused(v.Mount); err != nil || !is {
		return err
	}
	if v.Owner.Group != 0 {
		if err := os.Chmod(v.Mount, 0o775|fs.ModeSetgid); err != nil {
			return err
		}
	}
	return os.Chown(v.Mount, v.Owner.User, v.Owner.Group) // last: it ends that the folder is root's
}

// isUnused reports whether a folder has no more than a new file system has.
func isUnused(folder string) (bool, error) {
	f, err := os.Open(folder)
	if err != nil {
		return false, err
	}
	defer f.Close()
	names, err := f.Readdirnames(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return !slices.ContainsFunc(names, func(name string) bool { return name != lostAndFound }), nil
}
