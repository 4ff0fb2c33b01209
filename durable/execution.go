package durable

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"strongroom/compute"
)

// Execution is an execution of an operation.
type Execution struct {
	Operation compute.OperationID `json:"operation"`
	Kind      string              `json:"kind"`
	Workflow  string              `json:"workflow_id"`
	Run       string              `json:"run_id"`
}

// RunningExecutions gives the executions of operations that run in a namespace. What
// Temporal has begun in the last second may be missing.
func RunningExecutions(ctx context.Context, c client.Client) ([]Execution, error) {
	return executions(ctx, c, "ExecutionStatus = 'Running'")
}

func executions(ctx context.Context, c client.Client, query string) (out []Execution, err error) {
	request := &workflowservice.ListWorkflowExecutionsRequest{Query: query}
	for {
		page, err := c.ListWorkflow(ctx, request)
		if err != nil {
			return nil, compute.Errorf(compute.Unavailable, "listing executions: %w", err)
		}
		for _, info := range page.GetExecutions() {
			if op := owner(info); op != "" {
				out = append(out, Execution{
					Operation: op, Kind: info.GetType().GetName(), Workflow: info.GetExecution().GetWorkflowId(), Run: info.GetExecution().GetRunId(),
				})
			}
		}
		if request.NextPageToken = page.GetNextPageToken(); len(request.NextPageToken) == 0 {
			return out, nil
		}
	}
}

// Terminate ends an execution whose operation nobody knows: it could not even undo
// anything, for it has no record to write to. One that has ended is a success.
func (e Execution) Terminate(ctx context.Context, c client.Client, why string) error {
	err := c.TerminateWorkflow(ctx, e.Workflow, e.Run, why)
	if missing := (*serviceerror.NotFound)(nil); err == nil || errors.As(err, &missing) {
		return nil
	}
	return compute.Errorf(compute.Unavailable, "terminating %s: %w", e.Workflow, err)
}

// HasRun reports whether an operation ever had an execution that has ended, as far back as
// Temporal keeps them.
func (s Starter) HasRun(ctx context.Context, op compute.Operation) (bool, error) {
	page, err := s.Client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		Query: fmt.Sprintf("WorkflowId = '%s' AND %s = '%s' AND ExecutionStatus != 'Running'", WorkflowID(op.On(), op.Kind), AttributeRequest.GetName(), op.ID),
	})
	if err != nil {
		return false, compute.Errorf(compute.Unavailable, "looking for the execution of %s: %w", op.ID, err)
	}
	return len(page.GetExecutions()) > 0, nil
}
