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

// A lease counts from the last contact, by a clock that nobody sets. A machine that was booted since has had none.
func TestLeaseExpires(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for name, c := range map[string]struct {
		lease   watchdog.Lease
		now     watchdog.Moment
		expired bool
	}{
		"there is none":                {watchdog.Lease{}, at("a", time.Hour), false},
		"there was none before a boot": {watchdog.Lease{LastContact: at("a", s)}, at("b", time.Hour), false},
		"it had contact":               {watchdog.Lease{LastContact: at("a", 100*s), Timeout: 60 * s}, at("a", 160*s-1), false},
		"it had none for long enough":  {watchdog.Lease{LastContact: at("a", 100*s), Timeout: 60 * s}, at("a", 160*s), true},
		"it was booted since":          {watchdog.Lease{LastContact: at("a", 100*s), Timeout: 60 * s}, at("b", 101*s), true},
	} {
		require.Equal(t, c.expired, c.lease.Expired(c.now), name)
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

// files are those of a lease, in folders that are not there yet.
func files(t *testing.T) *watchdog.LeaseFiles {
	dir := t.TempDir()
	return &watchdog.LeaseFiles{Run: filepath.Join(dir, "run", "lease"), State: filepath.Join(dir, "state", "lease")}
}

// asOther is a process that reads what another one writes.
func asOther(f *watchdog.LeaseFiles) *watchdog.LeaseFiles {
	return &watchdog.LeaseFiles{Run: f.Run, State: f.State}
}

func read(t *testing.T, f *watchdog.LeaseFiles) watchdog.Lease {
	t.Helper()
	l, err := asOther(f).Read()
	require.NoError(t, err)
	return l
}

// A lease is written until it is released, in place. What is on disk of it is left after a boot.
func TestLeaseFiles(t *testing.T) {
	t.Parallel()
	f := files(t)
	require.Zero(t, read(t, f))
	require.NoError(t, f.Renew(watchdog.Lease{LastContact: at("a", 1)}))
	require.NoFileExists(t, f.Run)
	require.NoFileExists(t, f.State)
	l := watchdog.Lease{LastContact: at("a", 1<<60), Timeout: 24 * time.Hour}
	require.NoError(t, f.Take(l))
	was, err := os.Stat(f.Run)
	require.NoError(t, err)
	for range 2 {
		l.LastContact.Since /= 1024
		require.NoError(t, f.Renew(l))
		require.Equal(t, l, read(t, f))
	}
	is, err := os.Stat(f.Run)
	require.NoError(t, err)
	require.True(t, os.SameFile(was, is), "a full file system does not hinder it")
	require.Equal(t, was.Size(), is.Size())

	text, err := os.ReadFile(f.Run)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(f.Run, text[:100], 0o600))
	_, err = asOther(f).Read()
	require.ErrorContains(t, err, "is broken")
	require.NoError(t, f.Renew(l), "the next contact mends it")
	require.Equal(t, l, read(t, f))

	require.NoError(t, os.Remove(f.Run)) // as a boot does
	left := read(t, f)
	require.Equal(t, l.Timeout, left.Timeout)
	require.True(t, left.Expired(at("b", 1)))
	for _, timeout := range []time.Duration{time.Hour, 2 * time.Hour} {
		l.Timeout = timeout
		require.NoError(t, asOther(f).Renew(l))
		require.Equal(t, l, read(t, f))
		require.NoError(t, os.Remove(f.Run))
		require.Equal(t, timeout, read(t, f).Timeout)
	}
	for range 2 {
		require.NoError(t, f.Renew(watchdog.Lease{LastContact: at("a", 2)}))
		require.NoFileExists(t, f.Run)
		require.NoFileExists(t, f.State)
	}
}

// dog is a watchdog on a clock that a test sets.
type dog struct {
	*watchdog.Watchdog
	t     *testing.T
	begin time.Time
	boot  string
	stops int
	stuck error // what hinders it from stopping guests
	ended chan struct{}
	end   context.CancelFunc
}

func newDog(t *testing.T) *dog {
	d := &dog{t: t, begin: time.Now(), boot: "a"}
	dir := t.TempDir()
	d.Watchdog = &watchdog.Watchdog{
		Lease: asOther(files(t)), Heartbeat: watchdog.Heartbeat(filepath.Join(dir, "heartbeat")), Worker: watchdog.Heartbeat(filepath.Join(dir, "worker")),
		Logger: slog.New(slog.DiscardHandler), Now: func() (watchdog.Moment, error) { return d.now(), nil },
		StopAll: func(context.Context) error { d.stops++; return d.stuck },
	}
	return d
}

func (d *dog) now() watchdog.Moment { return at(d.boot, time.Hour+time.Since(d.begin)) }

// contact is noted by the worker.
func (d *dog) contact(ago time.Duration) {
	d.t.Helper()
	is := d.now()
	is.Since -= ago
	require.NoError(d.t, asOther(d.Lease).Renew(watchdog.Lease{LastContact: is, Timeout: time.Minute}))
}

func (d *dog) breaks() {
	d.t.Helper()
	require.NoError(d.t, os.MkdirAll(filepath.Dir(d.Lease.Run), 0o700))
	require.NoError(d.t, os.WriteFile(d.Lease.Run, []byte("broken"), 0o600))
}

// start looks between whole seconds.
func (d *dog) start() {
	ctx, end := context.WithCancel(d.t.Context())
	d.ended, d.end = make(chan struct{}), end
	go func() { defer close(d.ended); d.Run(ctx) }()
	time.Sleep(time.Millisecond)
}

func (d *dog) stop() {
	d.end()
	<-d.ended
}

// stopped is how often guests are stopped in a time.
func (d *dog) stopped(in time.Duration) int {
	was := d.stops
	time.Sleep(in)
	synctest.Wait()
	return d.stops - was
}

// A watchdog stops guests once the lease has expired and for as long as that is so.
// It beats while it does its work.
func TestWatchdog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDog(t)
		require.False(t, d.Heartbeat.Beats(d.now()))
		d.start()
		require.Zero(t, d.stopped(time.Hour), "there is no lease")
		require.True(t, d.Heartbeat.Beats(d.now()))
		d.contact(0)
		require.Zero(t, d.stopped(59*time.Second))
		require.Positive(t, d.stopped(2*time.Second))
		require.Equal(t, 10, d.stopped(10*time.Second), "something may start a guest")
		d.contact(0)
		require.Zero(t, d.stopped(59*time.Second))

		d.breaks()
		require.Equal(t, 10, d.stopped(11*time.Second), "what it read last holds")
		d.contact(0)
		require.Zero(t, d.stopped(2*time.Second))
		d.boot = "b"
		require.Equal(t, 5, d.stopped(5*time.Second), "there was no contact since the boot")
		d.stuck = errors.New("a guest that does not stop")
		require.Equal(t, 11, d.stopped(11*time.Second))
		require.False(t, d.Heartbeat.Beats(d.now()), "it does not do its work")
		d.stuck = nil
		require.NoError(t, asOther(d.Lease).Renew(watchdog.Lease{}))
		require.Zero(t, d.stopped(time.Hour), "it was released")
		require.True(t, d.Heartbeat.Beats(d.now()))
		d.stop()
		time.Sleep(11 * time.Second)
		require.False(t, d.Heartbeat.Beats(d.now()), "it runs no more")
	})
}

// A run folder that is removed, by a service manager that made it, say, takes no contact back.
func TestWatchdogWithoutTheRunFolder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDog(t)
		d.contact(0)
		d.start()
		require.Zero(t, d.stopped(50*time.Second))
		d.contact(0)
		require.Zero(t, d.stopped(5*time.Second))
		require.NoError(t, os.RemoveAll(filepath.Dir(d.Lease.Run)))
		require.Zero(t, d.stopped(50*time.Second))
		require.Positive(t, d.stopped(10*time.Second))
		d.stop()
	})
}

// One that starts and finds a lease that expired, since an earlier release left it or the host was booted, gives the worker the time
// for a contact. One that follows another one at once does not: that had begun to stop guests.
func TestWatchdogThatStartsLate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		arrange func(*dog)
		stops   int // within 25 seconds
	}{
		"an earlier release left it, and the worker has contact": {func(d *dog) {
			d.contact(time.Hour)
			time.AfterFunc(19*time.Second, func() { d.contact(0) })
		}, 0},
		"the same, and there is no lease any more": {func(d *dog) {
			d.contact(time.Hour)
			time.AfterFunc(19*time.Second, func() { require.NoError(d.t, asOther(d.Lease).Renew(watchdog.Lease{})) })
		}, 0},
		"there is no contact": {func(d *dog) { d.contact(time.Hour) }, 6},
		"it was booted": {func(d *dog) {
			d.contact(0)
			require.NoError(d.t, os.Remove(d.Lease.Run))
			d.boot = "b"
		}, 6},
		"another one ran a moment ago": {func(d *dog) {
			d.start()
			d.stop()
			d.contact(time.Hour)
			d.Watchdog = &watchdog.Watchdog{Lease: d.Lease, Heartbeat: d.Heartbeat, Now: d.Now, StopAll: d.StopAll, Logger: d.Logger}
		}, 26},
		"it expires meanwhile": {func(d *dog) { d.contact(50 * time.Second) }, 16},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDog(t)
				c.arrange(d)
				d.start()
				d.stopped(25 * time.Second)
				require.Equal(t, c.stops, d.stops)
				d.stop()
			})
		})
	}
}

// A watchdog that was never able to read the lease says so, and takes no part in one. It leaves the guests to the
// worker's, which knows the lease; without that it stops them, for it cannot know whether they run elsewhere by now.
func TestWatchdogThatCannotKnow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDog(t)
		var told counter
		d.Logger = slog.New(&told)
		d.breaks()
		worker := &watchdog.Watchdog{Lease: asOther(files(t)), Now: d.Now, Heartbeat: d.Worker, Logger: slog.New(slog.DiscardHandler)}
		ctx, end := context.WithCancel(t.Context())
		go worker.Run(ctx)
		d.start()
		require.Zero(t, d.stopped(time.Hour))
		require.False(t, d.Heartbeat.Beats(d.now()), "no lease is taken because of it")
		require.InDelta(t, 60, told.errors, 1, "each minute")
		end()
		require.Zero(t, d.stopped(9*time.Second))
		require.InDelta(t, 10, d.stopped(11*time.Second), 1, "nobody else would stop them")
		d.contact(0)
		require.Zero(t, d.stopped(30*time.Second))
		require.True(t, d.Heartbeat.Beats(d.now()))
		d.stop()
	})
	synctest.Test(t, func(t *testing.T) {
		d := newDog(t)
		d.breaks()
		d.start()
		require.Zero(t, d.stopped(19*time.Second), "the worker has the time to write it anew")
		require.Equal(t, 5, d.stopped(5*time.Second))
		d.stop()
	})
}

// counter counts what is told as an error.
type counter struct {
	slog.Handler
	errors int
}

func (*counter) Enabled(context.Context, slog.Level) bool { return true }

func (c *counter) Handle(_ context.Context, r slog.Record) error {
	if r.Level == slog.LevelError {
		c.errors++
	}
	return nil
}
