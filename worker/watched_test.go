package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/worker"
	"strongroom/worker/gateway"
	"strongroom/worker/watchdog"
)

// listener is a gateway, and what the host promised it.
type listener struct {
	worker.Gateway
	accepts, answers bool
	promised         int32
	heard            time.Duration // of the host, by its clock
	now              func() time.Duration
}

func (l *listener) hear() error {
	switch {
	case !l.accepts:
		return errors.New("cut off")
	case !l.answers:
		l.heard = l.now()
		return errors.New("the answer is lost")
	}
	l.heard = l.now()
	return nil
}

func (l *listener) Report(_ context.Context, report gateway.HostReport) error {
	if l.accepts {
		l.promised = report.FenceAfter
	}
	return l.hear()
}

func (l *listener) Seen(context.Context) ([]gateway.AtRest, error) { return nil, l.hear() }

// watched is a host with a clock that goes on by a second with each look at it.
type watched struct {
	*worker.Watched
	*listener
	clock time.Duration
	looks bool // a watchdog
}

func newWatched(t *testing.T, after time.Duration) *watched {
	dir := t.TempDir()
	w := &watched{looks: true}
	w.listener = &listener{accepts: true, answers: true, now: func() time.Duration { w.clock += time.Second; return w.clock }}
	dog := &watchdog.Watchdog{
		Note: watchdog.Note(filepath.Join(dir, "none")), Alive: watchdog.Alive(filepath.Join(dir, "alive")), Logger: slog.New(slog.DiscardHandler),
		Now: func() (watchdog.Moment, error) { return watchdog.Moment{Boot: "a", Since: w.clock}, nil },
	}
	w.Watched = &worker.Watched{
		Gateway: w.listener, After: after, Note: watchdog.Note(filepath.Join(dir, "promise")), Watchdog: dog.Alive, Logger: slog.New(slog.DiscardHandler),
		Now: func() (watchdog.Moment, error) {
			if w.looks {
				ended, cancel := context.WithCancel(context.Background())
				cancel()
				dog.Run(ended) // looks once
			}
			w.clock += time.Second
			return watchdog.Moment{Boot: "a", Since: w.clock}, nil
		},
	}
	return w
}

func (w *watched) report(t *testing.T) error {
	t.Helper()
	return w.Watched.Report(t.Context(), gateway.HostReport{})
}

// keeps requires that the host stops its guests in time for what the control plane knows of it.
func (w *watched) keeps(t *testing.T) watchdog.Promise {
	t.Helper()
	p, err := w.Note.Read()
	require.NoError(t, err)
	if w.promised > 0 {
		require.Positive(t, p.After)
		require.LessOrEqual(t, p.Heard.Since+p.After, w.heard+time.Duration(w.promised)*time.Second)
	}
	return p
}

// Whatever the control plane may have heard, and whichever answer was lost, the host stops its guests no
// later than that is promised; what it promises in addition holds before it says so, what it takes back until that was answered.
func TestTheHostKeepsWhatItPromised(t *testing.T) {
	t.Parallel()
	const s = time.Second
	w := newWatched(t, 100*s)
	require.NoError(t, w.report(t))
	require.EqualValues(t, 100, w.promised)
	first := w.keeps(t)
	require.Equal(t, 100*s, first.After)
	_, err := w.Watched.Seen(t.Context())
	require.NoError(t, err)
	second := w.keeps(t)
	require.Greater(t, second.Heard.Since, first.Heard.Since)
	require.Less(t, second.Heard.Since, w.heard, "it counts from when it asked")

	for _, is := range []struct{ accepts, answers bool }{{false, false}, {true, false}} {
		w.accepts, w.answers = is.accepts, is.answers
		_, err = w.Watched.Seen(t.Context())
		require.Error(t, err)
		require.Error(t, w.report(t))
		require.Equal(t, second, w.keeps(t))
		for _, after := range []time.Duration{60 * s, 300 * s, 0} { // the operator changes it
			w.After = after
			require.Error(t, w.report(t))
			require.Equal(t, watchdog.Promise{Heard: second.Heard, After: 60 * s}, w.keeps(t), "the shortest that may be known")
		}
		w.After = 100 * s
		require.NoError(t, w.Note.Write(second))
		w.promised = 100
	}
	w.accepts, w.answers = true, true
	w.After = 300 * s
	require.NoError(t, w.report(t))
	require.Equal(t, 300*s, w.keeps(t).After)
	require.EqualValues(t, 300, w.promised)
}

// Nothing is promised without the process that stops guests when the worker is dead, and it is taken back when
// that is gone, or the worker is told to stop.
func TestNothingIsPromisedWithoutAWatchdog(t *testing.T) {
	t.Parallel()
	w := newWatched(t, 100*time.Second)
	w.looks = false
	require.NoError(t, w.report(t))
	require.Zero(t, w.promised)
	require.Zero(t, w.keeps(t))
	_, err := w.Watched.Seen(t.Context())
	require.NoError(t, err)
	require.Zero(t, w.keeps(t))
	w.looks = true
	require.NoError(t, w.report(t))
	require.EqualValues(t, 100, w.promised)
	w.looks, w.clock = false, w.clock+time.Minute
	require.NoError(t, w.report(t))
	require.Zero(t, w.promised)
	require.Zero(t, w.keeps(t))

	w.looks = true
	require.NoError(t, w.report(t))
	w.accepts = false
	require.Error(t, w.TakeBack(t.Context()))
	require.Equal(t, 100*time.Second, w.keeps(t).After, "who knows of it was not told")
	w.accepts = true
	for range 2 {
		require.NoError(t, w.TakeBack(t.Context()))
		require.Zero(t, w.promised)
		require.Zero(t, w.keeps(t))
	}
	off := newWatched(t, 0)
	require.NoError(t, off.TakeBack(t.Context()))
	require.NoError(t, off.report(t))
	require.Zero(t, off.promised)
}
