package workflows_test

import "go.temporal.io/sdk/testsuite"

// newEnvironment gives an environment whose workflow may run for ever, as one of ours may. With a limit, which is ten years where
// nothing is said, the SDK sets a timer of the machine's clock to it and never stops that: each environment, with all that
// its workflow was given, stays in memory.
func newEnvironment(suite *testsuite.WorkflowTestSuite) *testsuite.TestWorkflowEnvironment {
	return suite.NewTestWorkflowEnvironment().SetWorkflowRunTimeout(0)
}
