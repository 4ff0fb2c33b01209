package volume

import (
	"context"
	"errors"
	"os"
	"sync"
)

// ErrLeave is why the host's worker ends that has its state on a volume that is to be closed.
var ErrLeave = errors.New("the volume with this host's state is to be closed")

// use is how the host's worker, which runs in this process, uses the volume.
type use struct {
	mu    sync.Mutex
	leave context.CancelCauseFunc // nil: it does not run
}

// Use gives the context in which the host's worker runs that has its state on the volume: it ends, with ErrLeave, when
// the volume is to be closed. Nobody can unmount the volume, or a folder of it from where libvirt finds it, before the process ends, or release is called.
func (a *Activities) Use(ctx context.Context) (_ context.Context, release func(), err error) {
	var folders []*os.File
	let := func() {
		for _, f := range folders {
			_ = f.Close()
		}
	}
	for _, at := range a.folders() {
		f, err := os.Open(at)
		if err != nil {
			let()
			return nil, nil, err
		}
		folders = append(folders, f)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	a.use.mu.Lock()
	defer a.use.mu.Unlock()
	a.use.leave = cancel
	return ctx, func() {
		a.use.mu.Lock()
		defer a.use.mu.Unlock()
		a.use.leave = nil
		let()
		cancel(nil)
	}, nil
}

// end has the host's worker end, and reports whether it runs.
func (u *use) end() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.leave != nil {
		u.leave(ErrLeave)
	}
	return u.leave != nil
}
