package domain

import (
	"context"
	"errors"
	"time"

	"strongroom/compute"
)

// idlePatience is how long a server may be busy before it is left for the next time.
const idlePatience = 2 * time.Second

// CloseIdle closes the disks of servers whose machines are off, and forgets their keys: of a guest
// that shut itself down, of a copy that was killed. It holds nothing up: a server that something
// is at work on is left for the next time.
func (a *Activities) CloseIdle(ctx context.Context) error {
	servers, err := a.Devices.OpenServers(ctx)
	idle, failed := a.keptIdle(ctx)
	err = errors.Join(err, failed)
	for _, id := range append(servers, idle...) {
		err = errors.Join(err, a.closeIdle(ctx, id))
	}
	return err
}

func (a *Activities) closeIdle(ctx context.Context, id compute.ServerID) error {
	ctx, cancel := context.WithTimeout(ctx, idlePatience)
	defer cancel()
	unlock, err := a.lock(ctx, id)
	if err == nil {
		defer unlock()
		err = a.closeIfOff(ctx, id)
	}
	if ctx.Err() != nil {
		return nil // the next time
	}
	return err
}

// isOff reports whether a server's machine does not run, and is not paused.
func (a *Activities) isOff(ctx context.Context, id compute.ServerID) (bool, error) {
	state, err := a.Client.Power(ctx, id)
	return state == compute.PowerNone || state == compute.PowerShutdown || state == compute.PowerCrashed, err
}

// closeIfOff: the server's lock is held, so none of its starts is on its way.
func (a *Activities) closeIfOff(ctx context.Context, id compute.ServerID) error {
	if off, err := a.isOff(ctx, id); err != nil || !off {
		return err
	}
	if err := a.letGo(ctx, id); err != nil {
		return err
	}
	a.Logger.InfoContext(ctx, "let go of the disks and keys of a server that is off", "server", id)
	return nil
}
