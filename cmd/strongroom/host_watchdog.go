package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"strongroom/activities/domain"
	"strongroom/compute"
	"strongroom/worker"
	"strongroom/worker/watchdog"
)

type hostWatchdog struct{}

// Help is shown by --help.
func (hostWatchdog) Help() string {
	return `Runs on a compute host, as root, beside libvirtd and strongroom host. Where host.fence_after is
set, it stops all guests of strongroom, without a warning, when no gateway has answered the
worker for so many seconds, whether the host is cut off or its worker dead. Servers of a host
that has promised that can be evacuated once it was silent for that time and a minute,
without being forced down. It needs neither the network nor the worker. Have the service
manager start it again whenever it ends.`
}

func (hostWatchdog) Run(r *run) error {
	cfg, err := r.config()
	if err != nil {
		return err
	}
	// Guests that take the machine's memory must not end what stops them.
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0); err != nil {
		r.log.Warn("the kernel may end the watchdog when the machine's memory is full", "error", err)
	}
	r.log.Info("the watchdog looks after this host's guests", "promise", cfg.Host.promise())
	cfg.Host.watchdog(r, cfg.Host.alive()).Run(r)
	return nil
}

// promise is where the worker notes what the host promised. It outlives the worker, and says after a boot
// that no gateway has answered since.
func (h HostConfig) promise() watchdog.Note {
	return watchdog.Note(filepath.Join(filepath.Dir(h.IDFile), "host.promise"))
}

// alive is where the watchdog says that it looks.
func (h HostConfig) alive() watchdog.Alive {
	return watchdog.Alive(filepath.Join(h.Run, "watchdog"))
}

func (h HostConfig) watchdog(r *run, alive watchdog.Alive) *watchdog.Watchdog {
	client := &domain.Client{Socket: h.LibvirtSocket}
	return &watchdog.Watchdog{
		Note: h.promise(), Now: watchdog.Machine, Alive: alive, Logger: r.log,
		StopAll: func(ctx context.Context) error { return domain.StopAll(ctx, client, r.log) },
	}
}

// watched is a gateway to which the host promises what host.fence_after says.
func (h HostConfig) watched(r *run, g worker.Gateway) *worker.Watched {
	return &worker.Watched{
		Gateway: g, After: time.Duration(h.FenceAfter) * time.Second, Note: h.promise(), Watchdog: h.alive(), Now: watchdog.Machine, Logger: r.log,
	}
}

func (h HostConfig) checkFenceAfter() error {
	if err := compute.CheckFenceAfter(h.FenceAfter); err != nil {
		return fmt.Errorf("host.fence_after: %w", err)
	}
	return nil
}
