package watchdog_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/worker/watchdog"
)

func at(boot string, since time.Duration) watchdog.Moment {
	return watchdog.Moment{Boot: boot, Since: since}
}

// A promise counts from the last answer, by a clock that nobody sets. A machine that was booted since has had none.
func TestPromiseIsDue(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for name, c := range map[string]struct {
		promise watchdog.Promise
		now     watchdog.Moment
		due     bool
	}{
		"nothing is promised":                {watchdog.Promise{}, at("a", time.Hour), false},
		"nothing was promised before a boot": {watchdog.Promise{Heard: at("a", s)}, at("b", time.Hour), false},
		"it was answered":                    {watchdog.Promise{Heard: at("a", 100*s), After: 60 * s}, at("a", 160*s-1), false},
		"for long enough it was not":         {watchdog.Promise{Heard: at("a", 100*s), After: 60 * s}, at("a", 160*s), true},
		"it was booted since":                {watchdog.Promise{Heard: at("a", 100*s), After: 60 * s}, at("b", 101*s), true},
	} {
		require.Equal(t, c.due, c.promise.Due(c.now), name)
	}
}

// The kernel's clock goes on, and says which boot it is of.
func TestMachine(t *testing.T) {
	t.Parallel()
	first, err := watchdog.Machine()
	require.NoError(t, err)
	second, err := watchdog.Machine()
	require.NoError(t, err)
	require.Len(t, first.Boot, 36)
	require.Equal(t, first.Boot, second.Boot)
	require.GreaterOrEqual(t, second.Since, first.Since)
	require.Positive(t, first.Since)
}

// A promise is kept until it is taken back. It is written in place, and a broken one is none.
func TestNote(t *testing.T) {
	t.Parallel()
	n := watchdog.Note(filepath.Join(t.TempDir(), "new", "promise"))
	got, err := n.Read()
	require.NoError(t, err)
	require.Zero(t, got)
	require.NoError(t, n.Write(watchdog.Promise{}))
	p := watchdog.Promise{Heard: at("a", 1<<60), After: 24 * time.Hour}
	require.NoError(t, n.Write(p))
	was, err := os.Stat(string(n))
	require.NoError(t, err)
	for range 2 {
		p.Heard.Since /= 1024
		require.NoError(t, n.Write(p))
		got, err = n.Read()
		require.NoError(t, err)
		require.Equal(t, p, got)
	}
	is, err := os.Stat(string(n))
	require.NoError(t, err)
	require.True(t, os.SameFile(was, is), "a full disk does not hinder it")
	require.Equal(t, was.Size(), is.Size())

	text, err := os.ReadFile(string(n))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(string(n), text[:100], 0o600))
	_, err = n.Read()
	require.ErrorContains(t, err, "is broken")
	require.NoError(t, n.Write(p), "the next answer mends it")
	got, err = n.Read()
	require.NoError(t, err)
	require.Equal(t, p, got)
	for range 2 {
		require.NoError(t, n.Write(watchdog.Promise{}))
		require.NoFileExists(t, string(n))
	}
}

// A watchdog stops guests once the promise is due and for as long as it is, whatever it was started for:
// one that starts late counts from the last answer, too. It says that it looks while it does its work.
func TestWatchdog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		note, alive := watchdog.Note(filepath.Join(dir, "promise")), watchdog.Alive(filepath.Join(dir, "alive"))
		begin, boot := time.Now(), "a"
		now := func() watchdog.Moment { return at(boot, time.Since(begin)) }
		heard := func() { require.NoError(t, note.Write(watchdog.Promise{Heard: now(), After: time.Minute})) }
		stops := 0
		var stuck error
		ctx, cancel := context.WithCancel(t.Context())
		w := &watchdog.Watchdog{
			Note: note, Alive: alive, Logger: slog.New(slog.DiscardHandler), Now: func() (watchdog.Moment, error) { return now(), nil },
			StopAll: func(context.Context) error { stops++; return stuck },
		}
		require.False(t, alive.Looks(now()))
		ended := make(chan struct{})
		go func() { defer close(ended); w.Run(ctx) }()
		stopped := func(after time.Duration) int {
			was := stops
			time.Sleep(after)
			synctest.Wait()
			return stops - was
		}
		time.Sleep(time.Millisecond) // it looks between whole seconds from here on
		require.Zero(t, stopped(time.Hour), "nothing is promised")
		require.True(t, alive.Looks(now()))
		heard()
		require.Zero(t, stopped(59*time.Second))
		require.Positive(t, stopped(2*time.Second))
		require.Equal(t, 10, stopped(10*time.Second), "something may start a guest")
		heard()
		require.Zero(t, stopped(59*time.Second))

		require.NoError(t, os.WriteFile(string(note), []byte("broken"), 0o600))
		require.Equal(t, 10, stopped(11*time.Second), "what it read last holds")
		heard()
		require.Zero(t, stopped(2*time.Second))
		boot = "b"
		require.Equal(t, 5, stopped(5*time.Second), "no gateway has answered since the boot")
		stuck = errors.New("a guest that does not stop")
		require.Equal(t, 11, stopped(11*time.Second))
		require.False(t, alive.Looks(now()), "it does not do its work")
		stuck = nil
		require.NoError(t, note.Write(watchdog.Promise{}))
		require.Zero(t, stopped(time.Hour), "it was taken back")
		require.True(t, alive.Looks(now()))
		cancel()
		<-ended
		time.Sleep(11 * time.Second)
		require.False(t, alive.Looks(now()), "it runs no more")
	})
}

// A promise of which nothing was ever read, and that cannot be read, holds: it was made.
func TestWatchdogWithABrokenPromise(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		note := watchdog.Note(filepath.Join(t.TempDir(), "promise"))
		require.NoError(t, os.WriteFile(string(note), []byte("broken"), 0o600))
		stops := 0
		w := &watchdog.Watchdog{
			Note: note, Logger: slog.New(slog.DiscardHandler), Now: func() (watchdog.Moment, error) { return at("a", time.Hour), nil },
			StopAll: func(context.Context) error { stops++; return nil },
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		w.Run(ctx)
		require.InDelta(t, 11, stops, 1, "the worker has had the time to write it anew")
	})
}
