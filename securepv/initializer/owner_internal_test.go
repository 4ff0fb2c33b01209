package initializer

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// PV-11: a file system that is root's and has nothing in it is given to the workload's user, once; any other stays whose it is.
func TestPV11AFileSystemIsGivenOnce(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root: it changes owners")
	}
	const asMade = fs.ModeDir | 0o755
	t.Run("somebody said who may come in", func(t *testing.T) {
		t.Parallel()
		v := Volume{Mount: t.TempDir(), Owner: Owner{1000, 2000}}
		require.NoError(t, os.Chmod(v.Mount, 0o700))
		require.NoError(t, v.give())
		info, err := os.Stat(v.Mount)
		require.NoError(t, err)
		require.Equal(t, fs.ModeDir|0o700, info.Mode())
	})
	for name, c := range map[string]struct {
		owner, was, is Owner
		in             []string
		mode           fs.FileMode
	}{
		"new":                     {Owner{1000, 2000}, Owner{}, Owner{1000, 2000}, []string{lostAndFound}, fs.ModeDir | fs.ModeSetgid | 0o775},
		"without lost+found":      {Owner{1000, 2000}, Owner{}, Owner{1000, 2000}, nil, fs.ModeDir | fs.ModeSetgid | 0o775},
		"a user alone":            {Owner{1000, 0}, Owner{}, Owner{1000, 0}, []string{lostAndFound}, asMade},
		"a group alone":           {Owner{0, 2000}, Owner{}, Owner{0, 2000}, []string{lostAndFound}, fs.ModeDir | fs.ModeSetgid | 0o775},
		"root":                    {Owner{}, Owner{}, Owner{}, []string{lostAndFound}, asMade},
		"it has data":             {Owner{1000, 2000}, Owner{}, Owner{}, []string{lostAndFound, "data"}, asMade},
		"it has data alone":       {Owner{1000, 2000}, Owner{}, Owner{}, []string{"data"}, asMade},
		"it is somebody's":        {Owner{1000, 2000}, Owner{3000, 0}, Owner{3000, 0}, []string{lostAndFound}, asMade},
		"it is some group's":      {Owner{1000, 2000}, Owner{0, 3000}, Owner{0, 3000}, []string{lostAndFound}, asMade},
		"it is the owner's, once": {Owner{1000, 2000}, Owner{1000, 2000}, Owner{1000, 2000}, []string{lostAndFound}, asMade},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := Volume{Mount: filepath.Join(t.TempDir(), "state"), Owner: c.owner}
			require.NoError(t, os.Mkdir(v.Mount, 0o755))
			require.NoError(t, os.Chmod(v.Mount, 0o755))
			for _, name := range c.in {
				require.NoError(t, os.Mkdir(filepath.Join(v.Mount, name), 0o700))
			}
			require.NoError(t, os.Chown(v.Mount, c.was.User, c.was.Group))
			for range 2 {
				require.NoError(t, v.give())
				info, err := os.Stat(v.Mount)
				require.NoError(t, err)
				require.Equal(t, c.mode, info.Mode())
				var s unix.Stat_t
				require.NoError(t, unix.Stat(v.Mount, &s))
				got := Owner{int(s.Uid), int(s.Gid)}
				require.Equal(t, c.is, got)
			}
		})
	}
	require.ErrorIs(t, Volume{Mount: filepath.Join(t.TempDir(), "none"), Owner: Owner{User: 1}}.give(), fs.ErrNotExist)
}
