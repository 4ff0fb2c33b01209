package folder_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/activities/folder"
)

func setup(t *testing.T) folder.Folder {
	t.Helper()
	f, err := folder.Open(filepath.Join(t.TempDir(), "a", "b"))
	require.NoError(t, err)
	return f
}

func names(t *testing.T, f folder.Folder) []string {
	t.Helper()
	entries, err := os.ReadDir(f.Path)
	require.NoError(t, err)
	out := []string{}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestOpenClosesTheFolderToOthers(t *testing.T) {
	t.Parallel()
	f := setup(t)
	require.NoError(t, os.Chmod(f.Path, 0o755))
	_, err := folder.Open(f.Path)
	require.NoError(t, err)
	info, err := os.Stat(f.Path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

func TestWriteReplacesWhole(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for _, text := range []string{"a long first text", "short"} {
		require.NoError(t, f.Write("x", []byte(text)))
		got, err := os.ReadFile(f.File("x"))
		require.NoError(t, err)
		require.Equal(t, text, string(got))
	}
	info, err := os.Stat(f.File("x"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.Equal(t, []string{"x"}, names(t, f))
}

func TestAFailedKeepLeavesNothing(t *testing.T) {
	t.Parallel()
	f := setup(t)
	require.NoError(t, os.Mkdir(f.File("taken"), 0o700))
	require.Error(t, f.Write("taken", []byte("a file cannot replace a folder")))
	require.Equal(t, []string{"taken"}, names(t, f))
}

func TestRemoveTwice(t *testing.T) {
	t.Parallel()
	f := setup(t)
	require.NoError(t, f.Write("x", nil))
	require.NoError(t, f.Remove("x", "y"))
	require.NoError(t, f.Remove("x"))
	require.Empty(t, names(t, f))
}

func TestTidyTakesTheDeadAndSparesTheLiving(t *testing.T) {
	t.Parallel()
	f := setup(t)
	alive, err := f.Draft()
	require.NoError(t, err)
	defer alive.Discard()
	dead, err := f.Draft()
	require.NoError(t, err)
	require.NoError(t, dead.Close()) // as the kernel does for a process that dies

	require.NoError(t, f.Tidy())
	require.Equal(t, []string{filepath.Base(alive.Name())}, names(t, f))
	_, err = alive.WriteString("lives")
	require.NoError(t, err)
	require.NoError(t, alive.Keep("x"))
	require.Equal(t, []string{"x"}, names(t, f))
}

func TestDraftsSurviveTidiersAtWork(t *testing.T) {
	t.Parallel()
	f := setup(t)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for ctx.Err() == nil {
				_ = f.Tidy()
			}
		})
	}
	for i := range 300 {
		require.NoError(t, f.Write(strconv.Itoa(i), []byte("x")))
	}
	stop()
	wg.Wait()
	require.Len(t, names(t, f), 300)
}

func TestLockExcludes(t *testing.T) {
	t.Parallel()
	f := setup(t)
	var wg sync.WaitGroup
	var inside, most, times atomic.Int32
	for range 20 {
		wg.Go(func() {
			unlock, err := f.Lock(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			most.Store(max(most.Load(), inside.Add(1)))
			times.Add(1)
			time.Sleep(time.Millisecond)
			inside.Add(-1)
		})
	}
	wg.Wait()
	require.EqualValues(t, 20, times.Load())
	require.EqualValues(t, 1, most.Load())
}

// The lock of a part excludes who wants the same part, and nobody else.
func TestLockPart(t *testing.T) {
	t.Parallel()
	f := setup(t)
	unlock, err := f.LockPart(t.Context(), "one")
	require.NoError(t, err)
	other, err := f.LockPart(t.Context(), "two")
	require.NoError(t, err)
	other()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = f.LockPart(ctx, "one")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	unlock()
	unlock, err = f.LockPart(t.Context(), "one")
	require.NoError(t, err)
	unlock()
}

func TestLockEndsWithTheContext(t *testing.T) {
	t.Parallel()
	f := setup(t)
	unlock, err := f.Lock(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = f.Lock(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	unlock()
	unlock, err = f.Lock(t.Context())
	require.NoError(t, err)
	unlock()
}
