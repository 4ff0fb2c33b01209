package durable

import (
	"context"
	"errors"
	"runtime/debug"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"

	"strongroom/compute"
)

const (
	scheduleToStart = enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START
	heartbeat       = enumspb.TIMEOUT_TYPE_HEARTBEAT
)

// unclassifiedAttempts is how often an activity that fails with an error without a kind is
// tried: such an error is a bug, and endless retries would hide it.
const unclassifiedAttempts = 5

func asError[T error](err error, target *T) bool { return errors.As(err, target) }

// toTemporal turns an error of an activity into Temporal's. This is the only
// place; nothing below the boundary makes an ApplicationError, and nothing
// above wraps one, for the outermost type decides whether it is retried.
func toTemporal(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, activity.ErrResultPending) || temporal.IsCanceledError(err) {
		return err
	}
	// Only the server's word is a cancel: a CanceledError as the cause.
	if temporal.IsCanceledError(context.Cause(ctx)) {
		return temporal.NewCanceledError()
	}
	kind := compute.KindOf(err)
	if ctx.Err() != nil {
		// The attempt was cut short: its time was up, or the worker stops. What it
		// says about that is no word on the work.
		kind = compute.Unavailable
	}
	options := temporal.ApplicationErrorOptions{Details: detailsOf(ctx, err)}
	switch kind {
	case compute.Unavailable:
		options.NextRetryDelay = retryAfter(err)
	case "":
		options.NonRetryable = activity.GetInfo(ctx).Attempt >= unclassifiedAttempts
	default:
		options.NonRetryable = true
	}
	return temporal.NewApplicationErrorWithOptions(bounded(err.Error()), string(kind), options)
}

// errorBytes is how much of an error's text goes to Temporal, whose server cuts a failure
// of more than 4 KiB short, so that its MAC would not fit any more.
const errorBytes = 1500

func bounded(text string) string {
	if len(text) <= errorBytes {
		return text
	}
	return strings.ToValidUTF8(text[:errorBytes], "") + " …"
}

// retryAfter is the wait that a busy service asked for, if it did.
func retryAfter(err error) time.Duration {
	var busy interface{ RetryAfter() time.Duration }
	if errors.As(err, &busy) {
		return busy.RetryAfter()
	}
	return 0
}

// WorkflowError is what a workflow ends with that fails with err: an error of its own or an
// activity's keeps its kind, message and public text (FromTemporal).
func WorkflowError(err error) error {
	var own *compute.Error
	if errors.As(err, &own) {
		return temporal.NewNonRetryableApplicationError(own.Message, string(own.Kind), nil, compute.Public(own))
	}
	var app *temporal.ApplicationError
	if errors.As(err, &app) && app != err { //nolint:errorlint // the outermost is the workflow's already
		// Its details are authentic as the activity's. They are said anew, as the workflow's.
		return temporal.NewNonRetryableApplicationError(app.Message(), app.Type(), err, FromTemporal(err).PublicText())
	}
	return err
}

// FromTemporal turns a failed activity's or workflow's error back into the
// error that it was: kind, message and public text, without Temporal's wrapping.
func FromTemporal(err error) *compute.Error {
	if err == nil {
		return nil
	}
	var own *compute.Error
	if errors.As(err, &own) {
		return own
	}
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		var public string // "": of a worker that did not say it yet
		if app.HasDetails() {
			_ = app.Details(&public) // details of others than the boundary are no text
		}
		return compute.Told(known(compute.Kind(app.Type())), app.Message(), public)
	}
	if temporal.IsCanceledError(err) {
		return compute.Errorf("", "cancelled")
	}
	var timeout *temporal.TimeoutError
	if errors.As(err, &timeout) {
		return compute.Errorf(compute.Unavailable, "gave up waiting (%s)", timeout.TimeoutType())
	}
	return &compute.Error{Message: err.Error()}
}

// known gives the kind if it is one of the field's; Temporal has types of its own.
func known(kind compute.Kind) compute.Kind {
	switch kind {
	case compute.Invalid, compute.Conflict, compute.NotFound, compute.Forbidden, compute.Unavailable, compute.Corrupt, compute.NoHost, compute.Superseded:
		return kind
	}
	return ""
}

// Boundary is the worker interceptor that stands between activities and
// Temporal: it translates errors and keeps heartbeats going while an activity
// is in a call that blocks.
type Boundary struct {
	interceptor.WorkerInterceptorBase
}

// InterceptActivity puts the boundary around one activity.
func (*Boundary) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	b := &boundary{}
	b.Next = next
	return b
}

type boundary struct {
	interceptor.ActivityInboundInterceptorBase
	pulse *pulse
}

func (b *boundary) Init(out interceptor.ActivityOutboundInterceptor) error {
	b.pulse = &pulse{}
	b.pulse.Next = out
	return b.Next.Init(b.pulse)
}

func (b *boundary) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	stop := b.pulse.start(ctx)
	defer stop()
	result, err := b.call(ctx, in)
	return result, toTemporal(withCall(ctx, in.Args...), err)
}

// call makes an error of a panic, so that a bug is given up like any other error
// without a kind. Temporal would try it for ever.
func (b *boundary) call(ctx context.Context, in *interceptor.ExecuteActivityInput) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			activity.GetLogger(ctx).Error("an activity panicked", "panic", p, "stack", string(debug.Stack()))
			result, err = nil, errPanicked
		}
	}()
	return b.Next.ExecuteActivity(ctx, in)
}

var errPanicked = errors.New("a bug: the activity panicked, its worker's log has the details")
