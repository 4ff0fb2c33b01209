package durable_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"strongroom/durable"
)

// run runs a workflow in the test environment, where waits take no time.
func run(t *testing.T, do func(workflow.Context) error) (*testsuite.TestWorkflowEnvironment, error) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.RegisterWorkflowWithOptions(do, workflow.RegisterOptions{Name: "do"})
	env.ExecuteWorkflow("do")
	require.True(t, env.IsWorkflowCompleted())
	return env, env.GetWorkflowError()
}

// undos notes which undos ran, and when; the first tries of each fail as often
// as failures says.
type undos struct {
	saga     durable.Saga
	ran      []string
	failures map[string]int
}

func (u *undos) undo(name string) func(workflow.Context) error {
	return func(workflow.Context) error {
		if u.failures[name] > 0 {
			u.failures[name]--
			u.ran = append(u.ran, name+" failed")
			return errors.New(name)
		}
		u.ran = append(u.ran, name)
		return nil
	}
}

func TestUnwindGoesBackwards(t *testing.T) {
	t.Parallel()
	u := undos{}
	_, err := run(t, func(ctx workflow.Context) error {
		for _, name := range []string{"a", "b", "c"} {
			u.saga.Defer(durable.Undo{Step: name, Run: u.undo(name)})
		}
		u.saga.Unwind(ctx)
		u.saga.Unwind(ctx) // what is undone is done with
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, []string{"c", "b", "a"}, u.ran)
}

func TestACommitStands(t *testing.T) {
	t.Parallel()
	u := undos{}
	_, err := run(t, func(ctx workflow.Context) error {
		u.saga.Defer(durable.Undo{Step: "a", Run: u.undo("a")})
		u.saga.Commit()
		u.saga.Unwind(ctx)
		return nil
	})
	require.NoError(t, err)
	require.Empty(t, u.ran)
}

// A2: an undo that does not come to its end holds up those at its own place alone.
func TestA2AFailingUndoHoldsUpNoOtherPlace(t *testing.T) {
	t.Parallel()
	u := undos{failures: map[string]int{"d": 2}}
	_, err := run(t, func(ctx workflow.Context) error {
		u.saga.Defer(durable.Undo{Step: "a", Place: "host 1", Run: u.undo("a")})
		u.saga.Defer(durable.Undo{Step: "b", Place: "cloud", Run: u.undo("b")})
		u.saga.Defer(durable.Undo{Step: "c", Place: "host 2", Run: u.undo("c")})
		u.saga.Defer(durable.Undo{Step: "d", Place: "host 1", Run: u.undo("d")})
		u.saga.Unwind(ctx)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, []string{"b", "d failed", "c", "d failed", "d", "a"}, u.ran)
}

func TestWhatOthersDependOnGoesLast(t *testing.T) {
	t.Parallel()
	u := undos{failures: map[string]int{"c": 2}}
	_, err := run(t, func(ctx workflow.Context) error {
		u.saga.Defer(durable.Undo{Step: "a", Run: u.undo("a")})
		u.saga.Defer(durable.Undo{Step: "b", Last: true, Run: u.undo("b")})
		u.saga.Defer(durable.Undo{Step: "c", Run: u.undo("c")})
		u.saga.Defer(durable.Undo{Step: "d", Run: u.undo("d")})
		u.saga.Unwind(ctx)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, []string{"d", "c failed", "c failed", "c", "b", "a"}, u.ran)
}

// TestUnwindNeverGivesUp: at growing intervals, of ten minutes for a while and of an hour at most.
func TestUnwindNeverGivesUp(t *testing.T) {
	t.Parallel()
	u := undos{failures: map[string]int{"a": 200}}
	var took time.Duration
	_, err := run(t, func(ctx workflow.Context) error {
		begin := workflow.Now(ctx)
		u.saga.Defer(durable.Undo{Step: "a", Run: u.undo("a")})
		u.saga.Unwind(ctx)
		took = workflow.Now(ctx).Sub(begin)
		return nil
	})
	require.NoError(t, err)
	require.Len(t, u.ran, 201)
	require.Equal(t, 5*(1<<7-1)*time.Second+9*10*time.Minute+(20+40+182*60)*time.Minute, took)
}

// TestACancelDoesNotReachTheUndo, neither one that came before nor one that
// comes while it waits.
func TestACancelDoesNotReachTheUndo(t *testing.T) {
	t.Parallel()
	for name, when := range map[string]time.Duration{"before": time.Second, "while it waits": time.Hour + 7*time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := undos{failures: map[string]int{"a": 3}}
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestWorkflowEnvironment()
			env.RegisterWorkflowWithOptions(func(ctx workflow.Context) error {
				u.saga.Defer(durable.Undo{Step: "a", Run: func(ctx workflow.Context) error {
					require.NoError(t, ctx.Err())
					return u.undo("a")(ctx)
				}})
				err := workflow.Sleep(ctx, time.Hour)
				u.saga.Unwind(ctx)
				require.Error(t, ctx.Err())
				return err
			}, workflow.RegisterOptions{Name: "do"})
			env.RegisterDelayedCallback(env.CancelWorkflow, when)
			env.ExecuteWorkflow("do")
			require.True(t, env.IsWorkflowCompleted())
			require.Equal(t, name == "before", temporal.IsCanceledError(env.GetWorkflowError()))
			require.Len(t, u.ran, 4)
		})
	}
}

func TestRetryForeverEndsWithItsContext(t *testing.T) {
	t.Parallel()
	tries := 0
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.RegisterWorkflowWithOptions(func(ctx workflow.Context) error {
		return durable.RetryForever(ctx, func(workflow.Context) error { tries++; return errors.New("no") })
	}, workflow.RegisterOptions{Name: "do"})
	env.RegisterDelayedCallback(env.CancelWorkflow, 40*time.Second)
	env.ExecuteWorkflow("do")
	require.True(t, temporal.IsCanceledError(env.GetWorkflowError()))
	require.Equal(t, 4, tries, "at 0, 5, 15 and 35 seconds")
}
