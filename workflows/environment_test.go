package workflows_test

import (
	"time"

	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"strongroom/durable"
)

// newEnvironment gives an environment whose workflow may run for ever, as one of ours may. With a limit, which is ten years where
// nothing is said, the SDK sets a timer of the machine's clock to it and never stops that: each environment, with all that
// its workflow was given, stays in memory.
func newEnvironment(suite *testsuite.WorkflowTestSuite) *testsuite.TestWorkflowEnvironment {
	return suite.NewTestWorkflowEnvironment().SetWorkflowRunTimeout(0)
}

// workerOptions are those of an environment's worker, with interceptors besides the one that all workers have. A workflow that does not yield for a second of
// the machine's clock is stuck to the SDK; on a machine that stands still for a moment it is not.
func workerOptions(more ...interceptor.WorkerInterceptor) worker.Options {
	return worker.Options{
		DisableRegistrationAliasing: true, Interceptors: append([]interceptor.WorkerInterceptor{&durable.Boundary{}}, more...), DeadlockDetectionTimeout: time.Minute,
	}
}
