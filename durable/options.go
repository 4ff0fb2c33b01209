package durable

import (
	"math"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// What an activity call may take. How long one attempt may last is the activity's
// own word or its queue's; how long the call is tried is said by what it is for.
// Every call waits for a cancelled activity to end, so that an undo never runs
// beside the step that it undoes.

const (
	// HeartbeatTimeout is how long a killed worker goes unnoticed.
	HeartbeatTimeout = 10 * time.Second

	// quickAttempt is for short work: calls of libvirt, of Temporal.
	quickAttempt = 10 * time.Minute
	// bulkAttempt is for copies, conversions and transfers.
	bulkAttempt = 6 * time.Hour
	// cloudAttempt has time for several requests that a service is slow to answer: what
	// makes something is sent only when there is time to see what came of it.
	cloudAttempt = 5 * time.Minute
	// cloudPatience is how long a cloud service may stay away before the operation fails.
	cloudPatience = 10 * time.Minute
	recordAttempt = 15 * time.Second

	// HostSilence is how long a host may leave an undo untaken before it counts as silent.
	HostSilence = time.Minute
	// StaleHostSilence is HostSilence of a host that has not reported itself lately.
	StaleHostSilence = 15 * time.Second
	// BusyHost is how long work waits for a slot of a host that takes other work, before it
	// is asked again whether it still does.
	BusyHost = 5 * time.Minute
	// undoPatience is how long an undo is tried before it is left to the ledger.
	undoPatience = 15 * time.Minute
	// longUndoPatience is the same of long work: to read a large image takes most of an hour.
	longUndoPatience = time.Hour

	// hostTakes is how long a call of one attempt may lie in a host's queue.
	hostTakes = 30 * time.Second

	bestEffortAttempt  = 30 * time.Second
	bestEffortPatience = 45 * time.Second
)

var retries = temporal.RetryPolicy{
	InitialInterval:    500 * time.Millisecond,
	BackoffCoefficient: 2,
	MaximumInterval:    10 * time.Second,
}

var noRetries = temporal.RetryPolicy{MaximumAttempts: 1}

// purpose says what a call is for.
type purpose int

const (
	forStep       purpose = iota // a step of an operation
	forUndo                      // an undo, a delete, a clean-up
	forBestEffort                // whoever called it goes on without it
	forOnce                      // whoever called it tries again by himself
	forAWhile                    // the same, of a cloud service
)

// patience is how long a call is tried.
type patience struct {
	purpose
	takenWithin time.Duration // 0: it waits for a worker
	silence     time.Duration // the same, of an undo
}

type undoKey struct{}

type staleHostKey struct{}

// WithStaleHost gives a context under which an undo, a delete or a clean-up waits less long
// for its host, if that has not reported itself lately. A host that runs takes what it is
// asked for at once, so it is asked.
func WithStaleHost(ctx workflow.Context, stale bool) workflow.Context {
	return workflow.WithValue(ctx, staleHostKey{}, stale)
}

// silence is how long an undo waits for a worker of its host.
func silence(ctx workflow.Context) time.Duration {
	if stale, _ := ctx.Value(staleHostKey{}).(bool); stale {
		return StaleHostSilence
	}
	return HostSilence
}

// WithUndo gives a context under which activities are called as an undo, a delete or a
// clean-up calls them: one that cannot be done in time fails, and what it was to remove
// is left to the ledger. A host that takes no work within HostSilence counts as silent, unless
// the call says how long it may wait (TakenWithin): slots for long work may all be taken.
func WithUndo(ctx workflow.Context) workflow.Context {
	return workflow.WithValue(ctx, undoKey{}, true)
}

// IsUndo reports whether WithUndo gave the context.
func IsUndo(ctx workflow.Context) bool { return ctx.Value(undoKey{}) != nil }

func (p patience) options(queue Queue, attempt time.Duration) workflow.ActivityOptions {
	o := workflow.ActivityOptions{
		TaskQueue:              queue,
		StartToCloseTimeout:    attempt,
		ScheduleToStartTimeout: p.takenWithin,
		HeartbeatTimeout:       HeartbeatTimeout,
		WaitForCancellation:    true,
		RetryPolicy:            &retries,
	}
	if attempt == 0 {
		o.StartToCloseTimeout = attemptOn(queue)
	}
	switch p.purpose {
	case forUndo:
		o.ScheduleToCloseTimeout = undoPatience
		if isBulkQueue(queue) {
			o.ScheduleToCloseTimeout = longUndoPatience
		}
		if isHostQueue(queue) && p.takenWithin == 0 {
			o.ScheduleToStartTimeout = p.silence
		}
	case forOnce:
		o.RetryPolicy = &noRetries
		if o.ScheduleToStartTimeout == 0 {
			o.ScheduleToStartTimeout = hostTakes
		}
	case forBestEffort:
		o.StartToCloseTimeout, o.ScheduleToCloseTimeout = bestEffortAttempt, bestEffortPatience
	case forAWhile:
		o.ScheduleToCloseTimeout = o.StartToCloseTimeout
	case forStep:
		if queue == CloudQueue {
			o.ScheduleToCloseTimeout = cloudPatience
		}
	}
	return o
}

func attemptOn(queue Queue) time.Duration {
	switch {
	case queue == CloudQueue:
		return cloudAttempt
	case isBulkQueue(queue):
		return bulkAttempt
	}
	return quickAttempt
}

// What an outage of the database costs a workflow's history. A local activity that is tried
// again holds its workflow task, which is renewed every 8 s for three events each, and a
// wait longer than a workflow task is a timer and six events: over days, that fills a
// history. So a write is tried for a moment as a local activity, five times (an
// error without a kind is final at its fifth attempt, so that it ends here), and from then on as an activity of the control queue, whose
// tries Temporal makes and writes down nothing of. All in all an outage costs each write
// that it meets at most 20 events, however long it lasts (A12).
const (
	recordQuick    = 20 * time.Second
	recordAttempts = unclassifiedAttempts
)

var (
	recordRetry = temporal.RetryPolicy{
		InitialInterval: 200 * time.Millisecond, BackoffCoefficient: 3, MaximumInterval: 6 * time.Second, MaximumAttempts: recordAttempts,
	}
	// Without a limit, Temporal's test environment would give up after ten attempts.
	outageRetry = temporal.RetryPolicy{
		InitialInterval: 5 * time.Second, BackoffCoefficient: 2, MaximumInterval: 90 * time.Second, MaximumAttempts: math.MaxInt32,
	}
)

// record is for local activities on PostgreSQL, as they are tried first.
func record(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout:    recordAttempt,
		ScheduleToCloseTimeout: recordQuick,
		RetryPolicy:            &recordRetry,
		Summary:                summary,
	})
}

// recordInOutage is for the same activities once that got no answer. They are retried until
// the database answers: nothing may go on without its record.
func recordInOutage(summary string) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		TaskQueue:           ControlQueue,
		StartToCloseTimeout: recordAttempt,
		RetryPolicy:         &outageRetry,
		Summary:             summary,
	}
}

// recordCall is a call of an activity on PostgreSQL.
type recordCall struct {
	workflow.Future
	inOutage func() workflow.Future // nil: it is under way
}

// Get waits for the end of the call.
func (c *recordCall) Get(ctx workflow.Context, out any) error {
	err := c.Future.Get(ctx, out)
	if c.inOutage == nil || !isRetryable(err) {
		return err
	}
	c.Future, c.inOutage = c.inOutage(), nil
	return c.Future.Get(ctx, out)
}

// isRetryable reports whether a call failed in a way that more attempts may mend.
func isRetryable(err error) bool {
	var app *temporal.ApplicationError
	if asError(err, &app) {
		return !app.NonRetryable()
	}
	var t *temporal.TimeoutError
	return asError(err, &t)
}

// IsHostSilent reports whether err says that no worker of the host took the work in time.
func IsHostSilent(err error) bool {
	var t *temporal.TimeoutError
	return asError(err, &t) && t.TimeoutType() == scheduleToStart
}

// IsHostAway reports whether err says that no worker of the host took the work in time, or
// that the one that took it died.
func IsHostAway(err error) bool {
	var t *temporal.TimeoutError
	return asError(err, &t) && (t.TimeoutType() == scheduleToStart || t.TimeoutType() == heartbeat)
}

// WasTaken reports whether a call that ended in a timeout had once begun: a worker
// took it, reported something, and died.
func WasTaken(err error) bool {
	var t *temporal.TimeoutError
	return asError(err, &t) && t.HasLastHeartbeatDetails()
}

// IsTimeout reports whether a call ended because its time was up: the last attempt's, or that
// of all. Of the latter Temporal gives the last attempt's error, which more attempts might
// have mended (H9). A call of one attempt (Once) says nothing by it.
func IsTimeout(err error) bool { return isRetryable(err) }
