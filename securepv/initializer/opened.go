package initializer

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// IsNew reports whether nothing is on a device, or the note that a format of it was begun, of whichever
// key; one that has a header is not new. *Refused: it holds something else.
func IsNew(device string) (bool, error) {
	f, err := openVolume(device, os.O_RDONLY)
	if err != nil {
		return false, err
	}
	defer f.Close()
	begin := make([]byte, len(note))
	if _, err := f.ReadAt(begin, 0); err != nil {
		return false, err
	}
	if string(begin) == note {
		return true, nil
	}
	is, err := look(f, nil)
	return is == isNew, err
}

// Opened gives what is open of the names that begin with a prefix, each once, whatever became of its
// device. Of one that was not opened to the end the Path is "".
func (DeviceMapper) Opened(prefix string) (all []Mapping, err error) {
	dirs, err := filepath.Glob("/sys/class/block/dm-*")
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		text, err := os.ReadFile(filepath.Join(dir, "dm/name"))
		if errors.Is(err, fs.ErrNotExist) { // closed since
			continue
		}
		if err != nil {
			return nil, err
		}
		name := strings.TrimSpace(string(text))
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		m := Mapping{Name: strings.TrimSuffix(name, partSuffix)}
		if m.Name == name {
			if m, err = mappingAt(dir); err != nil {
				return nil, err
			}
		}
		at := slices.IndexFunc(all, func(other Mapping) bool { return other.Name == m.Name })
		switch {
		case at < 0:
			all = append(all, m)
		case m.Path != "":
			all[at] = m
		}
	}
	return all, nil
}

// IsMounted reports whether an open volume is mounted at a folder.
func (m Mapping) IsMounted(at string) (bool, error) {
	if m.Path == "" {
		return false, nil
	}
	return isMounted(m.Path, at)
}

// Unmount ensures that an open volume, or a folder of it, is not mounted at a folder. ErrBusy: something still has files
// open there when patience ends.
func (m Mapping) Unmount(ctx context.Context, at string) error {
	if m.Path == "" {
		return nil
	}
	return patiently(ctx, func() error { return unmount(m.Path, at) })
}

// End ensures that an open volume is not mounted at a folder and not open any more, whatever became of its
// device. ErrBusy: something uses it, and it is as it was.
func (o *Opener) End(ctx context.Context, m Mapping, at string) error {
	mounted, err := m.IsMounted(at)
	if err != nil {
		return err
	}
	if err := m.Unmount(ctx, at); err != nil {
		return err
	}
	o.step("unmounted")
	if err = o.release(ctx, m.Name); err != nil && mounted {
		return errors.Join(err, o.attach(m.Path, at))
	}
	return err
}
