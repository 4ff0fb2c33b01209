package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	sdk "go.temporal.io/sdk/worker"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/worker/gateway"
)

// How many activities a host runs at once: quick ones are mostly waiting for
// libvirt; bulk ones share the disks.
const (
	quickSlots = 24
	bulkSlots  = 3
)

// How often a host writes into its row that it runs, and all of its description.
const (
	seenEvery      = 10 * time.Second
	describedEvery = time.Minute
)

// seenTime bounds one try to say that the host runs. One whose answer is lost, with the gateway that had the connection, is
// made again before the host counts as down (compute.HostTimeout).
const seenTime = 15 * time.Second

// leaveTime bounds how long a worker that is told to stop tries to say so.
const leaveTime = 10 * time.Second

// ActivitySet is what registers the activities of one thing.
type ActivitySet interface{ Register(r durable.Registry) }

// Gateway is where a host reports itself: gateway.Client's, or gateway.Records.
type Gateway interface {
	Report(ctx context.Context, report gateway.HostReport) error
	// Seen says that the host runs and gives its servers on which no operation works.
	Seen(ctx context.Context) ([]gateway.AtRest, error)
	SyncPower(ctx context.Context, found []gateway.FoundPower) error
	// Evacuated gives the servers that the host must not run any more.
	Evacuated(ctx context.Context) ([]gateway.Evacuated, error)
	Progress(ctx context.Context, server compute.ServerID, percent int) error
}

// Host is the worker of one compute host. It runs activities and no workflows.
type Host struct {
	ID           compute.HostID
	Name         string
	Temporal     client.Client
	Gateway      Gateway
	Activities   []ActivitySet
	Describe     func(ctx context.Context) (gateway.HostReport, error)                      // what the host is, for its row
	PowerStates  func(ctx context.Context) (map[compute.ServerID]compute.PowerState, error) // of the servers whose domains are active
	CloseIdle    func(ctx context.Context) error                                            // closes what no domain uses any more
	Evict        func(ctx context.Context, server compute.ServerID, since time.Time) error  // stops a guest that was not started since
	NoAutostart  func(ctx context.Context) error                                            // has libvirt start no guest by itself
	ShieldShares func(ctx context.Context) error                                            // keeps guests from the storages of shares
	ReleaseLease func(ctx context.Context) error                                            // when it is told to stop (LeasedGateway)
	Ready        func() error                                                               // called once the host has its row
	Logger       *slog.Logger
	Interceptors []interceptor.WorkerInterceptor // run inside the error boundary
}

// Run works until ctx ends, then drains. The host's row is written before the
// first work is taken, and kept fresh. Before all of that no guest runs any more whose server
// was evacuated while the host was down, and guests are kept from the storages of shares.
func (h Host) Run(ctx context.Context) error {
	h.shieldShares(ctx)
	eviction := &Eviction{Evacuated: h.Gateway.Evacuated, Evict: h.Evict}
	if err := eviction.Run(ctx); err != nil {
		return fmt.Errorf("host %s: %w", h.Name, err)
	}
	if err := h.report(ctx); err != nil {
		return fmt.Errorf("reporting host %s: %w", h.Name, err)
	}
	if err := eviction.Run(ctx); err != nil { // what was evacuated until it was reported
		return fmt.Errorf("host %s: %w", h.Name, err)
	}
	if err := h.Ready(); err != nil {
		return err
	}
	identity := "host/" + h.Name
	group := NewGroup("host worker", h.Logger)
	quick := group.New(h.Temporal, durable.HostQueue(h.ID), h.options(identity, quickSlots, eviction))
	bulk := group.New(h.Temporal, durable.HostBulkQueue(h.ID), h.options(identity, bulkSlots, eviction))
	for _, set := range h.Activities {
		set.Register(quick)
		set.Register(bulk)
	}
	durable.RefuseUnknown(quick)
	durable.RefuseUnknown(bulk)
	go h.keepSeen(ctx, eviction)
	go h.keepDescribed(ctx, eviction)
	go h.keepClosed(ctx)
	return group.Run(ctx, h.leave)
}

// leave is before the last work ends: nobody says any more that the host runs.
func (h Host) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	if err := h.ReleaseLease(ctx); err != nil {
		h.Logger.WarnContext(ctx, "no gateway was told that this host stops: its watchdog will stop its guests (host.fence_after), unless the worker is started before", "error", err)
	}
}

func (h Host) options(identity string, slots int, eviction *Eviction) sdk.Options {
	first := []interceptor.WorkerInterceptor{eviction, &Progress{Report: h.Gateway.Progress, Logger: h.Logger}}
	o := options(identity, slots, append(first, h.Interceptors...))
	o.DisableWorkflowWorker = true
	return o
}

// keepSeen keeps the host's row fresh. Where no gateway answers the host looks down, and it is: nothing new should land
// on it. One gateway that died, and a hypervisor that takes its time, do not make it look so. A host that was away
// stops what was evacuated before it says that it is back.
func (h Host) keepSeen(ctx context.Context, eviction *Eviction) {
	tick := time.NewTicker(seenEvery)
	defer tick.Stop()
	first := true // until it is recorded what the worker found
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			err := eviction.ensure(ctx)
			if eviction.isFresh() {
				late := h.syncPower(ctx, first)
				first = first && late != nil
				err = errors.Join(err, late)
			}
			// What was evacuated until it was seen: from then on nothing is.
			err = errors.Join(err, eviction.Run(ctx))
			if err != nil && ctx.Err() == nil {
				h.Logger.WarnContext(ctx, "this host could not be reported", "error", err)
			}
		}
	}
}

// keepDescribed keeps what the row says of the host true. It takes its time where the hypervisor does.
func (h Host) keepDescribed(ctx context.Context, eviction *Eviction) {
	tick := time.NewTicker(seenEvery)
	defer tick.Stop()
	described := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if now.Sub(described) < describedEvery || !eviction.isFresh() { // a report says that the host is back, too
				continue
			}
			if err := h.report(ctx); err == nil {
				described = now
			} else if ctx.Err() == nil {
				h.Logger.WarnContext(ctx, "this host could not be described anew", "error", err)
			}
		}
	}
}

func (h Host) syncPower(ctx context.Context, first bool) error {
	ctx, cancel := context.WithTimeout(ctx, seenTime)
	defer cancel()
	return h.SyncPower(ctx, first)
}

// keepClosed closes the encrypted devices of guests that ended by themselves: no activity
// does it then, and the kernel would keep their keys. And it sees that libvirt starts no guest
// when the host comes back, and that guests are kept from the storages of shares after the host's firewall was loaded anew (S6).
func (h Host) keepClosed(ctx context.Context) {
	tick := time.NewTicker(seenEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			h.shieldShares(ctx)
			if err := h.CloseIdle(ctx); err != nil && ctx.Err() == nil {
				h.Logger.WarnContext(ctx, "disks of servers that are off may be open", "error", err)
			}
			if err := h.NoAutostart(ctx); err != nil && ctx.Err() == nil {
				h.Logger.WarnContext(ctx, "libvirt may start servers with the host", "error", err)
			}
		}
	}
}

// shieldShares holds nothing up: a share of NFS is mounted only where it works.
func (h Host) shieldShares(ctx context.Context) {
	soon, cancel := context.WithTimeout(ctx, seenTime)
	defer cancel()
	if err := h.ShieldShares(soon); err != nil && ctx.Err() == nil {
		h.Logger.WarnContext(ctx, "guests may reach the storage of shares as if they were this host", "error", err)
	}
}

func (h Host) report(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	report, err := h.Describe(ctx)
	if err != nil {
		return err
	}
	return h.Gateway.Report(ctx, report)
}
