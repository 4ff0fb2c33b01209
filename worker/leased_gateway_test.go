package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/worker"
	"strongroom/worker/gateway"
	"strongroom/worker/watchdog"
)

// listener is a gateway, and what it knows of the host's lease.
type listener struct {
	worker.Gateway
	accepts, answers bool
	fenceAfter       int32
	number           int64
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
		l.fenceAfter, l.number = report.FenceAfter, report.ReportNumber
	}
	return l.hear()
}

func (l *listener) Seen(context.Context) ([]gateway.AtRest, error) { return nil, l.hear() }

// leased is a host with a clock that goes on by a second with each look at it.
type leased struct {
	*worker.LeasedGateway
	*listener
	clock time.Duration
	beats bool // a watchdog
}

func newLeased(t *testing.T, after time.Duration) *leased {
	dir := t.TempDir()
	w := &leased{beats: true}
	w.listener = &listener{accepts: true, answers: true, now: func() time.Duration { w.clock += time.Second; return w.clock }}
	dog := &watchdog.Watchdog{
		Lease: &watchdog.LeaseFiles{Run: filepath.Join(dir, "none"), State: filepath.Join(dir, "none")}, Heartbeat: watchdog.Heartbeat(filepath.Join(dir, "heartbeat")), Logger: slog.New(slog.DiscardHandler),
		Now: func() (watchdog.Moment, error) { return watchdog.Moment{Boot: "a", Since: w.clock}, nil },
	}
	w.LeasedGateway = &worker.LeasedGateway{
		Gateway: w.listener, Timeout: after, Watchdog: dog.Heartbeat,
		Lease:  &watchdog.LeaseFiles{Run: filepath.Join(dir, "run", "lease"), State: filepath.Join(dir, "state", "lease")},
		Logger: slog.New(slog.DiscardHandler),
		Now: func() (watchdog.Moment, error) {
			if w.beats {
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

func (w *leased) report(t *testing.T) error {
	t.Helper()
	return w.LeasedGateway.Report(t.Context(), gateway.HostReport{})
}

// onFile is the lease as the other process reads it.
func (w *leased) onFile(t *testing.T) watchdog.Lease {
	t.Helper()
	l, err := (&watchdog.LeaseFiles{Run: w.Lease.Run, State: w.Lease.State}).Read()
	require.NoError(t, err)
	return l
}

// keeps requires that the host stops its guests in time for what the control plane knows of it.
func (w *leased) keeps(t *testing.T) watchdog.Lease {
	t.Helper()
	p := w.onFile(t)
	if w.fenceAfter > 0 {
		require.Positive(t, p.Timeout)
		require.LessOrEqual(t, p.LastContact.Since+p.Timeout, w.heard+time.Duration(w.fenceAfter)*time.Second)
	}
	return p
}

// What an earlier release wrote down of its lease goes when the control plane has answered this one, whether
// it has a lease or not; a watchdog of that release may read it until then.
func TestTheFileOfAnEarlierReleaseGoes(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{0, time.Minute} {
		w := newLeased(t, after)
		w.Lease.Former = filepath.Join(t.TempDir(), "host.promise")
		require.NoError(t, os.WriteFile(w.Lease.Former, []byte("{}"), 0o600))
		require.NoError(t, os.WriteFile(w.Lease.Former+".new", nil, 0o600))
		w.answers = false
		require.Error(t, w.report(t))
		require.FileExists(t, w.Lease.Former)
		w.answers = true
		require.NoError(t, w.report(t))
		require.NoFileExists(t, w.Lease.Former)
		require.NoFileExists(t, w.Lease.Former+".new")
		require.Equal(t, after, w.onFile(t).Timeout)
		require.NoError(t, w.report(t))
	}
}

// Whatever the control plane may have heard, and whichever answer was lost, the host stops its guests no
// later than it expects; a lease is written down before it is told of, and one that is released holds until that was answered.
func TestTheHostKeepsItsLease(t *testing.T) {
	t.Parallel()
	const s = time.Second
	w := newLeased(t, 100*s)
	require.NoError(t, w.report(t))
	require.EqualValues(t, 100, w.fenceAfter)
	first := w.keeps(t)
	require.Equal(t, 100*s, first.Timeout)
	_, err := w.LeasedGateway.Seen(t.Context())
	require.NoError(t, err)
	second := w.keeps(t)
	require.Greater(t, second.LastContact.Since, first.LastContact.Since)
	require.Less(t, second.LastContact.Since, w.heard, "it counts from when it asked")

	for _, is := range []struct{ accepts, answers bool }{{false, false}, {true, false}} {
		w.accepts, w.answers = is.accepts, is.answers
		_, err = w.LeasedGateway.Seen(t.Context())
		require.Error(t, err)
		require.Error(t, w.report(t))
		require.Equal(t, second, w.keeps(t))
		for _, after := range []time.Duration{60 * s, 300 * s, 0} { // the operator changes it
			w.Timeout = after
			require.Error(t, w.report(t))
			require.Equal(t, watchdog.Lease{LastContact: second.LastContact, Timeout: 60 * s}, w.keeps(t), "the shortest that may be known")
		}
		w.Timeout = 100 * s
		require.NoError(t, w.Lease.Take(second))
		w.fenceAfter = 100
	}
	w.accepts, w.answers = true, true
	w.Timeout = 300 * s
	require.NoError(t, w.report(t))
	require.Equal(t, 300*s, w.keeps(t).Timeout)
	require.EqualValues(t, 300, w.fenceAfter)
}

// No lease is taken without the process that stops guests when the worker is dead, and it is released when
// that is gone, or the worker is told to stop.
func TestNoLeaseWithoutAWatchdog(t *testing.T) {
	t.Parallel()
	w := newLeased(t, 100*time.Second)
	w.beats = false
	require.NoError(t, w.report(t))
	require.Zero(t, w.fenceAfter)
	require.Zero(t, w.keeps(t))
	_, err := w.LeasedGateway.Seen(t.Context())
	require.NoError(t, err)
	require.Zero(t, w.keeps(t))
	w.beats = true
	require.NoError(t, w.report(t))
	require.EqualValues(t, 100, w.fenceAfter)
	w.beats, w.clock = false, w.clock+time.Minute
	require.NoError(t, w.report(t))
	require.Zero(t, w.fenceAfter)
	require.Zero(t, w.keeps(t))

	w.beats = true
	require.NoError(t, w.report(t))
	w.accepts = false
	require.Error(t, w.Release(t.Context()))
	require.Equal(t, 100*time.Second, w.keeps(t).Timeout, "who knows of it was not told")
	w.accepts = true
	for range 2 {
		require.NoError(t, w.Release(t.Context()))
		require.Zero(t, w.fenceAfter)
		require.Zero(t, w.keeps(t))
	}
	off := newLeased(t, 0)
	require.NoError(t, off.Release(t.Context()))
	require.NoError(t, off.report(t))
	require.Zero(t, off.fenceAfter)
}

// Reports have numbers that ascend, also that which says that the lease is released.
func TestReportsAreNumbered(t *testing.T) {
	t.Parallel()
	w := newLeased(t, 100*time.Second)
	require.NoError(t, w.report(t))
	first := w.number
	require.Positive(t, first)
	require.NoError(t, w.report(t))
	second := w.number
	require.Greater(t, second, first)
	require.NoError(t, w.Release(t.Context()))
	require.Greater(t, w.number, second)
}

// The disk is written to only when a lease is taken, changed or released: that it is full, or broken, meanwhile is no
// reason to stop guests that have contact.
func TestContactIsNotedWithoutTheDisk(t *testing.T) {
	t.Parallel()
	w := newLeased(t, 100*time.Second)
	require.NoError(t, w.report(t))
	is := w.keeps(t)
	text, err := os.ReadFile(w.Lease.State)
	require.NoError(t, err)
	for range 2 {
		_, err := w.LeasedGateway.Seen(t.Context())
		require.NoError(t, err)
		require.NoError(t, w.report(t))
		was := is
		is = w.keeps(t)
		require.Greater(t, is.LastContact.Since, was.LastContact.Since)
		now, err := os.ReadFile(w.Lease.State)
		require.NoError(t, err)
		require.Equal(t, string(text), string(now))
	}
	unwritable(t, &w.Lease.State)
	_, err = w.LeasedGateway.Seen(t.Context())
	require.NoError(t, err)
	require.NoError(t, w.report(t))
	require.Greater(t, w.keeps(t).LastContact.Since, is.LastContact.Since)
	require.EqualValues(t, 100, w.fenceAfter)

	// It is released all the same.
	require.NoError(t, w.Release(t.Context()))
	require.Zero(t, w.fenceAfter)
	require.Zero(t, w.onFile(t).Timeout)
}

// A host that cannot write a lease down takes none, and reports itself.
func TestNoLeaseThatCannotBeWrittenDown(t *testing.T) {
	t.Parallel()
	for _, which := range []func(*watchdog.LeaseFiles) *string{
		func(f *watchdog.LeaseFiles) *string { return &f.Run }, func(f *watchdog.LeaseFiles) *string { return &f.State },
	} {
		w := newLeased(t, 100*time.Second)
		unwritable(t, which(w.Lease))
		require.NoError(t, w.report(t))
		require.Zero(t, w.fenceAfter)
		require.Positive(t, w.number)
		lease, err := w.Lease.Read()
		require.NoError(t, err)
		require.Zero(t, lease.Timeout, "the worker stops no guests, either")
	}
}

// unwritable has a file be where none can be.
func unwritable(t *testing.T, file *string) {
	t.Helper()
	notAFolder := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(notAFolder, nil, 0o600))
	*file = filepath.Join(notAFolder, "lease")
}

// A lease that cannot be read is released, since nobody knows how long it holds; then another one is taken.
func TestABrokenLeaseIsMended(t *testing.T) {
	t.Parallel()
	w := newLeased(t, 100*time.Second)
	require.NoError(t, os.MkdirAll(filepath.Dir(w.Lease.Run), 0o700))
	require.NoError(t, os.WriteFile(w.Lease.Run, []byte("broken"), 0o600))
	w.accepts = false
	require.Error(t, w.report(t))
	_, err := w.Lease.Read()
	require.ErrorContains(t, err, "is broken")
	w.accepts = true
	require.NoError(t, w.report(t))
	require.Zero(t, w.fenceAfter)
	require.Zero(t, w.onFile(t))
	require.NoError(t, w.report(t))
	require.EqualValues(t, 100, w.fenceAfter)
	require.Equal(t, 100*time.Second, w.keeps(t).Timeout)
}
