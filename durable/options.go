package durable

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"strongroom/compute"
)

// The profiles: what an activity call may take, named by what it is for. Every
// profile waits for a cancelled activity to end, so that an undo never runs
// beside the step that it undoes.

var unlimited = temporal.RetryPolicy{
	InitialInterval:    500 * time.Millisecond,
	BackoffCoefficient: 2,
	MaximumInterval:    10 * time.Second,
}

// Record is for local activities on PostgreSQL. They are retried until the
// database answers: nothing may go on without its record.
func Record(ctx workflow.Context) workflow.Context {
	return workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout: 15 * time.Second,
		RetryPolicy:         &unlimited,
	})
}

// Control is for short work on the control queue that talks to Temporal itself.
func Control(ctx workflow.Context) workflow.Context {
	return with(ctx, ControlQueue, 10*time.Minute, 0)
}

// Cloud is for calls of cloud services. A service that stays away for ten
// minutes fails the operation. One attempt has time for several requests that a
// service is slow to answer: what makes something is sent only when there is time to
// see what came of it.
func Cloud(ctx workflow.Context) workflow.Context {
	return with(ctx, CloudQueue, 5*time.Minute, 10*time.Minute)
}

// HostQuick is for short work on a host that the server is bound to: it waits
// for that host.
func HostQuick(ctx workflow.Context, host compute.HostID) workflow.Context {
	return with(ctx, HostQueue(host), 10*time.Minute, 0)
}

// HostMake is for making a disk, on a host that the server is bound to. Mostly that is
// short, but where disks lean on nothing all of an image is copied.
func HostMake(ctx workflow.Context, host compute.HostID) workflow.Context {
	return with(ctx, HostQueue(host), 6*time.Hour, 0)
}

// HostUnbound is for the first bulk work on a host that could still be another
// one: if no worker there takes it within a minute, it fails with a
// ScheduleToStart timeout and the caller chooses again.
func HostUnbound(ctx workflow.Context, host compute.HostID) workflow.Context {
	o := options(HostBulkQueue(host), 6*time.Hour, 0)
	o.ScheduleToStartTimeout = time.Minute
	return workflow.WithActivityOptions(ctx, o)
}

// HostBulk is for copies, conversions and transfers on a host that the server is
// bound to: it waits for that host.
func HostBulk(ctx workflow.Context, host compute.HostID) workflow.Context {
	return with(ctx, HostBulkQueue(host), 6*time.Hour, 0)
}

// The undo profiles try for ever: an operation is not over while something of
// it is left. They are also what a delete uses.

// ControlUndo is Control without an end.
func ControlUndo(ctx workflow.Context) workflow.Context { return with(ctx, ControlQueue, time.Hour, 0) }

// CloudUndo is Cloud without an end.
func CloudUndo(ctx workflow.Context) workflow.Context { return with(ctx, CloudQueue, time.Minute, 0) }

// HostUndo is for undoing on a host: it waits for that host.
func HostUndo(ctx workflow.Context, host compute.HostID) workflow.Context {
	return with(ctx, HostQueue(host), 10*time.Minute, 0)
}

// Peek is for a look at a queue's place that should not hold anything up: it
// fails when nobody answers soon.
func Peek(ctx workflow.Context, queue string) workflow.Context {
	return with(ctx, queue, 30*time.Second, 45*time.Second)
}

func with(ctx workflow.Context, queue string, attempt, all time.Duration) workflow.Context {
	return workflow.WithActivityOptions(ctx, options(queue, attempt, all))
}

func options(queue string, attempt, all time.Duration) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		TaskQueue:              queue,
		StartToCloseTimeout:    attempt,
		ScheduleToCloseTimeout: all,
		HeartbeatTimeout:       HeartbeatTimeout,
		WaitForCancellation:    true,
		RetryPolicy:            &unlimited,
	}
}

// IsHostSilent reports whether err says that no worker of the host took the
// work of a HostUnbound call.
func IsHostSilent(err error) bool {
	var t *temporal.TimeoutError
	return asError(err, &t) && t.TimeoutType() == scheduleToStart
}

// WasTaken reports whether a call that ended in a timeout had once begun: a worker
// took it, reported something, and died.
func WasTaken(err error) bool {
	var t *temporal.TimeoutError
	return asError(err, &t) && t.HasLastHeartbeatDetails()
}
