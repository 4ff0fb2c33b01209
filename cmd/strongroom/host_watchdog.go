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
worker for so many seconds, whether the host is cut off or its worker dead. Servers of such a
host can be evacuated once it was silent for that time and a minute,
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
	r.log.Info("the watchdog looks after this host's guests", "lease", cfg.Host.lease().Run)
	cfg.Host.watchdog(r).Run(r)
	return nil
}

// lease is where the worker writes the host's lease down. It outlives the worker, and what is on disk of it says
// after a boot that there was no contact since.
func (h HostConfig) lease() *watchdog.LeaseFiles {
	state := filepath.Dir(h.IDFile)
	return &watchdog.LeaseFiles{
		Run: filepath.Join(h.Run, "lease"), State: filepath.Join(state, "host.lease"), Former: filepath.Join(state, "host.promise"),
	}
}

// heartbeat is that of strongroom host watchdog, and workersHeartbeat that of the watchdog in the worker.
func (h HostConfig) heartbeat() watchdog.Heartbeat {
	return watchdog.Heartbeat(filepath.Join(h.Run, "watchdog"))
}

func (h HostConfig) workersHeartbeat() watchdog.Heartbeat {
	return watchdog.Heartbeat(filepath.Join(h.Run, "worker-watchdog"))
}

func (h HostConfig) watchdog(r *run) *watchdog.Watchdog {
	client := &domain.Client{Socket: h.LibvirtSocket}
	return &watchdog.Watchdog{
		Lease: h.lease(), Now: watchdog.Machine, Heartbeat: h.heartbeat(), Worker: h.workersHeartbeat(), Logger: r.log,
		StopAll: func(ctx context.Context) error { return domain.StopAll(ctx, client, r.log) },
	}
}

// workersWatchdog knows the lease of the worker that it is in.
func (h HostConfig) workersWatchdog(r *run, lease *watchdog.LeaseFiles) *watchdog.Watchdog {
	w := h.watchdog(r)
	w.Lease, w.Heartbeat, w.Worker = lease, h.workersHeartbeat(), ""
	return w
}

// leased is a gateway of which the host has a lease, for as long as host.fence_after says.
func (h HostConfig) leased(r *run, g worker.Gateway, lease *watchdog.LeaseFiles) *worker.LeasedGateway {
	return &worker.LeasedGateway{
		Gateway: g, Timeout: time.Duration(h.FenceAfter) * time.Second, Lease: lease, Watchdog: h.heartbeat(), Now: watchdog.Machine, Logger: r.log,
	}
}

func (h HostConfig) checkFenceAfter() error {
	if err := compute.CheckFenceAfter(h.FenceAfter); err != nil {
		return fmt.Errorf("host.fence_after: %w", err)
	}
	return nil
}
