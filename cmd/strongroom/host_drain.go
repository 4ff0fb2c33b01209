package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"strongroom/activities/drain"
	"strongroom/activities/ledger"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/durable/outbox"
	"strongroom/worker/pki"
)

type hostDrain struct {
	cloud
	output
	dryRun
	Host        string        `arg:"" name:"host" help:"Its name or uuid."`
	Concurrency int           `default:"2" help:"How many servers are moved at once, 1 to 20."`
	Cold        bool          `help:"Restart servers that run: each is shut down, copied and booted on another host, instead of being moved while it runs."`
	Wait        bool          `help:"Wait until it has ended, with progress."`
	Timeout     time.Duration `default:"24h" help:"How long to wait. The drain goes on after it."`
	Cancel      bool          `xor:"do" help:"Begin no more moves. Those that are under way end."`
	Status      bool          `xor:"do" help:"Only show how far it is."`
}

// Help is shown by --help.
func (hostDrain) Help() string {
	return `The host takes no new servers from now on, and those that it has are moved to others,
a few at a time:

  off          moved with its disks and the state of its vTPM, as "server migrate" and
               "server resize confirm" do, and stays off; no key is needed
  running      moved while it runs, as "os-migrateLive" does; with --cold it is shut
               down, moved, and boots again. Both take its keys. Those of the mode
               "user" nobody but its project may read (docs/secrets.md): such a server
               is moved while it runs if its host keeps its keys (those of disks
               only with host.keep_guest_keys: all) or strongroom has a role of its
               own in the project, and stays with --cold
  paused       moved as it is
  shelved, still on the host
               offloaded
  else         left where it is: rescued, suspended, in ERROR, resized and not
               confirmed, with a logical volume, shares, or in a Ceph pool

Whatever cannot be moved stays as it is, runs on if it ran, and the last column says
why. The drain is an operation of its own: it goes on when this command, or a control
worker, ends. Asked for again while it is under way, it shows that one.

When it has ended, the host is still disabled. "strongroom host undrain HOST" has it
take servers again.

  strongroom host drain compute1 --concurrency 4 --wait
  strongroom host drain compute1 --status
  strongroom host drain compute1 --cancel --wait

With --dry-run it asks the API, as the administrator that --os-cloud names, and changes
nothing: how each server would leave, to which host, what would travel, and which keys
strongroom must be able to read.

  strongroom host drain compute1 --dry-run --os-cloud admin

Exit code 0: it is under way or, with --wait, the host has no server any more; 1: it
could not begin, or servers are left, or, with --dry-run, would be.`
}

func (c hostDrain) Run(r *run) error {
	if c.DryRun {
		return c.foretell(r)
	}
	b, err := r.openBackends(pki.Control, durable.DialLazily)
	if err != nil {
		return err
	}
	defer b.close()
	host, err := ledger.FindHost(r, b.pool, c.Host)
	if err != nil {
		return err
	}
	switch {
	case c.Cancel:
		err = drain.Stop(r, b.pool, host)
	case !c.Status:
		err = c.begin(r, b, host)
	}
	if err != nil {
		return err
	}
	report, err := drain.Look(r, b.pool, host)
	if err == nil && c.Wait {
		report, err = awaitDrain(r, b.pool, host, c.Timeout)
	}
	if err != nil {
		return err
	}
	if err := c.print(report, drainTable(report)); err != nil {
		return err
	}
	if c.Wait && report.State != compute.OperationSucceeded {
		return errors.New(report.Message)
	}
	return nil
}

// begin begins the drain, unless one is under way.
func (c hostDrain) begin(r *run, b *backends, host durable.Host) error {
	op, begun, err := drain.Ask(r, b.pool, host, compute.DrainArguments{Concurrency: c.Concurrency, Cold: c.Cold})
	if err != nil {
		return err
	}
	if !begun {
		fmt.Fprintf(os.Stderr, "host %s is being drained already (%s), as it was asked for then\n", host.Name, op.ID)
		return nil
	}
	// What is not started now is by a control worker.
	launcher := outbox.Launcher{Starter: durable.Starter{Client: b.temporal}, Logger: r.log}
	launcher.Launch(r, []compute.Operation{op})
	launcher.Wait(r)
	return nil
}

// awaitDrain waits for the end of a host's drain.
func awaitDrain(ctx context.Context, pool *pgxpool.Pool, host durable.Host, timeout time.Duration) (drain.Report, error) {
	line := newProgressLine()
	defer line.end()
	var report drain.Report
	inTime, err := poll(ctx, timeout, func(ctx context.Context) (done bool, err error) {
		report, err = drain.Look(ctx, pool, host)
		if done = report.State.Settled(); !done && err == nil && ctx.Err() == nil {
			line.show(drainLine(report))
		}
		return done, err
	})
	if !inTime {
		return report, fmt.Errorf("host %s: gave up waiting; the drain goes on", host.Name)
	}
	return report, err
}

// drainLine says how far a drain is.
func drainLine(r drain.Report) string {
	state := "draining"
	switch {
	case r.State.Settled() && r.Cancelled:
		state = "drain cancelled"
	case r.State.Settled():
		state = "drained"
	case r.Cancelled:
		state = "drain is being cancelled"
	}
	line := fmt.Sprintf("host %s: %s (%s): %d moved, %d moving, %d to go, %d left, %d failed", r.Host.Name, state, r.Operation,
		r.Count(compute.DrainMoved), r.Count(compute.DrainMoving, compute.DrainConfirming), r.ToGo, r.Count(compute.DrainLeft), r.Count(compute.DrainFailed))
	if r.ToRemove > 0 {
		line += fmt.Sprintf(", %d things still to be removed there", r.ToRemove)
	}
	return line
}

func drainTable(r drain.Report) func(*sheet) {
	return func(w *sheet) {
		if len(r.Servers) > 0 {
			w.header("SERVER", "NAME", "STATE", "WHY")
		}
		for _, s := range r.Servers {
			w.row(s.ID, s.Name, s.State, s.Reason)
		}
		w.note(drainLine(r))
	}
}

type hostUndrain struct {
	Host string `arg:"" name:"host" help:"Its name or uuid."`
}

// Help is shown by --help.
func (hostUndrain) Help() string {
	return `The host takes new servers again, as after "openstack compute service set --enable". A
drain that is under way must be cancelled first. Servers that were moved away do not
come back by themselves.`
}

func (c hostUndrain) Run(r *run) error {
	_, pool, err := r.database()
	if err != nil {
		return err
	}
	defer pool.Close()
	host, err := ledger.FindHost(r, pool, c.Host)
	if err != nil {
		return err
	}
	if err := drain.Enable(r, pool, host); err != nil {
		return err
	}
	fmt.Printf("host %s takes servers again\n", host.Name)
	return nil
}
