package domain

import (
	"context"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"go.temporal.io/sdk/activity"

	"strongroom/compute"
)

// Progress is the heartbeat of what takes long.
type Progress = compute.Progress

const (
	progressEvery = 3 * time.Second

	pollEvery  = 200 * time.Millisecond
	pressEvery = 10 * time.Second // a guest that is still booting does not notice its power button
)

// Stop is the activity domain.Stop. A domain that is off, or that is not there,
// is a success. What the host decrypted for it is closed.
func (a *Activities) Stop(ctx context.Context, in StopInput) (PowerResult, error) {
	unlock, err := a.lock(ctx, in.Server)
	if err != nil {
		return PowerResult{}, err
	}
	defer unlock()
	off, err := a.turnOff(ctx, in)
	if err == nil {
		err = a.letGo(ctx, in.Server)
	}
	return off, err
}

func (a *Activities) turnOff(ctx context.Context, in StopInput) (PowerResult, error) {
	off := PowerResult{PowerState: compute.PowerShutdown}
	grace := time.Duration(in.GraceSeconds) * time.Second
	begin, pressed := time.Now(), time.Time{}
	for time.Since(begin) < grace {
		press := time.Since(pressed) >= pressEvery
		on, err := a.press(ctx, in.Server, press)
		if err != nil {
			return PowerResult{}, err
		}
		if !on {
			return off, nil
		}
		if press {
			pressed = time.Now()
			if activity.IsActivity(ctx) {
				activity.RecordHeartbeat(ctx, Progress{Phase: compute.PhaseShutdown, Done: int64(time.Since(begin).Seconds()), Total: int64(in.GraceSeconds)})
			}
		}
		select {
		case <-ctx.Done():
			return PowerResult{}, ctx.Err()
		case <-time.After(pollEvery):
		}
	}
	if err := a.Client.Do(ctx, func(l *libvirt.Libvirt) error { return cut(l, in.Server) }); err != nil {
		return PowerResult{}, compute.Errorf(kind(err), "server %s: stop of its machine: %w", in.Server, err)
	}
	return off, nil
}

// press presses the power button of a domain that can notice it, and reports
// whether waiting for it has a point.
func (a *Activities) press(ctx context.Context, id compute.ServerID, press bool) (on bool, err error) {
	err = a.Client.Do(ctx, func(l *libvirt.Libvirt) error {
		dom, found, err := lookup(l, id)
		if err != nil || !found {
			return err
		}
		state, err := power(l, dom)
		if err != nil {
			return gone(err)
		}
		if state == compute.PowerPaused || state == compute.PowerSuspended {
			return cut(l, id) // it would not notice
		}
		if on = state == compute.PowerRunning; on && press {
			return gone(l.DomainShutdownFlags(dom, libvirt.DomainShutdownAcpiPowerBtn))
		}
		return nil
	})
	return on, err
}

// cut takes a domain's power away and sees that it is off.
func cut(l *libvirt.Libvirt, id compute.ServerID) error {
	dom, found, err := lookup(l, id)
	if err != nil || !found {
		return err
	}
	if err := gone(l.DomainDestroyFlags(dom, libvirt.DomainDestroyDefault)); err != nil {
		return err
	}
	dom, found, err = lookup(l, id)
	if err != nil || !found {
		return err
	}
	state, err := power(l, dom)
	if err != nil {
		return gone(err)
	}
	if state != compute.PowerShutdown && state != compute.PowerCrashed {
		return compute.Errorf(compute.Unavailable, "it is still on")
	}
	return nil
}

// gone takes a domain that stopped or went away under the call for a success.
func gone(err error) error {
	if isCode(err, libvirt.ErrNoDomain) || isCode(err, libvirt.ErrOperationInvalid) {
		return nil
	}
	return err
}
