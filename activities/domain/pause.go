package domain

import (
	"context"

	libvirt "github.com/digitalocean/go-libvirt"

	"strongroom/compute"
)

// PauseInput asks that a server's domain is paused, or that it is not.
type PauseInput struct {
	Server compute.ServerID `json:"server"`
}

// Pause is the activity domain.Pause: it ensures that a domain which runs is paused.
// Conflict: it is off, or is not there.
func (a *Activities) Pause(ctx context.Context, in PauseInput) error {
	return a.switchPower(ctx, in.Server, compute.PowerRunning, compute.PowerPaused, (*libvirt.Libvirt).DomainSuspend)
}

// Unpause is the activity domain.Unpause: it ensures that a domain which is paused runs.
// Conflict: it is off, or is not there, or it pauses again at once, as one does whose
// disk cannot be written.
func (a *Activities) Unpause(ctx context.Context, in PauseInput) error {
	return a.switchPower(ctx, in.Server, compute.PowerPaused, compute.PowerRunning, (*libvirt.Libvirt).DomainResume)
}

// switchPower takes a domain from one power state to another. A guest may shut down at
// any moment, so its state is read again after the call, whatever libvirt said to that.
func (a *Activities) switchPower(
	ctx context.Context, id compute.ServerID, from, to compute.PowerState, call func(*libvirt.Libvirt, libvirt.Domain) error,
) error {
	unlock, err := a.lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	return a.Client.Do(ctx, func(l *libvirt.Libvirt) error {
		for called := false; ; called = true {
			dom, found, err := lookup(l, id)
			state := compute.PowerNone
			if err == nil && found {
				state, err = power(l, dom)
			}
			switch {
			case err != nil || state == to:
				return err
			case state != from:
				return compute.Errorf(compute.Conflict, "server %s: its machine neither runs nor is paused", id)
			case called:
				return compute.Errorf(compute.Conflict, "server %s: its machine is at once again as it was", id)
			}
			if err := gone(call(l, dom)); err != nil {
				return err
			}
		}
	})
}
