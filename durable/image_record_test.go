package durable_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"strongroom/compute"
	"strongroom/deploy/dev/temporal/temporaltest"
	"strongroom/durable"
)

// imaging answers ImageRecord when it is told what to answer. Told to fail, it ends
// having answered nobody.
func imaging(ctx workflow.Context, in durable.OperationInput) error {
	told := false
	var answer durable.ImageRecordResult
	err := workflow.SetUpdateHandlerWithOptions(ctx, durable.ImageRecord,
		func(ctx workflow.Context, _ compute.OperationID) (durable.ImageRecordResult, error) {
			err := workflow.Await(ctx, func() bool { return told })
			return answer, err
		},
		workflow.UpdateHandlerOptions{Validator: func(asked compute.OperationID) error {
			if asked != in.Operation {
				return compute.Errorf(compute.Conflict, "another operation")
			}
			return nil
		}})
	if err != nil {
		return err
	}
	selector := workflow.NewSelector(ctx)
	selector.AddReceive(workflow.GetSignalChannel(ctx, "answer"), func(c workflow.ReceiveChannel, _ bool) {
		c.Receive(ctx, &answer)
		told = true
	})
	selector.AddReceive(workflow.GetSignalChannel(ctx, "fail"), func(workflow.ReceiveChannel, bool) {
		err = temporal.NewNonRetryableApplicationError("no", string(compute.Forbidden), nil, "no")
	})
	selector.AddReceive(ctx.Done(), func(workflow.ReceiveChannel, bool) { err = ctx.Err() })
	selector.Select(ctx)
	if err != nil {
		return err
	}
	if err := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) }); err != nil {
		return err
	}
	if answer.Failed {
		return temporal.NewNonRetryableApplicationError(answer.Message, string(answer.Kind), nil, answer.Message)
	}
	return nil
}

// A13: a request learns of the record of its image from the workflow of its own
// operation, also when that starts late or has ended.
func TestA13WaitingForTheRecordOfAnImage(t *testing.T) {
	t.Parallel()
	c := temporaltest.Client(t)
	w := worker.New(c, durable.ControlQueue, worker.Options{})
	w.RegisterWorkflowWithOptions(imaging, workflow.RegisterOptions{Name: durable.WorkflowType(compute.OpCreateImage)})
	w.RegisterWorkflowWithOptions(operate, workflow.RegisterOptions{Name: durable.WorkflowType(compute.OpStop)})
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	s := durable.Starter{Client: c}
	signal := func(t *testing.T, op compute.Operation, name string, with any) {
		t.Helper()
		require.NoError(t, c.SignalWorkflow(t.Context(), durable.WorkflowID(op.On(), op.Kind), "", name, with))
	}
	closed := func(t *testing.T, op compute.Operation) {
		t.Helper()
		_ = c.GetWorkflow(t.Context(), durable.WorkflowID(op.On(), op.Kind), "").Get(t.Context(), nil)
		run, found, err := s.FindExecution(t.Context(), op)
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, durable.Closed, run)
	}
	ask := func(t *testing.T, op compute.Operation, limit time.Duration) (*compute.Error, error) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		return s.ImageRecord(ctx, op)
	}
	type told struct {
		failure *compute.Error
		err     error
	}
	begin := func(t *testing.T, op compute.Operation) <-chan told {
		t.Helper()
		answer := make(chan told, 1)
		go func() {
			failure, err := s.ImageRecord(t.Context(), op)
			answer <- told{failure, err}
		}()
		return answer
	}
	refused := durable.ImageRecordResult{Failed: true, Kind: compute.Forbidden, Message: "no"}
	forbidden := told{failure: compute.Told(compute.Forbidden, "no", "no")}

	t.Run("it is there", func(t *testing.T) {
		t.Parallel()
		op := newOperation(newServer(), compute.OpCreateImage)
		require.NoError(t, s.Start(t.Context(), op))
		answer := begin(t, op)
		signal(t, op, "answer", durable.ImageRecordResult{})
		require.Equal(t, told{}, <-answer)
	})

	t.Run("it was refused", func(t *testing.T) {
		t.Parallel()
		op := newOperation(newServer(), compute.OpCreateImage)
		require.NoError(t, s.Start(t.Context(), op))
		answer := begin(t, op)
		signal(t, op, "answer", refused)
		require.Equal(t, forbidden, <-answer)
	})

	t.Run("the operation starts late, behind another one", func(t *testing.T) {
		t.Parallel()
		server := newServer()
		before, op := newOperation(server, compute.OpStop), newOperation(server, compute.OpCreateImage)
		answer := begin(t, op)
		require.NoError(t, s.Start(t.Context(), before))
		_, err := ask(t, op, time.Second)
		require.True(t, compute.Is(err, compute.Unavailable), "%v", err)
		signal(t, before, "end", nil)
		closed(t, before)
		require.NoError(t, s.Start(t.Context(), op))
		signal(t, op, "answer", refused)
		require.Equal(t, forbidden, <-answer)
	})

	t.Run("of another image nothing is told", func(t *testing.T) {
		t.Parallel()
		server := newServer()
		op, other := newOperation(server, compute.OpCreateImage), newOperation(server, compute.OpCreateImage)
		require.NoError(t, s.Start(t.Context(), other))
		_, err := ask(t, op, time.Second)
		require.True(t, compute.Is(err, compute.Unavailable), "%v", err)
		signal(t, other, "answer", refused)
		closed(t, other)
		_, err = ask(t, op, time.Second)
		require.True(t, compute.Is(err, compute.Unavailable), "%v", err)
	})

	t.Run("the operation has ended", func(t *testing.T) {
		t.Parallel()
		op := newOperation(newServer(), compute.OpCreateImage)
		for name, end := range map[string]struct {
			end  func()
			want told
		}{
			"well":      {func() { signal(t, op, "answer", durable.ImageRecordResult{}) }, told{}},
			"badly":     {func() { signal(t, op, "fail", nil) }, forbidden},
			"cancelled": {func() { require.NoError(t, c.CancelWorkflow(t.Context(), durable.WorkflowID(op.On(), op.Kind), "")) }, told{failure: compute.Told(compute.Conflict, "the operation was cancelled", "the operation was cancelled")}},
		} {
			op = newOperation(newServer(), compute.OpCreateImage)
			require.NoError(t, s.Start(t.Context(), op))
			end.end()
			closed(t, op)
			failure, err := ask(t, op, time.Minute)
			require.Equal(t, end.want, told{failure, err}, name)
		}
	})

	t.Run("it ends while it is asked", func(t *testing.T) {
		t.Parallel()
		op := newOperation(newServer(), compute.OpCreateImage)
		require.NoError(t, s.Start(t.Context(), op))
		answer := begin(t, op)
		signal(t, op, "fail", nil)
		require.Equal(t, forbidden, <-answer)
	})

	t.Run("nobody knows in time", func(t *testing.T) {
		t.Parallel()
		op := newOperation(newServer(), compute.OpCreateImage)
		require.NoError(t, s.Start(t.Context(), op))
		failure, err := ask(t, op, time.Second)
		require.Nil(t, failure)
		require.True(t, compute.Is(err, compute.Unavailable), "%v", err)
	})
}
