package domain

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"go.temporal.io/sdk/activity"
	"libvirt.org/go/libvirtxml"

	"strongroom/compute"
)

// Arrivals is how a host moves a running server to another one. Each call is refused unless
// the other host was told by the control plane to expect that very server from this one.
type Arrivals interface {
	// Prepare has the other host start a QEMU that waits for the guest, and gives its cookie.
	Prepare(ctx context.Context, to compute.Agent, of compute.Arrival, say Leaving) ([]byte, error)
	// Stream connects to that QEMU.
	Stream(ctx context.Context, to compute.Agent, of compute.Arrival, name string) (Stream, error)
	// Finish has the guest run there, or, given up, has the other host end what it prepared. An
	// error leaves open which of the two is true. It may be called again.
	Finish(ctx context.Context, to compute.Agent, of compute.Arrival, cookie []byte, givenUp bool) (Outcome, error)
}

// Unsaid is an error of a call of Arrivals of which the other host heard nothing.
type Unsaid struct{ Err error }

func (u Unsaid) Error() string { return u.Err.Error() }

func (u Unsaid) Unwrap() error { return u.Err }

// Overseer is told how far a migration is, and says what is wished of it.
type Overseer interface {
	MigrationAt(ctx context.Context, of compute.Arrival, at compute.MigrationBytes) (compute.Wish, error)
}

// Leaving is what libvirt says of a domain where it leaves.
type Leaving struct {
	Cookie   []byte `json:"cookie"`
	Document string `json:"document"`
	Paused   bool   `json:"paused"`
}

// Stream is a connection that can be ended in one direction.
type Stream interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// Outcome is what became of a guest on the host that it was to come to.
type Outcome struct {
	Runs   bool   `json:"runs"` // there, and nowhere else from here on; or it is paused there, as it was
	Cookie []byte `json:"cookie,omitempty"`
}

// MigrateInput asks that a running server moves to another host, which expects it.
type MigrateInput struct {
	Server    compute.ServerID    `json:"server"`
	Operation compute.OperationID `json:"operation"`
	To        compute.Agent       `json:"to"`
}

// Departure is how a server's domain is on the host that it was to leave.
type Departure string

const (
	// Stayed is one that runs here, or one that the other host does not run.
	Stayed Departure = "stayed"
	// Halted is one that does not run, and may have been stopped to go on elsewhere: the other host
	// knows whether it does.
	Halted Departure = "halted"
)

// MigrateResult says how the domain is here, and whether the other host has said that it runs there.
type MigrateResult struct {
	Arrived bool `json:"arrived"`
}

const (
	// migrationFlags: the disks go along, but for the images that they lie on, which the other
	// host has. The definitions on both hosts are strongroom's to make and remove: what libvirt
	// would define on the other host is what this one says.
	migrationFlags = libvirt.MigrateLive | libvirt.MigrateNonSharedInc
	// departureFlags are those of calls on the host that the guest leaves: nobody else changes the
	// domain between them.
	departureFlags = migrationFlags | libvirt.MigrateChangeProtection
)

const (
	phaseMigrate = "migrate"
	migratePoll  = 500 * time.Millisecond
	// finishPatience is how long the other host is asked whether the guest runs there.
	finishPatience = 30 * time.Second
	// abortPatience is how long libvirt may take to end a migration.
	abortPatience = time.Minute
	// callPatience is how long libvirt may take for any other call of a migration than the one that
	// sends the guest.
	callPatience = 5 * time.Minute
	// migrationStall is how long a migration may send nothing.
	migrationStall = 5 * time.Minute
	// tellTime is how long a gateway may take to hear how far a migration is; hearPatience how long it is asked
	// what is wished of one that is about to begin.
	tellTime     = 5 * time.Second
	hearPatience = 30 * time.Second
	// forcedDowntime is how long a guest may stand still whose migration is forced to complete.
	forcedDowntime = 5 * time.Minute
	// emulatedDowntime is how long a guest may stand still that QEMU emulates. A QEMU before 9.0 loses writes between two looks for
	// what such a guest has written, and the guest goes on with old memory, or crashes. With this, the first look is nearly
	// always the last one, for which the guest is halted.
	emulatedDowntime = 3 * time.Second
)

// Migrate is the activity domain.Migrate: it moves a running server to another host, which
// domain.Expect has told to expect it, and stops the domain here. The phases of libvirt's migration
// are each host's own to call: this host's libvirt never speaks to the other one, and of QEMU
// only the two streams go there. When it fails or is cancelled, the guest runs on here, unless the
// result or domain.Arrived of the other host say that it runs there: a worker that dies in
// the midst of it leaves that open.
//
// Conflict: the domain neither runs nor is paused, or its disks are in a pool; Forbidden: the other
// host does not expect it, or its certificate was revoked.
func (a *Activities) Migrate(ctx context.Context, in MigrateInput) (MigrateResult, error) {
	if a.Hosts == nil {
		return MigrateResult{}, compute.Errorf(compute.Conflict, "this host moves nothing to others")
	}
	unlock, err := a.lock(ctx, in.Server)
	if err != nil {
		return MigrateResult{}, err
	}
	defer unlock()
	l, hangUp, err := a.Client.hold(ctx)
	if err != nil {
		return MigrateResult{}, err
	}
	defer hangUp()
	d := departure{Activities: a, MigrateInput: in, l: l, hangUp: hangUp, flags: departureFlags}
	if err := d.canLeave(); err != nil {
		return MigrateResult{}, migrateFailure(in.Server, err)
	}
	if err := d.hear(ctx); err != nil {
		return MigrateResult{}, migrateFailure(in.Server, err)
	}
	if d.wish == compute.WishAbort {
		return MigrateResult{}, migrateFailure(in.Server, errAborted)
	}
	arrived, err := d.run(ctx)
	switch {
	case arrived:
		a.Logger.InfoContext(ctx, "a server has moved to another host", "server", in.Server, "host", in.To.Name)
		return MigrateResult{Arrived: true}, nil
	case ctx.Err() != nil:
		return MigrateResult{}, ctx.Err()
	case d.refused.Load() != nil:
		err = errors.Join(*d.refused.Load(), err)
	case d.wish == compute.WishAbort:
		err = errors.Join(errAborted, err)
	case d.stalled:
		err = errors.Join(errStalled, err)
	}
	return MigrateResult{}, migrateFailure(in.Server, err)
}

var (
	errAborted = compute.Errorf(compute.Conflict, "it was aborted")
	errStalled = compute.Errorf(compute.Unavailable, "nothing was sent for too long")
)

// departure is a running server on its way to another host.
type departure struct {
	*Activities
	MigrateInput
	l      *libvirt.Libvirt // held from beginning to end: libvirt ends the job when it closes
	hangUp func()
	flags  libvirt.DomainMigrateFlags
	wish   compute.Wish // that was done, or is about to be

	emulated bool // its processors are

	refused atomic.Pointer[error] // why a stream to the other host may not go on

	sent    int64     // bytes, as they were seen last
	sentAt  time.Time // when they were others
	stalled bool      // nothing was sent for too long
}

func (d *departure) domain() libvirt.Domain { return domainOf(d.Server) }

func (d *departure) arrival() compute.Arrival {
	return compute.Arrival{Server: d.Server, Operation: d.Operation}
}

// limited cuts the connection where a call takes too long: domain.Departed sees what became of the
// domain.
func (d *departure) limited() (stop func() bool) {
	return time.AfterFunc(callPatience, d.hangUp).Stop
}

// canLeave refuses what cannot be moved as it is.
func (d *departure) canLeave() error {
	defer d.limited()()
	dom, found, err := lookup(d.l, d.Server)
	if err != nil {
		return err
	}
	state := compute.PowerNone
	if found {
		if state, err = power(d.l, dom); err != nil {
			return err
		}
	}
	switch state {
	case compute.PowerRunning:
	case compute.PowerPaused:
		d.flags |= libvirt.MigratePaused
	default:
		return compute.Errorf(compute.Conflict, "its machine neither runs nor is paused")
	}
	text, err := d.l.DomainGetXMLDesc(dom, 0)
	if err != nil {
		return err
	}
	var doc libvirtxml.Domain
	if err := doc.Unmarshal(text); err != nil || doc.Devices == nil {
		return compute.Errorf(compute.Corrupt, "what libvirt says of its machine cannot be read")
	}
	d.emulated = doc.Type == "qemu"
	for _, v := range doc.Devices.Disks {
		if v.Source == nil || v.Source.File == nil {
			return compute.Errorf(compute.Conflict, "its disk %s is no file", v.Serial)
		}
	}
	for _, v := range doc.Devices.Interfaces {
		if isCutOff(v) { // the machine that is made for it there has no such device
			return compute.Errorf(compute.Conflict, "its guest keeps a network device that was taken from the server: a hard reboot, or a stop and a start, ends that")
		}
	}
	return nil
}

// run goes through the phases. arrived: the guest runs on the other host, and not here. After an
// error it runs here, or is paused where nobody knows whether it runs there.
func (d *departure) run(ctx context.Context) (arrived bool, err error) {
	aside := context.WithoutCancel(ctx)
	p, err := d.openProxy(aside, d.Hosts, d.To)
	if err != nil {
		return false, err
	}
	defer p.close()
	cookie, doc, err := d.begin()
	if err != nil {
		return false, err
	}
	cookie, err = d.Hosts.Prepare(ctx, d.To, d.arrival(), Leaving{Cookie: cookie, Document: doc, Paused: d.flags&libvirt.MigratePaused != 0})
	if err != nil {
		_, _ = d.Hosts.Finish(aside, d.To, d.arrival(), nil, true)
		return false, errors.Join(err, d.confirm(nil, true))
	}
	cookie, failure := d.perform(ctx, p, cookie)
	got, told, err := d.finish(aside, cookie, failure != nil)
	switch {
	case failure != nil:
		return false, errors.Join(failure, d.confirm(nil, true))
	case err != nil && !told: // it stands still there, and is to be removed
		return false, errors.Join(err, d.confirm(nil, true))
	case err != nil: // it may run there: it must not run on here before that is known
		return false, err
	case !got.Runs:
		return false, errors.Join(errNotTaken, d.confirm(got.Cookie, true))
	}
	if err := d.confirm(got.Cookie, false); err != nil { // it stays paused, until it is removed
		d.Logger.WarnContext(ctx, "the domain of a server that has moved is still there", "server", d.Server, "error", err)
	}
	return true, nil
}

// begin gives what libvirt tells the other host's.
func (d *departure) begin() (cookie []byte, doc string, err error) {
	defer d.limited()()
	if d.emulated && d.wish != compute.WishComplete {
		if err := d.l.DomainMigrateSetMaxDowntime(d.domain(), uint64(emulatedDowntime/time.Millisecond), 0); err != nil {
			return nil, "", err
		}
	}
	return d.l.DomainMigrateBegin3Params(d.domain(), nil, uint32(d.flags))
}

var errNotTaken = compute.Errorf(compute.NoHost, "the guest did not start on the other host")

// perform has QEMU send the guest. A cancel ends it, and the guest runs on.
func (d *departure) perform(ctx context.Context, p *proxy, cookie []byte) ([]byte, error) {
	ended := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		d.watch(ctx, ended)
	}()
	cookie, err := d.l.DomainMigratePerform3Params(d.domain(), nil, p.params(), cookie, d.flags)
	close(ended)
	<-watched
	return cookie, err
}

// watch tells how far the migration is, and aborts it when ctx ends, somebody wishes that, or the other host
// may not have the guest any more.
func (d *departure) watch(ctx context.Context, ended <-chan struct{}) {
	tick := time.NewTicker(migratePoll)
	defer tick.Stop()
	var aborted time.Time
	d.sentAt = time.Now()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
		d.stalled = d.stalled || time.Since(d.sentAt) > cmp.Or(d.MigrationStall, migrationStall)
		if aborted.IsZero() && (ctx.Err() != nil || d.wish == compute.WishAbort || d.stalled || d.refused.Load() != nil) {
			aborted = time.Now()
		}
		if !aborted.IsZero() && time.Since(aborted) > abortPatience {
			d.hangUp() // libvirtd hangs: domain.Departed sees what becomes of the domain
			return
		}
		if err := d.look(ctx, !aborted.IsZero()); err != nil {
			d.Logger.WarnContext(ctx, "a migration cannot be looked after", "server", d.Server, "error", err)
		}
	}
}

// look aborts the migration, or tells how far it is.
func (d *departure) look(ctx context.Context, abort bool) error {
	var at compute.MigrationBytes
	if err := d.Client.Do(context.WithoutCancel(ctx), func(l *libvirt.Libvirt) error {
		if abort {
			return gone(l.DomainAbortJob(d.domain()))
		}
		kind, params, err := l.DomainGetJobStats(d.domain(), 0)
		if err == nil && libvirt.DomainJobType(kind) != libvirt.DomainJobNone {
			at = bytesOf(params)
		}
		return gone(err)
	}); err != nil || abort {
		return err
	}
	if sent := at.MemoryProcessed + at.DiskProcessed; sent != d.sent {
		d.sent, d.sentAt = sent, time.Now()
	}
	if activity.IsActivity(ctx) && at.MemoryTotal+at.DiskTotal > 0 {
		total := at.MemoryTotal + at.DiskTotal
		activity.RecordHeartbeat(ctx, Progress{Phase: phaseMigrate, Total: total, Done: total - at.MemoryRemaining - at.DiskRemaining})
	}
	return d.tell(ctx, at)
}

// hear asks what is wished of a migration that is about to begin: one that was aborted before does not.
func (d *departure) hear(ctx context.Context) error {
	for until := time.Now().Add(hearPatience); ; {
		err := d.tell(ctx, compute.MigrationBytes{})
		if err == nil || !compute.Is(err, compute.Unavailable) || time.Now().After(until) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// tell tells how far the migration is, and does what is wished of it.
func (d *departure) tell(ctx context.Context, at compute.MigrationBytes) error {
	if d.Overseer == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellTime)
	defer cancel()
	wish, err := d.Overseer.MigrationAt(ctx, d.arrival(), at)
	if err != nil || wish == d.wish {
		return err
	}
	if wish == compute.WishComplete {
		if err := d.Client.Do(ctx, func(l *libvirt.Libvirt) error {
			return l.DomainMigrateSetMaxDowntime(d.domain(), uint64(forcedDowntime/time.Millisecond), 0)
		}); err != nil { // not yet at the guest's memory: the next look does it
			return nil
		}
		d.Logger.InfoContext(ctx, "a migration may halt the guest until it is done", "server", d.Server)
	}
	d.wish = wish
	return nil
}

// finish asks the other host whether the guest runs there, until it answers. told: it may have heard of it.
func (d *departure) finish(ctx context.Context, cookie []byte, givenUp bool) (got Outcome, told bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, finishPatience)
	defer cancel()
	for {
		got, err = d.Hosts.Finish(ctx, d.To, d.arrival(), cookie, givenUp)
		told = told || !errors.As(err, new(Unsaid))
		if err == nil || givenUp || !compute.Is(err, compute.Unavailable) {
			return got, told, err
		}
		select {
		case <-ctx.Done():
			return got, told, err
		case <-time.After(time.Second):
		}
	}
}

// confirm ends the migration here: given up, the guest runs on, else the domain is off.
func (d *departure) confirm(cookie []byte, givenUp bool) error {
	defer d.limited()()
	var cancelled int32
	if givenUp {
		cancelled = 1
	}
	return d.l.DomainMigrateConfirm3Params(d.domain(), nil, cookie, uint32(d.flags), cancelled)
}

// bytesOf reads libvirt's numbers of a migration.
func bytesOf(params []libvirt.TypedParam) compute.MigrationBytes {
	n := map[string]int64{}
	for _, p := range params {
		if v, ok := p.Value.I.(uint64); ok {
			n[p.Field] = int64(v)
		}
	}
	return compute.MigrationBytes{
		MemoryTotal: n["memory_total"], MemoryRemaining: n["memory_remaining"], MemoryProcessed: n["memory_processed"],
		DiskTotal: n["disk_total"], DiskRemaining: n["disk_remaining"], DiskProcessed: n["disk_processed"],
	}
}

// migrateFailure gives a failed migration its kind.
func migrateFailure(id compute.ServerID, err error) error {
	k := kind(err)
	if isCode(err, libvirt.ErrOperationInvalid) || isCode(err, libvirt.ErrNoDomain) {
		k = compute.Conflict
	}
	return compute.Errorf(k, "server %s: its move to another host: %w", id, err)
}

// DepartedInput asks how a server that was to leave is here. Resume: it does not run on the other
// host, so one that was halted runs on.
type DepartedInput struct {
	Server compute.ServerID `json:"server"`
	Resume bool             `json:"resume,omitempty"`
}

// DepartedResult says that.
type DepartedResult struct {
	Departure  Departure          `json:"departure"`
	PowerState compute.PowerState `json:"power_state"`
}

// Departed is the activity domain.Departed: it ends a migration that is under way here, whoever
// began it, and tells whether the domain may have been halted to go on elsewhere. What the move
// left here beside the domain goes.
func (a *Activities) Departed(ctx context.Context, in DepartedInput) (out DepartedResult, err error) {
	unlock, err := a.lock(ctx, in.Server)
	if err != nil {
		return out, err
	}
	defer unlock()
	for {
		var sending bool
		err = a.Client.Do(ctx, func(l *libvirt.Libvirt) error {
			out, sending, err = a.departed(l, in)
			return err
		})
		if err == nil && !sending {
			err = a.removeMoveFolder(in.Server)
		}
		if err != nil || !sending {
			return out, err
		}
		select {
		case <-ctx.Done():
			return out, ctx.Err()
		case <-time.After(pollEvery):
		}
	}
}

// departed looks at the domain. sending: a migration is under way, and was told to end.
func (a *Activities) departed(l *libvirt.Libvirt, in DepartedInput) (out DepartedResult, sending bool, err error) {
	dom, found, err := lookup(l, in.Server)
	out.Departure = Stayed
	if err != nil || !found {
		out.Departure = Halted
		return out, false, err
	}
	job, _, _, _, _, _, _, _, _, _, _, _, err := l.DomainGetJobInfo(dom)
	if gone(err) != nil {
		return out, false, err
	}
	if err == nil && libvirt.DomainJobType(job) != libvirt.DomainJobNone {
		return out, true, gone(l.DomainAbortJob(dom))
	}
	state, reason, err := l.DomainGetState(dom, 0)
	if err != nil {
		return out, false, err
	}
	switch {
	case libvirt.DomainState(state) == libvirt.DomainShutoff && libvirt.DomainShutoffReason(reason) == libvirt.DomainShutoffMigrated:
		out.Departure = Halted
	case in.Resume: // the other host has said that it does not run there
		if libvirt.DomainState(state) == libvirt.DomainPaused && libvirt.DomainPausedReason(reason) == libvirt.DomainPausedMigration {
			if err := gone(l.DomainResume(dom)); err != nil {
				return out, false, err
			}
		}
	case libvirt.DomainState(state) != libvirt.DomainRunning && libvirt.DomainState(state) != libvirt.DomainBlocked:
		// One that was paused may have arrived so. One that is off may have stood still for the other
		// host before: libvirt no longer says why it is off once it, or the host, was restarted.
		out.Departure = Halted
	}
	out.PowerState, err = power(l, dom)
	return out, false, err
}
