package durable

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"strongroom/compute"
)

// OperationInput is what every operation's workflow is given: references. The
// rest is read from the record when the workflow begins.
type OperationInput struct {
	Operation compute.OperationID `json:"operation"`
	Server    compute.ServerID    `json:"server"`
}

// memoOperation is the memo key that tells which operation an execution is.
const memoOperation = "operation"

// WorkflowID is the id under which an operation runs. It is the lock: one
// operation per server at a time, and beside it one delete, which wins.
func WorkflowID(server compute.ServerID, kind compute.OperationKind) string {
	if kind == compute.OpDelete {
		return "server/" + server.String() + "/delete"
	}
	return "server/" + server.String()
}

// WorkflowType is the registered name of an operation's workflow.
func WorkflowType(kind compute.OperationKind) string { return string(kind) }

// Starter starts the workflows of committed operations.
type Starter struct{ Client client.Client }

// Start starts op's workflow. Starting one that runs already is a success.
// Conflict: another operation holds the server; since the record let op pass,
// that one is at its very end and Start may be called again.
func (s Starter) Start(ctx context.Context, op compute.Operation) error {
	id := WorkflowID(op.ServerID, op.Kind)
	_, err := s.Client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:        id,
		TaskQueue: ControlQueue,
		// FAIL, not USE_EXISTING: the running one is another operation.
		WorkflowIDConflictPolicy:                 enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		Memo:                                     map[string]any{memoOperation: string(op.ID)},
		StaticSummary:                            fmt.Sprintf("%s of server %s (%s)", op.Kind, op.ServerID, op.ID),
	}, WorkflowType(op.Kind), OperationInput{Operation: op.ID, Server: op.ServerID})
	var started *serviceerror.WorkflowExecutionAlreadyStarted
	if errors.As(err, &started) {
		run, found, lookErr := s.Look(ctx, op)
		if lookErr != nil {
			return lookErr
		}
		if found && run == Running {
			return nil
		}
		return compute.Errorf(compute.Conflict, "another operation of server %s is ending", op.ServerID)
	}
	if err != nil {
		return compute.Errorf(compute.Unavailable, "starting %s: %w", id, err)
	}
	return nil
}

// Run says how an operation's execution stands.
type Run string

// The standings of an execution.
const (
	Running Run = "running"
	Closed  Run = "closed"
)

// Look finds op's own execution. found is false when the last execution under
// its workflow id is another operation's, or there is none.
func (s Starter) Look(ctx context.Context, op compute.Operation) (run Run, found bool, err error) {
	info, err := s.describe(ctx, WorkflowID(op.ServerID, op.Kind))
	if err != nil || info == nil {
		return "", false, err
	}
	if owner(info) != op.ID {
		return "", false, nil
	}
	return standing(info), true, nil
}

// owner is the operation that an execution says it is, "" if it says nothing.
func owner(info *workflowpb.WorkflowExecutionInfo) compute.OperationID {
	var id string
	if err := converter.GetDefaultDataConverter().FromPayload(info.GetMemo().GetFields()[memoOperation], &id); err != nil {
		return ""
	}
	return compute.OperationID(id)
}

// CancelRunning asks the operation that holds the server's lock to end, and
// waits until it has undone its work. It never terminates one. Unavailable: it
// has not ended when ctx did; call again.
func (s Starter) CancelRunning(ctx context.Context, server compute.ServerID) error {
	id := WorkflowID(server, "")
	for {
		info, err := s.describe(ctx, id)
		if err != nil {
			return err
		}
		if info == nil || standing(info) == Closed {
			return nil
		}
		run := info.GetExecution().GetRunId()
		var missing *serviceerror.NotFound
		if err := s.Client.CancelWorkflow(ctx, id, run); err != nil && !errors.As(err, &missing) {
			return compute.Errorf(compute.Unavailable, "cancelling %s: %w", id, err)
		}
		// How it ended is its own business; that the wait ended otherwise is ours.
		var ended *temporal.WorkflowExecutionError
		if err := s.Client.GetWorkflow(ctx, id, run).Get(ctx, nil); err != nil && !errors.As(err, &ended) {
			return compute.Errorf(compute.Unavailable, "still waiting for the end of %s: %w", id, err)
		}
	}
}

func (s Starter) describe(ctx context.Context, id string) (*workflowpb.WorkflowExecutionInfo, error) {
	desc, err := s.Client.DescribeWorkflowExecution(ctx, id, "")
	var missing *serviceerror.NotFound
	if errors.As(err, &missing) {
		return nil, nil
	}
	if err != nil {
		return nil, compute.Errorf(compute.Unavailable, "describing %s: %w", id, err)
	}
	return desc.GetWorkflowExecutionInfo(), nil
}

func standing(info *workflowpb.WorkflowExecutionInfo) Run {
	if info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return Running
	}
	return Closed
}

// ServerOf gives the server on which the operation of a workflow id works.
func ServerOf(workflowID string) (compute.ServerID, bool) {
	text, ok := strings.CutPrefix(workflowID, "server/")
	id, err := uuid.Parse(strings.TrimSuffix(text, "/delete"))
	return compute.ServerID{UUID: id}, ok && err == nil
}
