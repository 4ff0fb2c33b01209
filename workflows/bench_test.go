package workflows_test

import (
	"cmp"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/workflows"
)

// bench runs operations on a world in Temporal's test environment, where waits
// take no time.
type bench struct {
	logs slog.Handler // of its workflows; nil: nobody reads them
	*world
	t     *testing.T
	lacks map[compute.HostID][]string // the activities that a host's worker of an earlier release does not have, on a server
}

func newBench(t *testing.T, encrypted bool) *bench { return &bench{world: newWorld(encrypted), t: t} }

// spawned is a bench with an active server.
func spawned(t *testing.T) *bench {
	b := newBench(t, true)
	in := b.accept(compute.OpCreate, compute.TaskScheduling, nil)
	require.NoError(t, b.run(compute.OpCreate, in, nil))
	b.forget()
	return b
}

// stopped is a bench with a server that is shut off.
func stopped(t *testing.T) *bench { return shutOffWith(spawned)(t) }

func shutOffWith(setup func(*testing.T) *bench) func(*testing.T) *bench {
	return func(t *testing.T) *bench {
		b := setup(t)
		require.NoError(t, b.run(compute.OpStop, b.accept(compute.OpStop, compute.TaskPoweringOff, nil), nil))
		b.forget()
		return b
	}
}

// run runs an operation to its end. arm, if any, gets the environment first.
func (b *bench) run(kind compute.OperationKind, in durable.OperationInput, arm func(*testsuite.TestWorkflowEnvironment)) error {
	b.t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(cmp.Or(b.logs, slog.DiscardHandler))))
	env := newEnvironment(&suite)
	env.SetTestTimeout(20 * time.Second)
	env.SetWorkerOptions(workerOptions())
	workflows.Register(env)
	b.register(env)
	// This environment does not wait for what it cancels, though a server would.
	env.SetOnActivityCanceledListener(func(info *activity.Info) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.cut[info.WorkflowExecution.RunID+info.ActivityID] = true
	})
	if arm != nil {
		arm(env)
	}
	env.ExecuteWorkflow(durable.WorkflowType(kind), in)
	require.True(b.t, env.IsWorkflowCompleted(), "it never ended")
	return env.GetWorkflowError()
}

// host gives one of the bench's hosts as workflows name it.
func (b *bench) host(i int) *durable.Host { return &durable.Host{ID: b.hosts[i]} }
