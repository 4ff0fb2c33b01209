package worker_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	sdk "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"golang.org/x/sync/errgroup"

	"strongroom/activities/domain"
	"strongroom/compute"
	"strongroom/deploy/dev/temporal/temporaltest"
	"strongroom/durable"
	"strongroom/schema/schematest"
	"strongroom/worker"
	"strongroom/workflows"
)

// deletes wait for the silent host: cancelling of them, more than a control worker has
// slots, for the undo of another operation there, the rest for what they remove there.
const (
	deletes    = 200
	cancelling = 70
)

// A3: 200 deletes wait for a host that takes no work. Operations on another host complete
// meanwhile, and the janitor starts one that never started.
func TestA3TwoHundredDeletesOnASilentHostHoldUpNoOther(t *testing.T) {
	t.Parallel()
	s := newSilent(t)
	var running, waiting []compute.Operation
	for n := range deletes {
		op := s.server(s.silent, compute.OpStart)
		if n < cancelling {
			running = append(running, op)
		} else {
			s.f.Exec("UPDATE operations SET state = 'cancelled', finished_at = now() WHERE id = $1", op.ID)
		}
		waiting = append(waiting, op)
	}
	s.start(running)
	s.events("start_domain", cancelling)
	for i, op := range waiting {
		waiting[i] = s.f.Supersede(op.ServerID, compute.OpDelete, nil)
	}
	s.start(waiting)
	s.events("undo_start_domain", cancelling)
	s.events("delete_from_host", deletes-cancelling)

	var others []compute.Operation
	for range 5 {
		others = append(others, s.server(s.other, compute.OpStop), s.server(s.other, compute.OpDelete))
	}
	s.start(others[1:])
	s.f.Exec("UPDATE operations SET updated_at = now() - interval '1 minute' WHERE id = $1", others[0].ID) // nobody started it
	for _, op := range others {
		s.eventually(1, "SELECT count(*) FROM operations WHERE id = $1 AND state = 'succeeded'", op.ID)
	}
	running, waiting = s.stillRun(running), s.stillRun(waiting)
	require.Len(t, waiting, deletes, "they wait still")
	require.Len(t, running, cancelling, "and so does what they wait for")
}

// silent is a control worker with two hosts, of which one takes no work.
type silent struct {
	t             *testing.T
	f             *schematest.Fixture
	client        client.Client
	silent, other compute.HostID
}

func newSilent(t *testing.T) *silent {
	t.Helper()
	server := temporaltest.Start(t)
	s := &silent{t: t, f: schematest.NewFixture(t), client: temporaltest.Dial(t, server)}
	s.silent, s.other = s.f.Host("silent", 1000, 1<<20), s.f.Host("other", 1000, 1<<20)
	s.f.Exec("UPDATE hosts SET last_seen = now() + interval '1 hour'") // both report themselves
	s.serve(s.other)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	control := worker.Control{
		Temporal: s.client, Namespace: server.Namespace(), Version: "1.0.0", Pool: s.f.DB, Logger: slog.New(slog.DiscardHandler),
		Interceptors: []interceptor.WorkerInterceptor{&patient{queue: durable.HostQueue(s.silent)}},
	}
	go func() { ended <- control.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	require.Eventually(t, func() bool {
		d, err := s.client.ScheduleClient().GetHandle(t.Context(), workflows.JanitorName).Describe(t.Context())
		return err == nil && len(d.Info.RecentActions) > 0
	}, time.Minute, 50*time.Millisecond, "its version is current")
	return s
}

// server adds a server on a host, with a domain there, and an accepted operation on it.
func (s *silent) server(host compute.HostID, kind compute.OperationKind) compute.Operation {
	s.t.Helper()
	op := s.f.Server(kind)
	s.f.Exec("UPDATE servers SET host_id = $2, vm_state = 'active' WHERE id = $1", op.ServerID, host)
	s.f.Exec(`INSERT INTO ledger (id, kind, place, name, owner_kind, owner_id, operation_id, credential_id, project_id, user_id, state)
		VALUES (gen_random_uuid(), 'domain', $1, $2, 'server', $3::uuid, 'req-before', $3::uuid, 'p1', 'u1', 'present')`,
		host.String(), compute.InstanceName(op.ServerID), op.ServerID)
	return op
}

// start starts operations as the API does, several at once.
func (s *silent) start(all []compute.Operation) {
	s.t.Helper()
	var starting errgroup.Group
	starting.SetLimit(16)
	for _, op := range all {
		starting.Go(func() error { return durable.Starter{Client: s.client}.Start(s.t.Context(), op) })
	}
	require.NoError(s.t, starting.Wait())
}

// events waits until so many steps of a name are under way.
func (s *silent) events(name string, n int) {
	s.t.Helper()
	s.eventually(n, "SELECT count(*) FROM operation_events WHERE event = $1 AND finished_at IS NULL", name)
}

// stillRun gives those operations that have not ended.
func (s *silent) stillRun(all []compute.Operation) []compute.Operation {
	s.t.Helper()
	return slices.DeleteFunc(all, func(op compute.Operation) bool {
		return s.f.CountRows("SELECT count(*) FROM operations WHERE id = $1 AND state = 'running'", op.ID) == 0
	})
}

func (s *silent) eventually(n int, query string, args ...any) {
	s.t.Helper()
	var last int
	until := time.Now().Add(5 * time.Minute)
	for time.Now().Before(until) {
		if last = s.f.CountRows(query, args...); last == n {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	require.Equal(s.t, n, last, query)
}

// serve has a host take work.
func (s *silent) serve(host compute.HostID) {
	s.t.Helper()
	w := sdk.New(s.client, durable.HostQueue(host), sdk.Options{
		DisableWorkflowWorker: true, DisableRegistrationAliasing: true, Interceptors: []interceptor.WorkerInterceptor{&durable.Boundary{}},
	})
	domain.Stop.Register(w, func(context.Context, domain.StopInput) (domain.PowerResult, error) {
		return domain.PowerResult{PowerState: compute.PowerShutdown}, nil
	})
	domain.Remove.Register(w, durable.NoResult(func(context.Context, compute.Removal) error { return nil }))
	require.NoError(s.t, w.Start())
	s.t.Cleanup(w.Stop)
}

// patient lets calls wait for a host as long as a test needs, however slow its machine is.
type patient struct {
	interceptor.WorkerInterceptorBase
	queue durable.Queue
}

func (p *patient) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	in := &patientInbound{queue: p.queue}
	in.Next = next
	return in
}

type patientInbound struct {
	interceptor.WorkflowInboundInterceptorBase
	queue durable.Queue
}

func (i *patientInbound) Init(out interceptor.WorkflowOutboundInterceptor) error {
	o := &patientOutbound{queue: i.queue}
	o.Next = out
	return i.Next.Init(o)
}

type patientOutbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	queue durable.Queue
}

func (o *patientOutbound) ExecuteActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	if workflow.GetActivityOptions(ctx).TaskQueue == o.queue {
		ctx = workflow.WithScheduleToStartTimeout(ctx, time.Hour)
	}
	return o.Next.ExecuteActivity(ctx, name, args...)
}
