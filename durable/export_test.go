package durable

import (
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
)

// NewAuthenticReplayer replays histories as a control worker with those keys does.
func NewAuthenticReplayer(keys Keys) (worker.WorkflowReplayer, error) {
	return worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{
		DataConverter: DataConverter(keys), FailureConverter: FailureConverter(keys), Interceptors: []interceptor.WorkerInterceptor{&numbering{}},
	})
}
