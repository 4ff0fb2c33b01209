package durable_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"strongroom/compute"
	"strongroom/durable"
)

// cross lets an activity's error cross the boundary once and gives what a
// workflow sees of it. local chooses a local activity.
func cross(t *testing.T, local bool, retry *temporal.RetryPolicy, work func(context.Context) error) (seen error) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&durable.Boundary{}}})
	env.RegisterActivityWithOptions(work, activity.RegisterOptions{Name: "work"})
	env.RegisterWorkflowWithOptions(func(ctx workflow.Context) error {
		if local {
			ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{StartToCloseTimeout: time.Minute, RetryPolicy: retry})
			seen = workflow.ExecuteLocalActivity(ctx, "work").Get(ctx, nil)
			return nil
		}
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute, RetryPolicy: retry})
		seen = workflow.ExecuteActivity(ctx, "work").Get(ctx, nil)
		return nil
	}, workflow.RegisterOptions{Name: "workflow"})
	env.ExecuteWorkflow("workflow")
	require.NoError(t, env.GetWorkflowError())
	return seen
}

// busy is an error of a service that says when to come back.
type busy struct{ after time.Duration }

func (b busy) Error() string             { return "busy" }
func (b busy) RetryAfter() time.Duration { return b.after }

var once = &temporal.RetryPolicy{MaximumAttempts: 1}

func TestAKindCrossesTheBoundary(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		err   error
		want  *compute.Error
		final bool
		delay time.Duration
	}{
		{"invalid", compute.Errorf(compute.Invalid, "a"), &compute.Error{Kind: compute.Invalid, Message: "a"}, true, 0},
		{"conflict", compute.Errorf(compute.Conflict, "b"), &compute.Error{Kind: compute.Conflict, Message: "b"}, true, 0},
		{"not found", compute.Errorf(compute.NotFound, "c"), &compute.Error{Kind: compute.NotFound, Message: "c"}, true, 0},
		{"forbidden", compute.Errorf(compute.Forbidden, "d"), &compute.Error{Kind: compute.Forbidden, Message: "d"}, true, 0},
		{"corrupt", compute.Errorf(compute.Corrupt, "e"), &compute.Error{Kind: compute.Corrupt, Message: "e"}, true, 0},
		{"no host", compute.Errorf(compute.NoHost, "f"), &compute.Error{Kind: compute.NoHost, Message: "f"}, true, 0},
		{"N5: superseded", compute.Errorf(compute.Superseded, "f"), &compute.Error{Kind: compute.Superseded, Message: "f"}, true, 0},
		{"unavailable", compute.Errorf(compute.Unavailable, "g"), &compute.Error{Kind: compute.Unavailable, Message: "g"}, false, 0},
		{
			"busy", compute.Errorf(compute.Unavailable, "h: %w", busy{7 * time.Second}),
			&compute.Error{Kind: compute.Unavailable, Message: "h: busy"}, false, 7 * time.Second,
		},
		{"wrapped", fmt.Errorf("disk x: %w", compute.Errorf(compute.Corrupt, "i")), &compute.Error{Kind: compute.Corrupt, Message: "disk x: i"}, true, 0},
		{"without a kind", errors.New("j"), &compute.Error{Message: "j"}, false, 0},
	} {
		for _, local := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, local %v", tt.name, local), func(t *testing.T) {
				t.Parallel()
				seen := cross(t, local, once, func(context.Context) error { return tt.err })
				require.Equal(t, compute.Told(tt.want.Kind, tt.want.Message, compute.Public(tt.err)), durable.FromTemporal(seen))
				var app *temporal.ApplicationError
				require.ErrorAs(t, seen, &app)
				require.Equal(t, tt.final, app.NonRetryable())
				require.Equal(t, tt.delay, app.NextRetryDelay())
				require.Equal(t, string(tt.want.Kind), app.Type())
			})
		}
	}
}

// always tries for ever, so that only the boundary ends it.
var always = &temporal.RetryPolicy{InitialInterval: time.Millisecond, BackoffCoefficient: 1}

func TestABugIsGivenUpAfterFiveAttempts(t *testing.T) {
	t.Parallel()
	for name, bug := range map[string]func(){"an error without a kind": func() {}, "a panic": func() { panic("slice bounds out of range") }} {
		for _, local := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, local %v", name, local), func(t *testing.T) {
				t.Parallel()
				attempts := 0
				seen := cross(t, local, always, func(context.Context) error { attempts++; bug(); return errors.New("unforeseen") })
				require.Equal(t, 5, attempts)
				got := durable.FromTemporal(seen)
				require.Empty(t, got.Kind)
				require.NotContains(t, got.Message, "slice bounds", "a panic's own text may hold anything")
			})
		}
	}
}

func TestAnOutageIsWaitedOut(t *testing.T) {
	t.Parallel()
	for _, local := range []bool{false, true} {
		attempts := 0
		require.NoError(t, cross(t, local, always, func(context.Context) error {
			if attempts++; attempts < 9 { // the test environment gives up after ten
				return compute.Errorf(compute.Unavailable, "away")
			}
			return nil
		}))
		require.Equal(t, 9, attempts)
	}
}

func TestAFinalErrorIsNotRetried(t *testing.T) {
	t.Parallel()
	attempts := 0
	require.Error(t, cross(t, false, always, func(context.Context) error { attempts++; return compute.Errorf(compute.Corrupt, "bad") }))
	require.Equal(t, 1, attempts)
}

func TestFromTemporal(t *testing.T) {
	t.Parallel()
	app := temporal.NewApplicationError("no", string(compute.Forbidden))
	for name, tt := range map[string]struct {
		err  error
		want *compute.Error
	}{
		"nothing":      {nil, nil},
		"our own":      {compute.Errorf(compute.NoHost, "none"), &compute.Error{Kind: compute.NoHost, Message: "none"}},
		"wrapped":      {fmt.Errorf("x: %w", app), &compute.Error{Kind: compute.Forbidden, Message: "no"}},
		"foreign type": {temporal.NewApplicationError("no", "TypeError"), &compute.Error{Message: "no"}},
		"cancelled":    {temporal.NewCanceledError(), &compute.Error{Message: "cancelled"}},
		"plain":        {errors.New("x"), &compute.Error{Message: "x"}},
		"timed out": {
			temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_HEARTBEAT, nil),
			&compute.Error{Kind: compute.Unavailable, Message: "gave up waiting (Heartbeat)"},
		},
		"gave up on": {temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE, app), &compute.Error{Kind: compute.Forbidden, Message: "no"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := durable.FromTemporal(tt.err)
			if tt.want == nil {
				require.Nil(t, got)
				return
			}
			require.Equal(t, *tt.want, compute.Error{Kind: got.Kind, Message: got.Message})
		})
	}
}

func TestASilentHostIsKnown(t *testing.T) {
	t.Parallel()
	require.True(t, durable.IsHostSilent(fmt.Errorf("x: %w", temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil))))
	require.False(t, durable.IsHostSilent(temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE, nil)))
	require.False(t, durable.IsHostSilent(errors.New("x")))
	require.False(t, durable.IsHostSilent(nil))
}
