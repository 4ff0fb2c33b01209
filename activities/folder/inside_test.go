package folder_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/folder"
)

// A file is replaced whole, whatever had its name or its draft's, and read only where it is one.
func TestReplaceIn(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "outside")
	require.NoError(t, os.WriteFile(outside, []byte("as it was"), 0o600))
	for name, plant := range map[string]func(path string) error{
		"nothing":   func(string) error { return nil },
		"a file":    func(path string) error { return os.WriteFile(path, []byte("of another"), 0o600) },
		"a link":    func(path string) error { return os.Symlink(outside, path) },
		"a folder":  func(path string) error { return os.MkdirAll(filepath.Join(path, "full"), 0o700) },
		"no target": func(path string) error { return os.Symlink(filepath.Join(dir, "none"), path) },
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, plant(path+".new"))
		require.NoError(t, plant(path))
		if name == "a link" {
			_, err := folder.ReadIn(dir, name)
			require.ErrorIs(t, err, folder.ErrNoFile)
		}
		require.NoError(t, folder.ReplaceIn(dir, name, []byte("new"), 0o640), name)
		text, err := folder.ReadIn(dir, name)
		require.NoError(t, err)
		require.Equal(t, "new", string(text))
		info, err := os.Lstat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o640), info.Mode(), name)
		require.NoFileExists(t, path+".new")
	}
	text, err := os.ReadFile(outside)
	require.NoError(t, err)
	require.Equal(t, "as it was", string(text))
	_, err = folder.ReadIn(dir, "absent")
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorIs(t, folder.ReplaceIn(filepath.Join(dir, "absent"), "a", nil, 0o600), os.ErrNotExist)
}

// A file that is replaced all the time, as swtpm does with its state, is opened all the same.
func TestOpenInWhileItIsReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "state")
	require.NoError(t, os.WriteFile(name, []byte("state"), 0o600))
	var stop atomic.Bool
	ended := make(chan error, 1)
	go func() {
		var err error
		for err == nil && !stop.Load() {
			err = errors.Join(os.WriteFile(name+".next", []byte("state"), 0o600), os.Rename(name+".next", name))
		}
		ended <- err
	}()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer func() { require.NoError(t, root.Close()) }()
	for range 5000 {
		f, info, err := folder.OpenIn(root, "state")
		require.NoError(t, err)
		require.EqualValues(t, len("state"), info.Size())
		require.NoError(t, f.Close())
	}
	stop.Store(true)
	require.NoError(t, <-ended)
}
