package workflows

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// switchover replaces the machine that a server runs as: none by its first one (spawn), or
// one by another on the same host (rebuild, rescue, unrescue). What the new machine needs
// is made while the old one runs. Undone, the old machine runs again and nothing of the
// new one is left.
type switchover struct {
	*operation
	// from is the old machine, nil: there is none. While it is set, nothing about the new
	// one is recorded before the point of no return.
	from *machine
	to   *machine
	zone string // availability zone of the host that was claimed
	// claimedDisks: that host shares the storage of the old one's disks (ClaimInput.DisksOf).
	claimedDisks bool

	// tpmLost: the host has lost the state of the vTPM that both machines have.
	tpmLost bool

	halted bool // the old domain was told to shut down; from.power is its power state since
	off    bool // the undo has seen it off
	ports  portMove
}

// makeSecrets gives every encrypted disk and the vTPM that the old machine does not have
// a secret of its own (EE-09, TPM-09) and puts their ids on record (TPM-10).
func (s *switchover) makeSecrets(ctx workflow.Context) error {
	plan, err := secretPlan(s.to.server, s.Operation, s.to.server.Keyring(s.asked.Credential), s.asked.Credential)
	if err != nil || len(plan) == 0 {
		return err
	}
	for i := range plan {
		plan[i].Like = s.replaced(plan[i].disk)
	}
	made := s.secretThings(plan)
	keys := step{
		event: "create_secrets", makes: made, undoLast: true, // keys go after the disks and the TPM state that they open
		do: func(ctx workflow.Context) error { return s.createSecrets(ctx, plan, made) },
	}
	if s.from == nil {
		keys.undo = func(ctx workflow.Context) error { return record.ClearSecrets.Do(ctx, s.OperationInput) }
	}
	return s.take(ctx, keys)
}

// replaced gives the secret of the old machine's disk whose place a new one takes.
func (s *switchover) replaced(disk *compute.DiskID) *compute.SecretID {
	if s.from == nil || disk == nil {
		return nil
	}
	for _, d := range s.to.server.Disks {
		for _, old := range s.from.server.Disks {
			if d.ID == *disk && old.Role == d.Role && old.Index == d.Index {
				return old.Secret
			}
		}
	}
	return nil
}

func (s *switchover) createSecrets(ctx workflow.Context, plan []plannedSecret, made []compute.Thing) error {
	ids, err := createSecrets(ctx, plan, made)
	if err != nil {
		return err
	}
	onRecord := record.Secrets{Disks: map[string]compute.SecretID{}}
	for i, p := range plan {
		p.assign(&s.to.server, &onRecord, ids[i])
	}
	if s.from == nil {
		s.unwritten.Secrets = &onRecord
	}
	return nil
}

// missing are the disks of the new machine that the old one does not have, by their index.
func (s *switchover) missing() []int {
	var out []int
	for i, d := range s.to.server.Disks {
		same := func(old compute.Disk) bool { return old.ID == d.ID }
		if s.from == nil || s.from.host != s.to.host || !slices.ContainsFunc(s.from.server.Disks, same) {
			out = append(out, i)
		}
	}
	return out
}

// makeDisks makes the new machine's disks, each encrypted with its own secret.
func (s *switchover) makeDisks(ctx workflow.Context, task compute.TaskState) error {
	disks := s.missing()
	made := step{event: "create_disks", host: &s.to.host, task: task, undoLast: true} // the domain runs from them
	for _, i := range disks {
		made.makes = append(made.makes, s.file(s.to.host, s.to.server.Disks[i].Name()))
	}
	made.do = func(ctx workflow.Context) error { return s.createDisks(ctx, disks, 0) }
	return s.take(ctx, s.withNVRAM(made, "", 0))
}

// mostRecached is how often an image is cached again that went before a disk lay on it. Hosts
// keep an image for some time for that disk, so it goes only where its copy is removed by hand
// or changes, or where calls of the host wait for longer.
const mostRecached = 3

// recaching does what lays disks on their images. The host's cache may have lost one meanwhile, to
// make room or since its copy had changed: then it is cached again as it was at first, in a slot
// for long work (H6).
func (s *switchover) recaching(ctx workflow.Context, disks []int, how cacheOn, do func() error) error {
	err := do()
	for again := 0; again < mostRecached && isNotFound(err); again++ {
		if err := s.recache(ctx, disks, how); err != nil {
			return err
		}
		err = do()
	}
	return err
}

// createDisks makes the disks. It fails where the host has not taken the work within a limit; 0: it is waited for.
func (s *switchover) createDisks(ctx workflow.Context, disks []int, limit time.Duration) error {
	var made []disk.CreateResult
	if err := s.recaching(ctx, disks, cacheWithin(limit), func() (err error) {
		made, err = s.tryDisks(ctx, disks, limit)
		return err
	}); err != nil {
		return err
	}
	for c, i := range disks {
		if option, ok := s.to.noteOptions(i, made[c]); ok && s.from == nil {
			s.unwritten.Options = append(s.unwritten.Options, option)
		}
	}
	return nil
}

func (s *switchover) tryDisks(ctx workflow.Context, disks []int, limit time.Duration) ([]disk.CreateResult, error) {
	calls := make([]durable.Future[disk.CreateResult], len(disks))
	for c, i := range disks {
		calls[c] = s.to.createDisk(ctx, s.to.server.Disks[i], limit)
	}
	return awaitAll(ctx, calls)
}

func isNotFound(err error) bool {
	return err != nil && !isUnanswered(err) && durable.FromTemporal(err).Kind == compute.NotFound
}

// recache caches the images of disks again. The uses of encrypted ones are on the ledger.
func (s *switchover) recache(ctx workflow.Context, disks []int, how cacheOn) error {
	for _, i := range disks {
		d := s.to.server.Disks[i]
		img := s.to.imageOf(d)
		if img == nil {
			continue
		}
		cached, err := s.cacheImage(d, *img, s.to.host, how)
		if err == nil {
			err = cached.do(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ran reports whether the old machine is to run when the operation is undone.
func (s *switchover) ran() bool { return s.from.server.Runs() }

// halt shuts the old domain down, once everything is ready for the new one.
func (s *switchover) halt(ctx workflow.Context) error {
	down := s.from.shutdown(shutdownGrace)
	if s.ran() {
		stop := down.do
		down.do = func(ctx workflow.Context) error {
			s.halted, s.from.power = true, compute.PowerShutdown
			return stop(ctx)
		}
		down.undo = s.restart
		down.undoLast = true // after the new domain is gone
	}
	return s.take(ctx, down)
}

// start boots the new domain. Where it is the server's first one on its host, its undo
// leaves neither domain nor console log nor config drive; TPM state goes when it was
// made here.
func (s *switchover) start(ctx workflow.Context) error {
	first := s.from == nil || s.from.host != s.to.host
	freshTPM := s.to.server.TPM != nil && (s.from == nil || s.from.server.TPM == nil)
	boot := s.to.boot(domain.StartInput{NewTPM: freshTPM || s.tpmLost && s.to.server.Backup() == nil})
	if first {
		boot.makes = append(boot.makes, s.firstBoot(s.to)...)
	}
	if freshTPM {
		boot.makes = append(boot.makes, s.onHost(compute.ThingTPMState, s.to.host, s.Server.String()))
	}
	return s.take(ctx, boot)
}

// firstBoot are the things that a server's first boot on a host makes.
func (o *operation) firstBoot(m *machine) []compute.Thing {
	things := []compute.Thing{o.onHost(compute.ThingDomain, m.host, m.server.InstanceName())}
	if m.hasFiles {
		return things
	}
	for _, f := range m.server.BootFiles() {
		things = append(things, o.file(m.host, f))
	}
	return things
}

// Bounds of the attempts to restart the old domain: about half an hour in all where each
// fails at once, longestRestart where each takes long.
const (
	maxRestarts      = 16
	longestRestart   = time.Hour
	firstRestartWait = 5 * time.Second
	maxRestartWait   = 2 * time.Minute
)

// restart is the undo of halt. A server that does not start, or whose keys no credential
// opens any more, is left stopped for its owner to start. If another operation has taken
// over the server, starting it is up to that one.
func (s *switchover) restart(ctx workflow.Context) error {
	if s.tpmLost || s.mayRunElsewhere(ctx) { // without the state it does not start
		return nil
	}
	wait, until := firstRestartWait, workflow.Now(ctx).Add(longestRestart)
	for attempt := 1; ; attempt++ {
		failure, err := s.putTPMBack(ctx), error(nil)
		if failure == nil {
			failure, err = s.restartOnce(ctx)
		}
		switch {
		case record.IsSuperseded(err):
			return nil
		case err != nil:
			return err
		case failure == nil:
			return nil
		case !s.off, attempt == maxRestarts, workflow.Now(ctx).After(until), durable.IsTimeout(failure), durable.FromTemporal(failure).Kind == compute.Forbidden:
			return nil
		}
		if err := workflow.Sleep(ctx, wait); err != nil {
			return err
		}
		wait = min(2*wait, maxRestartWait)
	}
}

// mayRunElsewhere reports whether another host may still run the new machine: the old one must
// not run beside it. Where the host answers, it is stopped.
func (s *switchover) mayRunElsewhere(ctx workflow.Context) bool {
	for _, t := range s.waiting {
		if t.Kind != compute.ThingRunningDomain || t.Place == s.from.host.ID.String() {
			continue
		}
		if t.BlockedBy == compute.BlockedByHost || s.tryUndo(ctx, &s.to.host, s.to.shutdown(0).do) != nil {
			return true
		}
	}
	return false
}

// putTPMBack has the state of the old machine's vTPM put back where the undo did not: the old
// machine does not start on what the new one made of it. The row of the copy goes with the
// janitor, which finds it done.
func (s *switchover) putTPMBack(ctx workflow.Context) error {
	for i, t := range s.waiting {
		if t.Kind != compute.ThingTPMState || t.Reference != compute.KeptUndecided {
			continue
		}
		if err := s.tryUndo(ctx, &s.from.host, s.from.shutdown(0).do); err != nil {
			return err
		}
		if err := s.tryUndo(ctx, &s.from.host, func(ctx workflow.Context) error {
			return s.startRemoval(ctx, t).ended(ctx)
		}); err != nil {
			return err
		}
		s.waiting = slices.Delete(s.waiting, i, i+1)
		return nil // an operation keeps one
	}
	return nil
}

// restartOnce starts the old domain. failure is why it does not start.
func (s *switchover) restartOnce(ctx workflow.Context) (failure, err error) {
	boot := s.from.boot(domain.StartInput{})
	boot.event = "restart_domain"
	task := s.from.server.TaskState
	opened, err := record.Advance.Run(ctx, record.AdvanceInput{
		OperationInput: s.OperationInput, Task: &task, Open: boot.opening(boot.borrows),
	})
	if err != nil {
		return nil, err
	}
	s.trail.begin(ctx, &boot, opened.HostDown || opened.HostStale)
	ctx = durable.WithStaleHost(ctx, opened.HostStale)
	// The guest may still be shutting down: it must be off before it is started.
	if !s.off {
		failure = s.tryUndo(ctx, &s.from.host, func(ctx workflow.Context) error {
			return domain.Stop.On(s.from.host).Do(ctx, domain.StopInput{Server: s.Server, GraceSeconds: shutdownGrace})
		})
		s.off = failure == nil
	}
	if failure == nil {
		failure = s.returnPortsFirst(ctx)
	}
	if failure == nil {
		failure = boot.do(ctx)
	}
	if durable.IsTimeout(failure) {
		s.fellSilent(s.from.host.ID)
	}
	if failure == nil {
		end := boot.ended()
		end.Released = boot.borrows
		return nil, s.close(ctx, end)
	}
	end := boot.failed(failure)
	s.remove(ctx, removals{things: boot.borrows}, end)
	return failure, s.close(ctx, *end)
}

// outcome leaves the server as it was, or stopped if it could not be restarted; a server
// without an old machine is left in ERROR.
func (s *switchover) outcome(ctx workflow.Context, err *compute.Error) record.SettleInput {
	if s.from == nil {
		return record.SettleInput{VMState: compute.VMError, Fault: faultOf(ctx, err)}
	}
	end := record.SettleInput{VMState: s.from.server.VMState, Power: s.from.server.PowerState}
	if s.halted { // one that was paused has lost its memory: it runs, or it is off
		vm, power := compute.Found(end.VMState, s.from.power)
		end.Power = power
		if end.VMState != compute.VMError {
			end.VMState = vm
		}
	}
	return end
}

// removeOld removes what the old machine used and the new one does not, after the point of
// no return.
func (s *switchover) removeOld(ctx workflow.Context) error {
	has, err := s.things(ctx)
	if err != nil {
		return err
	}
	old := slices.DeleteFunc(has, func(t compute.Thing) bool {
		return !s.from.server.Uses(s.from.host.ID, t) || s.to.server.Uses(s.to.host.ID, t)
	})
	return s.removeAfterCommit(ctx, "remove_old", old)
}
