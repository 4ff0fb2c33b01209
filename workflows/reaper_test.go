package workflows_test

import (
	"cmp"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/ledger"
	opact "strongroom/activities/operation"
	"strongroom/compute"
	"strongroom/durable"
)

// slowness lets what comes by a queue take a while. As a server does, it ends what
// takes longer than its call allows.
type slowness struct {
	interceptor.WorkerInterceptorBase
	queue durable.Queue
	takes time.Duration
	dies  bool // the worker dies at it
}

func (s *slowness) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &slowInbound{interceptor.WorkflowInboundInterceptorBase{Next: next}, s}
}

type slowInbound struct {
	interceptor.WorkflowInboundInterceptorBase
	s *slowness
}

func (i *slowInbound) Init(out interceptor.WorkflowOutboundInterceptor) error {
	return i.Next.Init(&slowOutbound{interceptor.WorkflowOutboundInterceptorBase{Next: out}, i.s})
}

type slowOutbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	s *slowness
}

func (o *slowOutbound) ExecuteActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	options := workflow.GetActivityOptions(ctx)
	if options.TaskQueue != o.s.queue {
		return o.Next.ExecuteActivity(ctx, name, args...)
	}
	limit, kind := options.StartToCloseTimeout, enumspb.TIMEOUT_TYPE_START_TO_CLOSE
	if all := cmp.Or(options.ScheduleToCloseTimeout, limit); all < limit {
		limit, kind = all, enumspb.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE
	}
	if o.s.dies {
		limit, kind = options.HeartbeatTimeout, enumspb.TIMEOUT_TYPE_HEARTBEAT
	}
	f, set := workflow.NewFuture(ctx)
	workflow.Go(ctx, func(ctx workflow.Context) {
		if err := workflow.Sleep(ctx, min(o.s.takes, limit)); err != nil || o.s.takes > limit {
			set.SetError(cmp.Or(err, temporal.NewTimeoutError(kind, nil)))
			return
		}
		set.Chain(o.Next.ExecuteActivity(ctx, name, args...))
	})
	return f
}

// leftOnAHost is a bench with a deleted server whose disks wait on its host, keys behind them.
func leftOnAHost(t *testing.T) *bench {
	t.Helper()
	b := spawned(t)
	in := b.deletion()
	b.fault = func(c call) fault {
		if c.name == removal(compute.ThingDiskFile) {
			return fault{before: fail}
		}
		return fault{}
	}
	require.NoError(t, b.run(compute.OpDelete, in, nil))
	b.forget()
	require.NotEmpty(t, b.files)
	require.Len(t, b.secrets, 4)
	return b
}

func (s *slowness) arm(env *testsuite.TestWorkflowEnvironment) {
	env.SetWorkerOptions(workerOptions(s))
}

// A removal has the time that its activity has. Meanwhile the janitor looks after operations,
// removes what becomes due elsewhere, and records what was removed.
func TestASlowRemovalHoldsNothingUp(t *testing.T) {
	t.Parallel()
	b := leftOnAHost(t)
	other := compute.Thing{
		ID: uuid.New(), Kind: compute.ThingKeySecret, Place: compute.PlaceKeyManager, Name: "another's",
		Owner: compute.Owner{Kind: compute.OwnerServer, ID: uuid.New()}, Credential: compute.Credential{ProjectID: project},
	}
	files := len(b.files)
	const takes = 5 * time.Minute
	var env *testsuite.TestWorkflowEnvironment
	var began, recorded time.Time
	b.fault = func(c call) fault {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch {
		case c.name == ledger.Due.Name && c.nth == 1:
			began = env.Now()
		case c.name == opact.Sweep.Name && c.nth == 2:
			b.secrets[other.Name] = compute.SecretID{UUID: uuid.New()}
			b.wait([]compute.Thing{other.Waits(compute.BlockedByError, "why")})
		case recorded.IsZero() && c.name == ledger.Reaped.Name:
			recorded = env.Now()
		}
		return fault{}
	}
	b.reapBeside(func(e *testsuite.TestWorkflowEnvironment) {
		env = e
		(&slowness{queue: durable.HostQueue(b.hosts[0]), takes: takes}).arm(e)
	})
	require.Empty(t, b.files, "it was not cut off")
	require.Equal(t, files, b.count(removal(compute.ThingDiskFile)), "each was tried once")
	require.NotContains(t, b.secrets, other.Name)
	require.Less(t, recorded.Sub(began), time.Minute, "another's key")
	require.GreaterOrEqual(t, b.count(opact.Sweep.Name), int(takes/(10*time.Second))-1)
	require.Less(t, env.Now().Sub(began), takes+time.Minute)
	b.reapAll()
	require.Empty(t, b.ledger)
	require.Empty(t, b.secrets, "keys go after what they open")
}

// A removal at a cloud service has time for several slow answers: without time to wait for the answer, what changes something
// there is not sent at all, and what waits would wait for ever.
func TestASlowCloudServiceIsWaitedFor(t *testing.T) {
	t.Parallel()
	b := leftOnAHost(t)
	b.fault = nil
	slow := &slowness{queue: durable.CloudQueue, takes: 4 * time.Minute}
	for range 2 { // keys go after what they open
		b.reapBeside(slow.arm)
	}
	require.Empty(t, b.secrets)
	require.Empty(t, b.ledger)
}

// A removal that never ends is given up as one that failed, and tried again later; one whose
// host dies waits for the host.
func TestARemovalThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]struct {
		dies bool
		by   compute.Blocker
	}{"takes too long": {false, compute.BlockedByError}, "its host dies": {true, compute.BlockedByHost}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := leftOnAHost(t)
			b.fault = nil
			files := len(b.files)
			b.reapBeside((&slowness{queue: durable.HostQueue(b.hosts[0]), takes: 24 * time.Hour, dies: how.dies}).arm)
			require.Len(t, b.files, files)
			for _, left := range b.ledger {
				if left.Kind == compute.ThingDiskFile {
					require.Equal(t, how.by, left.BlockedBy)
				}
			}
		})
	}
}
