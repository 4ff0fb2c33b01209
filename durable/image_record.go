package durable

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"strongroom/compute"
)

// ImageRecord is the update by which a request waits until its operation has made the
// record of an image. Its argument is the operation's id: one workflow id serves the
// operations of a server one after another.
const ImageRecord = "imageRecord"

// ImageRecordResult is the answer to ImageRecord.
type ImageRecordResult struct {
	Failed  bool         `json:"failed,omitempty"` // the operation ended without the record
	Kind    compute.Kind `json:"kind,omitempty"`
	Message string       `json:"message,omitempty"`
}

// NoImageRecord is the answer of an operation that failed with err.
func NoImageRecord(err error) ImageRecordResult {
	failure := FromTemporal(err)
	if temporal.IsCanceledError(err) {
		failure = compute.Errorf(compute.Conflict, "the operation was cancelled")
	}
	return ImageRecordResult{Failed: true, Kind: failure.Kind, Message: compute.Public(failure)}
}

func (r ImageRecordResult) failure() *compute.Error {
	if !r.Failed {
		return nil
	}
	return compute.Told(r.Kind, r.Message, r.Message)
}

// imageRecordStep is how often an execution is looked for that has not started yet.
const imageRecordStep = 100 * time.Millisecond

// ImageRecord waits until op's workflow has made the record of its image. failure says
// why it ended without one. Unavailable: ctx ended before either was known.
//
// It asks an execution that Start, or the sweeper, started. Update-with-start would save
// a call, but it comes back only when a worker has answered, so that a launch could no
// longer tell what is started from what is not, and with the conflict policy FAIL it is
// refused where the execution runs already, which then has to be asked like this anyway.
func (s Starter) ImageRecord(ctx context.Context, op compute.Operation) (failure *compute.Error, err error) {
	for {
		got, err := s.askImageRecord(ctx, op)
		if err == nil {
			return got.failure(), nil
		}
		ended, got, lookErr := s.endWithoutAsking(ctx, op)
		if lookErr != nil {
			return nil, lookErr
		}
		if ended {
			return got.failure(), nil
		}
		select {
		case <-ctx.Done():
			return nil, compute.Errorf(compute.Unavailable, "waiting for the image of %s: %w", op.ID, err)
		case <-time.After(imageRecordStep):
		}
	}
}

func (s Starter) askImageRecord(ctx context.Context, op compute.Operation) (got ImageRecordResult, err error) {
	asked, err := s.Client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: WorkflowID(op.On(), op.Kind), UpdateName: ImageRecord, Args: []any{op.ID},
		WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = asked.Get(ctx, &got)
	}
	return got, err
}

// endWithoutAsking reads how op's execution ended, if it ended before it could be asked.
func (s Starter) endWithoutAsking(ctx context.Context, op compute.Operation) (ended bool, got ImageRecordResult, err error) {
	id := WorkflowID(op.On(), op.Kind)
	info, err := s.describe(ctx, id)
	if err != nil || info == nil || owner(info) != op.ID || stateOf(info) != Closed {
		return false, got, err
	}
	err = s.Client.GetWorkflow(ctx, id, info.GetExecution().GetRunId()).Get(ctx, nil)
	var failed *temporal.WorkflowExecutionError
	switch {
	case err == nil:
		return true, got, nil
	case errors.As(err, &failed):
		return true, NoImageRecord(err), nil
	}
	return false, got, compute.Errorf(compute.Unavailable, "reading the end of %s: %w", id, err)
}
