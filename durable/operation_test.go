package durable_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"strongroom/compute"
	"strongroom/deploy/dev/temporal/temporaltest"
	"strongroom/durable"
)

// undoTime is how long the operations of this test take to undo their work.
const undoTime = 700 * time.Millisecond

// operate waits for the signal "end", or undoes its work when it is cancelled.
func operate(ctx workflow.Context, _ durable.OperationInput) error {
	var end bool
	selector := workflow.NewSelector(ctx)
	selector.AddReceive(workflow.GetSignalChannel(ctx, "end"), func(workflow.ReceiveChannel, bool) { end = true })
	selector.AddReceive(ctx.Done(), func(workflow.ReceiveChannel, bool) {})
	selector.Select(ctx)
	if end {
		return nil
	}
	undo, _ := workflow.NewDisconnectedContext(ctx)
	if err := workflow.Sleep(undo, undoTime); err != nil {
		return err
	}
	return ctx.Err()
}

func newOperation(server compute.ServerID, kind compute.OperationKind) compute.Operation {
	return compute.Operation{ID: compute.NewOperationID(), ServerID: server, Kind: kind}
}

func newServer() compute.ServerID { return compute.ServerID{UUID: uuid.New()} }

func TestStarter(t *testing.T) {
	t.Parallel()
	c := temporaltest.Client(t)
	w := worker.New(c, durable.ControlQueue, worker.Options{})
	for _, kind := range []compute.OperationKind{compute.OpCreate, compute.OpStop, compute.OpDelete} {
		w.RegisterWorkflowWithOptions(operate, workflow.RegisterOptions{Name: durable.WorkflowType(kind)})
	}
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	s := durable.Starter{Client: c}
	look := func(t *testing.T, op compute.Operation) (durable.ExecutionState, bool) {
		t.Helper()
		run, found, err := s.FindExecution(t.Context(), op)
		require.NoError(t, err)
		return run, found
	}
	end := func(t *testing.T, op compute.Operation) {
		t.Helper()
		id := durable.WorkflowID(op.On(), op.Kind)
		require.NoError(t, c.SignalWorkflow(t.Context(), id, "", "end", nil))
		require.NoError(t, c.GetWorkflow(t.Context(), id, "").Get(t.Context(), nil))
	}

	t.Run("to start twice is to start once", func(t *testing.T) {
		t.Parallel()
		op := newOperation(newServer(), compute.OpCreate)
		_, found := look(t, op)
		require.False(t, found)
		require.NoError(t, s.Start(t.Context(), op))
		first := c.GetWorkflow(t.Context(), durable.WorkflowID(op.On(), op.Kind), "").GetRunID()
		require.NoError(t, s.Start(t.Context(), op))
		require.Equal(t, first, c.GetWorkflow(t.Context(), durable.WorkflowID(op.On(), op.Kind), "").GetRunID())
		run, found := look(t, op)
		require.True(t, found)
		require.Equal(t, durable.Running, run)
		end(t, op)
		run, found = look(t, op)
		require.True(t, found)
		require.Equal(t, durable.Closed, run)
	})

	t.Run("one operation at a time, and beside it a delete", func(t *testing.T) {
		t.Parallel()
		server := newServer()
		spawn, stop, del := newOperation(server, compute.OpCreate), newOperation(server, compute.OpStop), newOperation(server, compute.OpDelete)
		require.NoError(t, s.Start(t.Context(), spawn))
		err := s.Start(t.Context(), stop)
		require.True(t, compute.Is(err, compute.Conflict), "%v", err)
		_, found := look(t, stop)
		require.False(t, found, "what runs is another operation")
		require.NoError(t, s.Start(t.Context(), del))
		end(t, spawn)
		require.NoError(t, s.Start(t.Context(), stop))
		_, found = look(t, spawn)
		require.False(t, found, "the last execution is another operation's")
		run, _ := look(t, stop)
		require.Equal(t, durable.Running, run)
	})

	t.Run("many at once start one", func(t *testing.T) {
		t.Parallel()
		op := newOperation(newServer(), compute.OpCreate)
		errs := make(chan error)
		for range 8 {
			go func() { errs <- s.Start(t.Context(), op) }()
		}
		for range 8 {
			require.NoError(t, <-errs)
		}
		run, _ := look(t, op)
		require.Equal(t, durable.Running, run)
	})

	t.Run("a cancel asks, and says when the undo has ended", func(t *testing.T) {
		t.Parallel()
		op := newOperation(newServer(), compute.OpCreate)
		ended, err := s.Cancel(t.Context(), op.ServerID)
		require.NoError(t, err)
		require.True(t, ended, "nothing runs")
		require.NoError(t, s.Start(t.Context(), op))
		ended, err = s.Cancel(t.Context(), op.ServerID)
		require.NoError(t, err)
		require.False(t, ended)
		require.Eventually(t, func() bool { // asked again and again
			ended, err = s.Cancel(t.Context(), op.ServerID)
			return err != nil || ended
		}, time.Minute, undoTime/20)
		require.NoError(t, err)
		run, _ := look(t, op)
		require.Equal(t, durable.Closed, run)
	})

	t.Run("the execution of one operation is cancelled, and no other's", func(t *testing.T) {
		t.Parallel()
		op := newOperation(newServer(), compute.OpCreate)
		require.NoError(t, s.CancelExecution(t.Context(), op), "nothing runs")
		require.NoError(t, s.Start(t.Context(), op))
		require.NoError(t, s.CancelExecution(t.Context(), newOperation(op.ServerID, compute.OpStop)))
		time.Sleep(2 * undoTime)
		run, _ := look(t, op)
		require.Equal(t, durable.Running, run)
		for range 2 {
			require.NoError(t, s.CancelExecution(t.Context(), op))
		}
		require.Eventually(t, func() bool {
			run, _ := look(t, op)
			return run == durable.Closed
		}, time.Minute, undoTime/20)
	})

	t.Run("a cancel leaves a delete alone", func(t *testing.T) {
		t.Parallel()
		op := newOperation(newServer(), compute.OpDelete)
		require.NoError(t, s.Start(t.Context(), op))
		ended, err := s.Cancel(t.Context(), op.ServerID)
		require.NoError(t, err)
		require.True(t, ended)
		run, _ := look(t, op)
		require.Equal(t, durable.Running, run)
	})

	t.Run("an operation on a host is told what it works on", func(t *testing.T) {
		t.Parallel()
		host := compute.Owner{Kind: compute.OwnerHost, ID: uuid.New()}
		op, other := newOperation(compute.ServerID{}, compute.OpStop), newOperation(compute.ServerID{}, compute.OpCreate)
		op.Subject, other.Subject = host, host
		require.NoError(t, s.Start(t.Context(), op))
		require.NoError(t, s.Start(t.Context(), other), "of a host each kind has its own lock")
		run, _ := look(t, op)
		require.Equal(t, durable.Running, run)
		history := c.GetWorkflowHistory(t.Context(), "host/"+host.ID.String()+"/stop", "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		first, err := history.Next()
		require.NoError(t, err)
		var in durable.OperationInput
		require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(first.GetWorkflowExecutionStartedEventAttributes().GetInput(), &in))
		require.Equal(t, durable.OperationInput{Operation: op.ID, Subject: host}, in)
	})

	t.Run("a server that is away is worth a retry", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		nobody, err := durable.DialLazily(durable.ClientConfig{Address: "127.0.0.1:1", Namespace: "default", Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		defer nobody.Close()
		op := newOperation(newServer(), compute.OpCreate)
		require.True(t, compute.Is(durable.Starter{Client: nobody}.Start(ctx, op), compute.Unavailable))
		_, err = durable.Starter{Client: nobody}.Cancel(ctx, op.ServerID)
		require.True(t, compute.Is(err, compute.Unavailable), "%v", err)
		_, err = durable.Starter{Client: nobody}.ImageRecord(ctx, op)
		require.True(t, compute.Is(err, compute.Unavailable), "%v", err)
	})
}

func TestB6TheWorkflowIDNamesWhatAnOperationWorksOn(t *testing.T) {
	t.Parallel()
	id := uuid.New()
	for want, got := range map[string]string{
		"server/" + id.String():             durable.WorkflowID(compute.ServerOwner(compute.ServerID{UUID: id}), compute.OpStop),
		"server/" + id.String() + "/delete": durable.WorkflowID(compute.ServerOwner(compute.ServerID{UUID: id}), compute.OpDelete),
		"host/" + id.String() + "/drain":    durable.WorkflowID(compute.Owner{Kind: compute.OwnerHost, ID: id}, "drain"),
	} {
		require.Equal(t, want, got)
	}
	op := compute.Operation{ServerID: compute.ServerID{UUID: id}}
	require.Equal(t, compute.ServerOwner(op.ServerID), op.On())
	server, ok := durable.ServerOf("server/" + id.String() + "/delete")
	require.True(t, ok)
	require.Equal(t, op.ServerID, server)
	_, ok = durable.ServerOf("host/" + id.String() + "/drain")
	require.False(t, ok)
}
