package domain_test

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/compute"
)

// beside is the host that a server comes to, as the one that it leaves reaches it.
type beside struct {
	*host
	from compute.HostID
	// cut is asked before each call and may fail it; nil: none does.
	cut      func(call string) error
	finished func() // after the guest runs, before the answer; nil: nothing
	sent     atomic.Int64
	slow     func(n int)  // before so many bytes are sent; nil: at once
	broken   func() error // whether a stream is broken off; nil: none is
}

func (b *beside) fault(call string) error {
	if b.cut == nil {
		return nil
	}
	return b.cut(call)
}

func (b *beside) Prepare(ctx context.Context, _ compute.Agent, of compute.Arrival, say domain.Leaving) ([]byte, error) {
	if err := b.fault("prepare"); err != nil {
		return nil, err
	}
	return b.PrepareArrival(ctx, of, b.from, say)
}

func (b *beside) Stream(ctx context.Context, _ compute.Agent, of compute.Arrival, name string) (domain.Stream, error) {
	if err := b.fault(name); err != nil {
		return nil, err
	}
	to, err := b.OpenArrival(ctx, of, b.from, name)
	if err != nil {
		return nil, err
	}
	return &counted{to, b}, nil
}

func (b *beside) Finish(ctx context.Context, _ compute.Agent, of compute.Arrival, cookie []byte, givenUp bool) (domain.Outcome, error) {
	if err := b.fault("finish"); err != nil {
		return domain.Outcome{}, err
	}
	got, err := b.FinishArrival(ctx, of, b.from, cookie, givenUp)
	if b.finished != nil {
		b.finished()
	}
	if lost := b.fault("finished"); lost != nil {
		return domain.Outcome{}, lost
	}
	return got, err
}

type counted struct {
	domain.Stream
	to *beside
}

func (c *counted) Write(p []byte) (int, error) {
	if c.to.slow != nil {
		c.to.slow(len(p))
	}
	if c.to.broken != nil {
		if err := c.to.broken(); err != nil {
			return 0, err
		}
	}
	n, err := c.Stream.Write(p)
	c.to.sent.Add(int64(n))
	return n, err
}

// journey is a server that runs on one host, and another one that it can go to.
type journey struct {
	t    *testing.T
	a    *host
	b    *beside
	s    compute.Server
	from compute.HostID
}

func goingOn(t *testing.T, tpm *compute.TPM, encrypted bool) *journey {
	t.Helper()
	return goingTo(t, setup(t, tiny), tpm, encrypted)
}

// goingTo is a journey to a host, of a server that is changed before it is made.
func goingTo(t *testing.T, b *host, tpm *compute.TPM, encrypted bool, change ...func(*compute.Server)) *journey {
	t.Helper()
	a := setup(t, tiny)
	a.SparePorts = 3 // the other host has none for the machines that it starts
	p := &journey{t: t, a: a, from: compute.HostID{UUID: uuid.New()}}
	p.b = &beside{host: b, from: p.from}
	a.Hosts = p.b

	p.s = a.server(t, encrypted, tpm)
	for _, do := range change {
		do(&p.s)
	}
	b.keys.values = a.keys.values
	require.NoError(t, b.disks.CacheImage(t.Context(), disk.CacheImageInput{Image: a.image}))
	a.disksOf(t, p.s)
	_, err := a.Start(t.Context(), domain.StartInput{Server: p.s})
	require.NoError(t, err)
	a.hear(t, p.s, "TG ready", 0)
	return p
}

// expect has the other host ready, and gives what the first one is asked.
func (p *journey) expect() domain.MigrateInput {
	p.t.Helper()
	for _, d := range p.s.Disks {
		in := disk.CreateInput{Server: p.s.ID, Disk: d}
		if d.Role == compute.RootDisk {
			in.Image = &p.s.Image
		}
		require.NoError(p.t, p.b.disks.Remove(p.t.Context(), ofFile(p.s.ID, d.Name())))
		_, err := p.b.disks.Create(p.t.Context(), in)
		require.NoError(p.t, err)
	}
	got, err := p.b.Expect(p.t.Context(), domain.ExpectInput{Server: p.s, Operation: "req-1", From: p.from})
	require.NoError(p.t, err)
	require.Empty(p.t, got.Unchecked)
	return domain.MigrateInput{Server: p.s.ID, Operation: "req-1"}
}

// power is the state of the server's domain on a host.
func (p *journey) power(h *host) compute.PowerState {
	p.t.Helper()
	state, err := h.Client.Power(p.t.Context(), p.s.ID)
	require.NoError(p.t, err)
	return state
}

// tick is the newest tick that the guest has said on a host.
func (p *journey) tick(h *host) int {
	p.t.Helper()
	log, err := h.Console(p.t.Context(), domain.ConsoleInput{Server: p.s.ID})
	require.NoError(p.t, err)
	at := strings.LastIndex(log, "TG tick=")
	if at < 0 {
		return 0
	}
	text, _, ended := strings.Cut(log[at+len("TG tick="):], "\n")
	if !ended {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(text))
	require.NoError(p.t, err)
	return n
}

// goesOn waits until the guest has ticked on.
func (p *journey) goesOn(h *host, after int) {
	p.t.Helper()
	require.Eventually(p.t, func() bool { return p.tick(h) > after }, time.Minute, 100*time.Millisecond)
}

func (p *journey) arrived() domain.ArrivedResult {
	p.t.Helper()
	got, err := p.b.Arrived(p.t.Context(), domain.ArrivedInput{Server: p.s})
	require.NoError(p.t, err)
	return got
}

// nothingThere requires that the other host has nothing of the move.
func (p *journey) nothingThere() {
	p.t.Helper()
	require.False(p.t, p.arrived().Arrived)
	require.Equal(p.t, compute.PowerNone, p.power(p.b.host))
	require.Equal(p.t, 1, qemus(p.t, p.s))
	require.Empty(p.t, p.a.secrets(p.t))
	require.Empty(p.t, p.b.secrets(p.t))
	if p.b.kept != nil {
		require.Empty(p.t, p.b.keeps(p.t, p.s.ID))
	}
	for _, h := range []*host{p.a, p.b.host} {
		left, err := filepath.Glob(filepath.Join(h.RunDir, "*.move"))
		require.NoError(p.t, err)
		require.Empty(p.t, left)
	}
}

// staysHere requires that the guest runs on where it was, and that the other host has nothing of it.
func (p *journey) staysHere() {
	p.t.Helper()
	was := p.tick(p.a)
	p.nothingThere()
	got, err := p.a.Departed(p.t.Context(), domain.DepartedInput{Server: p.s.ID})
	require.NoError(p.t, err)
	require.Equal(p.t, domain.DepartedResult{Departure: domain.Stayed, PowerState: compute.PowerRunning}, got)
	p.goesOn(p.a, was)
}

// TPM-20, EE-29: a guest goes on on another host where it was, with what its disks have and its
// TPM keeps; the host that it left has it off, and libvirt has no secret on either.
func TestLiveMigration(t *testing.T) {
	t.Parallel()
	p := goingOn(t, &compute.TPM{Version: compute.TPM20, Model: compute.TPMCRB}, true)
	require.Contains(t, p.a.ask(t, p.s, "write note kept", "TG write "), "err=<nil>")
	in := p.expect()
	p.goesOn(p.a, 0)
	was := p.tick(p.a)
	got, err := p.a.Migrate(t.Context(), in)
	require.NoError(t, err)
	require.True(t, got.Arrived)
	require.Equal(t, compute.PowerShutdown, p.power(p.a))
	require.Equal(t, domain.ArrivedResult{Arrived: true, PowerState: compute.PowerRunning}, p.arrived())
	if p.b.kept != nil { // who brought it need not be who takes it further (TPM-20)
		require.Equal(t, p.a.keys.values, p.b.keeps(t, p.s.ID))
		require.NoError(t, p.a.CloseIdle(t.Context()))
		require.Empty(t, p.a.keeps(t, p.s.ID))
	}
	left, err := p.a.Departed(t.Context(), domain.DepartedInput{Server: p.s.ID})
	require.NoError(t, err)
	require.Equal(t, domain.Halted, left.Departure)
	p.goesOn(p.b.host, was)
	require.Equal(t, 1, qemus(t, p.s))
	require.Empty(t, p.a.secrets(t))
	require.Empty(t, p.b.secrets(t))
	require.Contains(t, p.b.ask(t, p.s, "cat /root/note", "TG cat "), "kept")
	require.NoError(t, p.a.Remove(t.Context(), ofDomain(p.s.ID)))

	// It is defined there, as a start there would have defined it.
	_, err = p.b.Stop(t.Context(), domain.StopInput{Server: p.s.ID})
	require.NoError(t, err)
	_, err = p.b.Start(t.Context(), domain.StartInput{Server: p.s})
	require.NoError(t, err)
	said := p.b.hear(t, p.s, "TG ready", 0)
	require.Contains(t, said, "TG rootdisk boots=2 err=<nil>")
	require.Contains(t, said, "TG tpm nvcount=2 err=<nil>")
}

// A QEMU that is to wait for a guest and ends at once, as on a busy host, is started again.
func TestLiveMigrationTriesToPrepareAgain(t *testing.T) {
	t.Parallel()
	p := goingOn(t, nil, false)
	in := p.expect()
	f, err := os.OpenFile(filepath.Join(p.b.InstancesDir, p.s.ID.String(), p.s.Disks[0].Name()), os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	begin := make([]byte, 4)
	_, err = f.ReadAt(begin, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("none"), 0) // QEMU finds no qcow2 there
	require.NoError(t, err)
	mended := make(chan error, 1)
	p.b.cut = func(call string) error {
		if call == "prepare" {
			time.AfterFunc(time.Second, func() {
				_, err := f.WriteAt(begin, 0)
				mended <- err
			})
		}
		return nil
	}
	got, err := p.a.Migrate(t.Context(), in)
	require.NoError(t, err)
	require.NoError(t, <-mended)
	require.True(t, got.Arrived)
	require.Equal(t, domain.ArrivedResult{Arrived: true, PowerState: compute.PowerRunning}, p.arrived())
}

// H1: a live migration to a host that is revoked meanwhile is aborted, and the guest runs on: while its memory
// is on the way, and when it stands still already, for the other host heard nothing of the end.
func TestH1ALiveMigrationToARevokedHostIsAborted(t *testing.T) {
	t.Parallel()
	p := goingOn(t, nil, false)
	revoked := compute.Errorf(compute.Forbidden, "its certificate was revoked")
	p.b.broken = func() error {
		if p.b.sent.Load() > 1<<20 {
			return revoked
		}
		return nil
	}
	_, err := p.a.Migrate(t.Context(), p.expect())
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
	require.ErrorIs(t, err, revoked)
	p.staysHere()

	p.b.broken = nil
	for what, says := range map[string]*compute.Error{"revoked": revoked, "no gateway": compute.Errorf(compute.Unavailable, "no gateway answers")} {
		p.b.cut = func(call string) error {
			if call == "finish" {
				return domain.Unsaid{Err: says}
			}
			return nil
		}
		_, err = p.a.Migrate(t.Context(), p.expect())
		require.Equal(t, says.Kind, compute.KindOf(err), "%s: %v", what, err)
		p.staysHere()
	}

	// Once the other host may have heard of the end, nobody knows where the guest runs.
	asked := 0
	p.b.cut = func(call string) error {
		if call != "finish" {
			return nil
		}
		if asked++; asked == 1 {
			return compute.Errorf(compute.Unavailable, "no answer")
		}
		return domain.Unsaid{Err: revoked}
	}
	_, err = p.a.Migrate(t.Context(), p.expect())
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
	require.Equal(t, compute.PowerPaused, p.power(p.a), "it may run there")
}

// Whatever fails before the guest runs on the other host, it goes on here, and nothing is left there;
// where that is not known, it stands still until the other host says.
func TestLiveMigrationThatFails(t *testing.T) {
	t.Parallel()
	p := goingOn(t, nil, true)
	refused := compute.Errorf(compute.Forbidden, "not now")
	ctx := t.Context()
	migrate := func() error {
		t.Helper()
		got, err := p.a.Migrate(ctx, p.expect())
		require.False(t, got.Arrived)
		return err
	}
	staysHere := p.staysHere
	for _, call := range []string{"prepare", compute.StreamState, compute.StreamDisks} {
		p.b.cut = func(now string) error {
			if now == call {
				return refused
			}
			return nil
		}
		require.Error(t, migrate(), call)
		staysHere()
	}

	stopped, stop := context.WithCancel(t.Context())
	p.b.cut = func(now string) error {
		if now == compute.StreamState {
			stop()
			<-time.After(2 * time.Second) // QEMU waits for the other end
		}
		return nil
	}
	ctx = stopped
	require.ErrorIs(t, migrate(), context.Canceled)
	ctx = t.Context()
	staysHere()

	_, err := p.a.Migrate(ctx, domain.MigrateInput{Server: p.s.ID, Operation: "req-2"})
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "nobody expects it: %v", err)
	staysHere()

	p.b.cut = func(now string) error {
		if now == "finish" {
			return refused
		}
		return nil
	}
	require.ErrorIs(t, migrate(), refused)
	require.Equal(t, compute.PowerPaused, p.power(p.a), "it may run there")
	left, err := p.a.Departed(ctx, domain.DepartedInput{Server: p.s.ID})
	require.NoError(t, err)
	require.Equal(t, domain.Halted, left.Departure)
	p.nothingThere()
	left, err = p.a.Departed(ctx, domain.DepartedInput{Server: p.s.ID, Resume: true})
	require.NoError(t, err)
	require.Equal(t, domain.Stayed, left.Departure)
	staysHere()

	require.NoError(t, p.a.Pause(ctx, domain.PauseInput{Server: p.s.ID}))
	p.b.cut = func(now string) error {
		if now == "finished" {
			return refused
		}
		return nil
	}
	require.ErrorIs(t, migrate(), refused)
	require.Equal(t, compute.PowerPaused, p.power(p.a))
	left, err = p.a.Departed(ctx, domain.DepartedInput{Server: p.s.ID})
	require.NoError(t, err)
	require.Equal(t, domain.Halted, left.Departure)
	require.Equal(t, domain.ArrivedResult{Arrived: true, PowerState: compute.PowerPaused}, p.arrived())
	require.NoError(t, p.a.Remove(ctx, ofDomain(p.s.ID)))
	require.NoError(t, p.b.Unpause(ctx, domain.PauseInput{Server: p.s.ID}))
	p.goesOn(p.b.host, 0)
	require.Equal(t, 1, qemus(t, p.s))
}

// overseer hears how far a migration is.
type overseer func(at compute.MigrationBytes) (compute.Wish, error)

func (o overseer) MigrationAt(_ context.Context, _ compute.Arrival, at compute.MigrationBytes) (compute.Wish, error) {
	return o(at)
}

// slowly sends some four MiB each second, so that a migration is looked at while it is under way.
func slowly(n int) { time.Sleep(time.Duration(n) * time.Second / (4 << 20)) }

// downtime is how long the guest may stand still, in milliseconds.
func (p *journey) downtime() (ms uint64) {
	_ = p.a.Client.Do(p.t.Context(), func(l *libvirt.Libvirt) (err error) {
		ms, err = l.DomainMigrateGetMaxDowntime(libvirt.Domain{UUID: libvirt.UUID(p.s.ID.UUID), Name: compute.InstanceName(p.s.ID)}, 0)
		return err
	})
	return ms
}

// What was wished before a migration began holds for all of it.
func TestLiveMigrationThatIsForcedBefore(t *testing.T) {
	t.Parallel()
	p := goingOn(t, nil, false)
	in := p.expect()
	p.b.slow = slowly
	var during []uint64
	p.a.Overseer = overseer(func(at compute.MigrationBytes) (compute.Wish, error) {
		if at.MemoryProcessed > 0 {
			during = append(during, p.downtime())
		}
		return compute.WishComplete, nil
	})
	got, err := p.a.Migrate(t.Context(), in)
	require.NoError(t, err)
	require.True(t, got.Arrived)
	require.NotEmpty(t, during)
	require.Equal(t, uint64(5*60*1000), during[0])
}

// A migration that is forced to complete in the midst of it may halt the guest for as long as what is left
// takes, and no sooner.
func TestLiveMigrationThatIsForcedToComplete(t *testing.T) {
	t.Parallel()
	p := goingOn(t, nil, false)
	in := p.expect()
	p.b.slow = slowly
	var before, after []uint64
	p.a.Overseer = overseer(func(at compute.MigrationBytes) (compute.Wish, error) {
		switch {
		case at.MemoryProcessed == 0:
			return "", nil
		case len(before) < 2:
			before = append(before, p.downtime())
			return "", nil
		case len(before) == 2:
			before = append(before, 0)
		default:
			after = append(after, p.downtime())
		}
		return compute.WishComplete, nil
	})
	got, err := p.a.Migrate(t.Context(), in)
	require.NoError(t, err)
	require.True(t, got.Arrived)
	require.Equal(t, domain.ArrivedResult{Arrived: true, PowerState: compute.PowerRunning}, p.arrived())
	require.NotEmpty(t, after)
	require.Equal(t, []uint64{3_000, 3_000}, before[:2], "a QEMU before 9.0 loses writes of guests that it emulates")
	require.Equal(t, uint64(5*60*1000), after[0])
	p.goesOn(p.b.host, 0)
}

// A migration of which it was wished before it began that it be aborted does not begin, nor does one of which
// nobody can say.
func TestLiveMigrationThatIsAbortedBefore(t *testing.T) {
	t.Parallel()
	p := goingOn(t, nil, false)
	in := p.expect()
	p.b.cut = func(call string) error {
		require.Fail(t, "it began", call)
		return nil
	}
	asked := 0
	p.a.Overseer = overseer(func(compute.MigrationBytes) (compute.Wish, error) {
		if asked++; asked < 3 {
			return "", compute.Errorf(compute.Unavailable, "the gateway does not answer")
		}
		return compute.WishAbort, nil
	})
	_, err := p.a.Migrate(t.Context(), in)
	require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "it was aborted")
	p.a.Overseer = overseer(func(compute.MigrationBytes) (compute.Wish, error) {
		return "", compute.Errorf(compute.Forbidden, "no such migration")
	})
	_, err = p.a.Migrate(t.Context(), in)
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
	require.Equal(t, compute.PowerRunning, p.power(p.a))
	p.nothingThere()
}

// A migration that sends nothing any more is given up, and the guest goes on here.
func TestLiveMigrationThatStandsStill(t *testing.T) {
	t.Parallel()
	p := goingOn(t, nil, false)
	in := p.expect()
	p.a.MigrationStall = 2 * time.Second
	still := make(chan struct{})
	p.b.slow = func(n int) {
		if slowly(n); p.b.sent.Load() > 4<<20 {
			<-still
		}
	}
	time.AfterFunc(20*time.Second, func() { close(still) }) // the network is back, too late
	_, err := p.a.Migrate(t.Context(), in)
	require.Equal(t, compute.Unavailable, compute.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "nothing was sent for too long")
	was := p.tick(p.a)
	p.nothingThere()
	require.Equal(t, compute.PowerRunning, p.power(p.a))
	p.goesOn(p.a, was)
}

// deafTo puts a connection between a host's worker and its libvirt that breaks off instead of giving an
// answer while deaf is set.
func deafTo(t *testing.T, h *host, deaf *atomic.Bool) {
	t.Helper()
	path := filepath.Join(h.RunDir, "deaf")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			worker, err := l.Accept()
			if err != nil {
				return
			}
			daemon, err := net.Dial("unix", h.daemon.Socket())
			if err != nil {
				_ = worker.Close()
				return
			}
			hangUp := func() {
				_ = worker.Close()
				_ = daemon.Close()
			}
			go func() {
				defer hangUp()
				_, _ = io.Copy(daemon, worker)
			}()
			go func() {
				defer hangUp()
				for buf := make([]byte, 1<<16); ; {
					n, err := daemon.Read(buf)
					if err != nil || deaf.Load() {
						return
					}
					if _, err := worker.Write(buf[:n]); err != nil {
						return
					}
				}
			}()
		}
	}()
	h.Client = &domain.Client{Socket: path}
}

// A guest that runs on the other host, whose libvirt does not come to say so, never runs on here: not when
// that is asked again, and not where this host has lost its own machine since.
func TestLiveMigrationOfWhichTheEndIsNotKnown(t *testing.T) {
	t.Parallel()
	p := goingOn(t, nil, false)
	ctx := t.Context()
	var deaf atomic.Bool
	deafTo(t, p.b.host, &deaf)
	in := p.expect()
	p.b.cut = func(now string) error {
		deaf.Store(now == "finish")
		return nil
	}
	got, err := p.a.Migrate(ctx, in)
	require.Error(t, err)
	require.False(t, got.Arrived)
	require.Equal(t, compute.PowerPaused, p.power(p.a))
	require.Equal(t, compute.PowerRunning, p.power(p.b.host))
	_, err = p.b.FinishArrival(ctx, compute.Arrival{Server: p.s.ID, Operation: in.Operation}, p.from, nil, false)
	require.Equal(t, compute.Conflict, compute.KindOf(err), "asked again: %v", err)

	left, err := p.a.Departed(ctx, domain.DepartedInput{Server: p.s.ID})
	require.NoError(t, err)
	require.Equal(t, domain.Halted, left.Departure)
	_, err = p.a.Stop(ctx, domain.StopInput{Server: p.s.ID}) // as a restart of the host does
	require.NoError(t, err)
	left, err = p.a.Departed(ctx, domain.DepartedInput{Server: p.s.ID})
	require.NoError(t, err)
	require.Equal(t, domain.Halted, left.Departure)
	require.Equal(t, domain.ArrivedResult{Arrived: true, PowerState: compute.PowerRunning}, p.arrived())
	require.Equal(t, 1, qemus(t, p.s))
	p.goesOn(p.b.host, 0)
}

// What the other host has of a server that did not leave goes with what it was to run there, and nothing
// comes any more; what another operation has it expect stays.
func TestNothingIsExpectedOfAServerThatDidNotLeave(t *testing.T) {
	t.Parallel()
	p := goingOn(t, nil, true)
	ctx := t.Context()
	in := p.expect()
	folders := []string{filepath.Join(p.a.RunDir, p.s.ID.String()+".move"), filepath.Join(p.b.RunDir, p.s.ID.String()+".move")}
	for _, f := range folders { // of workers that died
		require.NoError(t, os.Mkdir(f, 0o700))
	}
	left, err := p.a.Departed(ctx, domain.DepartedInput{Server: p.s.ID})
	require.NoError(t, err)
	require.Equal(t, domain.Stayed, left.Departure)
	require.NoDirExists(t, folders[0])

	of := compute.Arrival{Server: p.s.ID, Operation: in.Operation}
	running := removal(p.s.ID, compute.ThingRunningDomain, compute.InstanceName(p.s.ID))
	running.Thing.Operation = "req-0"
	require.NoError(t, p.b.Remove(ctx, running))
	_, err = p.b.OpenArrival(ctx, of, p.from, compute.StreamState)
	require.Equal(t, compute.Unavailable, compute.KindOf(err), "it is expected, and QEMU does not listen yet: %v", err)
	require.DirExists(t, folders[1])
	running.Thing.Operation = in.Operation
	require.NoError(t, p.b.Remove(ctx, running))
	require.NoDirExists(t, folders[1])
	_, err = p.a.Migrate(ctx, in)
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
	require.Equal(t, compute.PowerRunning, p.power(p.a))
}

// A host that waited to be let in with a server that nobody expects by then leaves no QEMU that waits.
func TestAServerThatComesTooLate(t *testing.T) {
	t.Parallel()
	h := setup(t, idle)
	s := h.server(t, false, nil)
	h.disksOf(t, s)
	from := compute.HostID{UUID: uuid.New()}
	_, err := h.Expect(t.Context(), domain.ExpectInput{Server: s, Operation: "req-1", From: from})
	require.NoError(t, err)
	busy, err := os.Create(filepath.Join(h.RunDir, s.ID.String()+".lock"))
	require.NoError(t, err)
	defer busy.Close()
	require.NoError(t, unix.Flock(int(busy.Fd()), unix.LOCK_EX))
	came := make(chan error)
	go func() {
		_, err := h.PrepareArrival(t.Context(), compute.Arrival{Server: s.ID, Operation: "req-1"}, from, domain.Leaving{})
		came <- err
	}()
	select {
	case err := <-came:
		require.Fail(t, "it did not wait", "%v", err)
	case <-time.After(time.Second):
	}
	h.Dismiss(s.ID)
	require.NoError(t, busy.Close())
	err = <-came
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
}
