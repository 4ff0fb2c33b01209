package workflows_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/record"
	"strongroom/compute"
)

// cancelAfter cancels an operation at the moment when a call has succeeded, before the
// operation does anything else.
type cancelAfter struct {
	interceptor.WorkerInterceptorBase
	call call
}

func (c *cancelAfter) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &cancelInbound{WorkflowInboundInterceptorBase: interceptor.WorkflowInboundInterceptorBase{Next: next}, call: c.call}
}

type cancelInbound struct {
	interceptor.WorkflowInboundInterceptorBase
	call   call
	made   int // calls of that name
	cancel workflow.CancelFunc
}

func (i *cancelInbound) Init(out interceptor.WorkflowOutboundInterceptor) error {
	return i.Next.Init(&cancelOutbound{interceptor.WorkflowOutboundInterceptorBase{Next: out}, i})
}

func (i *cancelInbound) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	ctx, i.cancel = workflow.WithCancel(ctx)
	return i.Next.ExecuteWorkflow(ctx, in)
}

type cancelOutbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	in *cancelInbound
}

func (o *cancelOutbound) ExecuteActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	f := o.Next.ExecuteActivity(ctx, name, args...)
	if name == o.in.call.name {
		if o.in.made++; o.in.made == o.in.call.nth {
			return cancelling{f, o.in.cancel}
		}
	}
	return f
}

// cancelling cancels when its result is taken.
type cancelling struct {
	workflow.Future
	cancel workflow.CancelFunc
}

func (c cancelling) Get(ctx workflow.Context, out any) error {
	err := c.Future.Get(ctx, out)
	c.cancel()
	return err
}

// A cancel between the last step and the point of no return: the operation is undone, and
// how that step ended is on record.
func TestACancelRightBeforeThePointOfNoReturn(t *testing.T) {
	t.Parallel()
	for name, s := range subjects {
		if s.decides == "" || s.decides == record.HandOver.Name {
			continue // an operation is not cancelled any more once its image is whole
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls := undisturbed(t)[name]
			decision := s.decision(calls)
			last := decision - 1
			for last >= 0 && calls[last].local {
				last--
			}
			if last < 0 {
				return // it has no step before
			}
			b := s.setup(t)
			in := b.accept(s.kind, s.task, s.arguments)
			err := b.run(s.kind, in, func(env *testsuite.TestWorkflowEnvironment) {
				env.SetWorkerOptions(workerOptions(&cancelAfter{call: calls[last]}))
			})
			require.True(t, temporal.IsCanceledError(err), "%v", err)
			require.False(t, slices.ContainsFunc(b.names(), func(c call) bool { return c.name == s.decides }))
			for event, result := range b.events {
				require.NotEqual(t, leftOpen, result, "nobody wrote how %s ended", event)
			}
			vm, power := s.undone(calls, decision, false)
			b.early(in, s, compute.OperationCancelled, vm, power)
		})
	}
}
