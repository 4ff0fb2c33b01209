package domain

import (
	"context"
	"os"
	"path/filepath"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"go.temporal.io/sdk/activity"
	"golang.org/x/sys/unix"

	"strongroom/compute"
)

// SuspendInput asks that the memory of a server's guest is written to disk and its domain turned off.
type SuspendInput struct {
	Server compute.ServerID `json:"server"`
	// Encrypted says that what the server has is encrypted, and so must the memory of its guest be.
	Encrypted bool `json:"encrypted,omitempty"`
}

const (
	phaseSuspend = "suspend"
	suspendPoll  = 500 * time.Millisecond
	// saveReserve is what stays free where the memory of a guest is written.
	// A small file system, of which a sixteenth is less, keeps that.
	saveReserve = 256 << 20
)

// Suspend is the activity domain.Suspend: it ensures that a domain is off and that libvirt has the memory of its guest
// on disk (its managed save), with which domain.Start lets it go on. A cancel aborts it, and the guest runs on.
//
// Conflict: it is off without that, or is not there, or its memory is to be encrypted, or what else servers have here is, and the memory
// would not be, or was not written where it should be: a domain.Start lets the guest go on, and removes the file; NoHost: the memory cannot be written, and the guest runs on.
func (a *Activities) Suspend(ctx context.Context, in SuspendInput) error {
	unlock, err := a.lock(ctx, in.Server)
	if err != nil {
		return err
	}
	defer unlock()
	secret := in.Encrypted || a.EncryptedState
	if secret && !a.SavesEncrypted() {
		return compute.Errorf(compute.Conflict, "server %s: the memory of its guest would lie in clear in %s, which is not on an encrypted volume of its host.", in.Server, a.SaveDir)
	}
	at, err := a.suspension(ctx, in.Server)
	if err == nil && at.runs {
		if err = a.save(ctx, in.Server); err == nil {
			at, err = a.suspension(ctx, in.Server)
		}
	}
	switch {
	case err != nil:
		return err
	case at.runs:
		return compute.Errorf(compute.NoHost, "server %s: its guest runs on, for libvirt does not suspend it", in.Server)
	case !at.saved:
		return compute.Errorf(compute.Conflict, "server %s: its machine is off", in.Server)
	}
	if _, err := os.Lstat(filepath.Join(a.SaveDir, compute.InstanceName(in.Server)+".save")); err != nil && secret {
		return compute.Errorf(compute.Conflict, "server %s: libvirt has written the memory of its guest to another folder than %s (host.suspend_state)", in.Server, a.SaveDir)
	}
	return a.letGo(ctx, in.Server)
}

// SavesEncrypted reports whether the memory of suspended guests is on the encrypted volume that has what servers have here.
func (a *Activities) SavesEncrypted() bool {
	var memory, volume unix.Stat_t
	return a.EncryptedState && unix.Stat(a.SaveDir, &memory) == nil && unix.Stat(a.InstancesDir, &volume) == nil && memory.Dev == volume.Dev
}

// suspension is how far a domain is suspended.
type suspension struct {
	runs  bool // it runs, or is paused
	saved bool // libvirt has all of its memory
}

func (a *Activities) suspension(ctx context.Context, id compute.ServerID) (at suspension, err error) {
	err = a.Client.Do(ctx, func(l *libvirt.Libvirt) error {
		dom, found, err := lookup(l, id)
		if err != nil || !found {
			return err
		}
		state, err := power(l, dom)
		if err != nil {
			return gone(err)
		}
		at.runs = state == compute.PowerRunning || state == compute.PowerPaused
		at.saved, err = isSaved(l, dom)
		return err
	})
	return at, err
}

// isSaved reports whether libvirt has all of a domain's memory. A save that was cut off leaves a file that libvirt reads
// nothing from. Whether there is a file libvirt itself saw when it began, before a volume may have been opened.
func isSaved(l *libvirt.Libvirt, dom libvirt.Domain) (bool, error) {
	_, err := l.DomainManagedSaveGetXMLDesc(dom, 0)
	if isCode(err, libvirt.ErrOperationFailed) || isCode(err, libvirt.ErrOperationInvalid) || isCode(err, libvirt.ErrSystemError) { // it is not whole; somebody removed it
		return false, nil
	}
	return err == nil, gone(err)
}

// checkSuspended refuses to let a guest go on whose memory is not there.
func (a *Activities) checkSuspended(ctx context.Context, in StartInput) error {
	if !in.Suspended {
		return nil
	}
	at, err := a.suspension(ctx, in.Server.ID)
	if err == nil && !at.saved {
		err = compute.Errorf(compute.Conflict, "server %s: the memory of its guest is not on the host's disk. A hard reboot boots it afresh.", in.Server.ID)
	}
	return err
}

// discardSaved removes the memory with which a domain was suspended. Libvirt fails to where there is none, of which it knows unless
// a volume was opened since it began.
func discardSaved(l *libvirt.Libvirt, id compute.ServerID) error {
	dom := domainOf(id)
	has, err := l.DomainHasManagedSaveImage(dom, 0)
	if err != nil {
		return gone(err)
	}
	err = l.DomainManagedSaveRemove(dom, 0)
	if has == 0 && isCode(err, libvirt.ErrSystemError) {
		return nil
	}
	return gone(err)
}

// checkRoomToSave refuses to write the memory of a guest where it may not fit: the disks of other guests may be on the
// same file system.
func (a *Activities) checkRoomToSave(ctx context.Context, id compute.ServerID) error {
	var memory uint64 // KiB
	if err := a.Client.Do(ctx, func(l *libvirt.Libvirt) (err error) {
		_, _, memory, _, _, err = l.DomainGetInfo(domainOf(id))
		return err
	}); err != nil {
		return err
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(a.SaveDir, &fs); err != nil {
		return compute.Errorf(compute.Unavailable, "server %s: look for room for the memory of its guest: %w", id, err)
	}
	need := memory<<10 + min(saveReserve, fs.Blocks*uint64(fs.Bsize)/16)
	if free := fs.Bavail * uint64(fs.Bsize); free < need {
		return compute.Errorf(compute.NoHost, "server %s: the memory of its guest cannot be written: its host's disk has %d MiB free, and it may need %d MiB", id, free>>20, need>>20)
	}
	return nil
}

// save has libvirt write the memory of a guest, which takes its machine off.
func (a *Activities) save(ctx context.Context, id compute.ServerID) error {
	if err := a.checkRoomToSave(ctx, id); err != nil {
		return err
	}
	l, hangUp, err := a.Client.hold(ctx)
	if err != nil {
		return err
	}
	defer hangUp()
	ended := make(chan error, 1)
	go func() { ended <- l.DomainManagedSave(domainOf(id), uint32(libvirt.DomainSaveRunning)) }()
	tick := time.NewTicker(suspendPoll)
	defer tick.Stop()
	var aborted time.Time
	for {
		select {
		case err := <-ended:
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return saveFailure(id, err)
		case <-tick.C:
		}
		if aborted.IsZero() && ctx.Err() != nil {
			aborted = time.Now()
		}
		if !aborted.IsZero() && time.Since(aborted) > abortPatience {
			return ctx.Err() // libvirtd hangs: the next attempt, or the undo, sees what became of it
		}
		if err := a.lookAtSave(ctx, id, !aborted.IsZero()); err != nil {
			a.Logger.WarnContext(ctx, "a suspension cannot be looked after", "server", id, "error", err)
		}
	}
}

// lookAtSave tells how much of the memory is written, or aborts that.
func (a *Activities) lookAtSave(ctx context.Context, id compute.ServerID, abort bool) error {
	return a.Client.Do(context.WithoutCancel(ctx), func(l *libvirt.Libvirt) error {
		if abort {
			return gone(l.DomainAbortJob(domainOf(id)))
		}
		kind, params, err := l.DomainGetJobStats(domainOf(id), 0)
		if err != nil || libvirt.DomainJobType(kind) == libvirt.DomainJobNone {
			return gone(err)
		}
		if at := bytesOf(params); activity.IsActivity(ctx) && at.MemoryTotal > 0 {
			activity.RecordHeartbeat(ctx, Progress{Phase: phaseSuspend, Total: at.MemoryTotal, Done: at.MemoryTotal - at.MemoryRemaining})
		}
		return nil
	})
}

// saveFailure gives a save that failed its kind. A guest that went off meanwhile is seen afterwards.
func saveFailure(id compute.ServerID, err error) error {
	switch {
	case err == nil, isCode(err, libvirt.ErrNoDomain), isCode(err, libvirt.ErrOperationInvalid):
		return nil
	case isCode(err, libvirt.ErrOperationFailed), isCode(err, libvirt.ErrInternalError), isCode(err, libvirt.ErrSystemError):
		return compute.Errorf(compute.NoHost, "server %s: the memory of its guest cannot be written: %w", id, err)
	case isCode(err, libvirt.ErrOperationAborted):
		return compute.Errorf(compute.NoHost, "server %s: its suspension was aborted at its host", id)
	}
	return compute.Errorf(kind(translate(err)), "server %s: the memory of its guest: %w", id, err)
}
