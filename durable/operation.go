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
	Server    compute.ServerID    `json:"server,omitzero"`
	Subject   compute.Owner       `json:"subject,omitzero"` // what an operation that has no server works on
}

// memoOperation is the memo key of the id of the operation that an execution runs.
const memoOperation = "operation"

// WorkflowID is the id under which an operation runs. It is the lock. On a server there is
// one operation at a time, and beside it one delete, which wins: server/<uuid> and
// server/<uuid>/delete. Of other things each kind of operation has its own: host/<uuid>/<kind>.
func WorkflowID(on compute.Owner, kind compute.OperationKind) string {
	id := string(on.Kind) + "/" + on.ID.String()
	if on.Kind != compute.OwnerServer || kind == compute.OpDelete {
		id += "/" + string(kind)
	}
	return id
}

// WorkflowType is the registered name of an operation's workflow.
func WorkflowType(kind compute.OperationKind) string { return string(kind) }

// Starter starts the workflows of committed operations.
type Starter struct {
	Client    client.Client
	Namespace string // of the client; Health alone needs it
}

// Health fails while Temporal, or the database behind it, does not answer.
func (s Starter) Health(ctx context.Context) error {
	_, err := NamespaceID(ctx, s.Client, s.Namespace)
	return err
}

// Start starts op's workflow. Starting one that runs already is a success.
// Conflict: another operation has the lock; since the record let op pass,
// that one is at its very end and Start may be called again.
func (s Starter) Start(ctx context.Context, op compute.Operation) error {
	id := WorkflowID(op.On(), op.Kind)
	_, err := s.Client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:        id,
		TaskQueue: ControlQueue,
		// FAIL, not USE_EXISTING: the running one is another operation.
		WorkflowIDConflictPolicy:                 enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		Memo:                                     map[string]any{memoOperation: string(op.ID)},
		TypedSearchAttributes:                    started(op),
		StaticSummary:                            fmt.Sprintf("%s of %s (%s)", op.Kind, op.On(), op.ID),
		Priority:                                 fairShare(op),
	}, WorkflowType(op.Kind), OperationInput{Operation: op.ID, Server: op.ServerID, Subject: op.Subject})
	var started *serviceerror.WorkflowExecutionAlreadyStarted
	if errors.As(err, &started) {
		state, found, findErr := s.FindExecution(ctx, op)
		if findErr != nil {
			return findErr
		}
		if found && state == Running {
			return nil
		}
		return compute.Errorf(compute.Conflict, "another operation of %s is ending", op.On())
	}
	if isUnregistered(err) {
		return compute.Errorf(compute.Unavailable, "starting %s: Temporal does not know strongroom's search attributes, run strongroom migrate: %w", id, err)
	}
	if err != nil {
		return compute.Errorf(compute.Unavailable, "starting %s: %w", id, err)
	}
	return nil
}

// fairShare puts the workflow's tasks, and those of all activities that it calls, into
// its project's share of each task queue: many operations of one project do not hold up
// those of another (H6). Temporal has it with the setting matching.enableFairness; without
// that a queue is served in order.
func fairShare(op compute.Operation) temporal.Priority {
	return temporal.Priority{FairnessKey: op.Credential.ProjectID} // at most 64 bytes, as in Keystone
}

// ExecutionState says whether an operation's execution still runs.
type ExecutionState string

// The states of an execution.
const (
	Running ExecutionState = "running"
	Closed  ExecutionState = "closed"
)

// FindExecution finds op's own execution. found is false when the last execution under
// its workflow id is another operation's, or there is none.
func (s Starter) FindExecution(ctx context.Context, op compute.Operation) (state ExecutionState, found bool, err error) {
	info, err := s.describe(ctx, WorkflowID(op.On(), op.Kind))
	if err != nil || info == nil {
		return "", false, err
	}
	if owner(info) != op.ID {
		return "", false, nil
	}
	return stateOf(info), true, nil
}

// owner is the operation that an execution says it is, "" if it says nothing.
func owner(info *workflowpb.WorkflowExecutionInfo) compute.OperationID {
	var id string
	if err := converter.GetDefaultDataConverter().FromPayload(info.GetMemo().GetFields()[memoOperation], &id); err != nil {
		return ""
	}
	return compute.OperationID(id)
}

// Cancel cancels the operation that has the server's lock. ended is true when no
// operation has the lock any more. It never terminates one.
func (s Starter) Cancel(ctx context.Context, server compute.ServerID) (ended bool, err error) {
	id := WorkflowID(compute.ServerOwner(server), "")
	info, err := s.describe(ctx, id)
	if err != nil || info == nil || stateOf(info) == Closed {
		return err == nil, err
	}
	return false, s.cancel(ctx, info)
}

// CancelExecution cancels op's own execution, where it runs.
func (s Starter) CancelExecution(ctx context.Context, op compute.Operation) error {
	info, err := s.describe(ctx, WorkflowID(op.On(), op.Kind))
	if err != nil || info == nil || owner(info) != op.ID || stateOf(info) == Closed {
		return err
	}
	return s.cancel(ctx, info)
}

func (s Starter) cancel(ctx context.Context, info *workflowpb.WorkflowExecutionInfo) error {
	run := info.GetExecution()
	err := s.Client.CancelWorkflow(ctx, run.GetWorkflowId(), run.GetRunId())
	var missing *serviceerror.NotFound
	var asked *serviceerror.CancellationAlreadyRequested
	if err != nil && !errors.As(err, &missing) && !errors.As(err, &asked) {
		return compute.Errorf(compute.Unavailable, "cancelling %s: %w", run.GetWorkflowId(), err)
	}
	return nil
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

func stateOf(info *workflowpb.WorkflowExecutionInfo) ExecutionState {
	if info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return Running
	}
	return Closed
}

// VolumeOf gives the volume on which the operation of a workflow id works.
func VolumeOf(workflowID string) (compute.VolumeID, bool) {
	text, ok := strings.CutPrefix(workflowID, string(compute.OwnerVolume)+"/")
	text, _, _ = strings.Cut(text, "/")
	id, err := uuid.Parse(text)
	return compute.VolumeID{UUID: id}, ok && err == nil
}

// ServerOf gives the server on which the operation of a workflow id works.
func ServerOf(workflowID string) (compute.ServerID, bool) {
	text, ok := strings.CutPrefix(workflowID, "server/")
	id, err := uuid.Parse(strings.TrimSuffix(text, "/delete"))
	return compute.ServerID{UUID: id}, ok && err == nil
}
