package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	sdk "go.temporal.io/sdk/worker"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"strongroom/worker"
)

// staged is a worker that does what a test says.
type staged struct {
	start func() error
	stop  func()
}

func (s staged) Start() error { return s.start() }
func (s staged) Stop()        { s.stop() }

func starts() error { return nil }

func newGroup(workers ...worker.Worker) *worker.Group {
	g := worker.NewGroup("test worker", slog.New(slog.DiscardHandler))
	for _, w := range workers {
		g.Add(w)
	}
	return g
}

// A worker that cannot go on ends the process's Run with its error, and the others
// with it.
func TestA11AFatalErrorEndsRun(t *testing.T) {
	t.Parallel()
	for name, linger := range map[string]func(context.Context){
		"at work":          nil,
		"while it lingers": func(ctx context.Context) { <-ctx.Done() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stopped sync.WaitGroup
			stopped.Add(2)
			w := staged{starts, stopped.Done}
			g := newGroup(w, w)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if linger != nil {
				cancel()
			}
			ended := make(chan error)
			go func() { ended <- g.Run(ctx, linger) }()
			g.Fail(errors.New("the namespace is gone"))
			g.Fail(errors.New("a consequence"))
			err := <-ended
			require.ErrorContains(t, err, "test worker cannot go on: the namespace is gone")
			stopped.Wait()
		})
	}
}

// Workers drain side by side: each one's end waits for the others' to have begun.
func TestA11WorkersDrainTogether(t *testing.T) {
	t.Parallel()
	var begun sync.WaitGroup
	begun.Add(3)
	w := staged{starts, func() { begun.Done(); begun.Wait() }}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ended := make(chan error)
	go func() { ended <- newGroup(w, w, w).Run(ctx, nil) }()
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(time.Minute):
		t.Fatal("one waits for the end of another")
	}
}

func TestAWorkerThatDoesNotStartStopsTheOthers(t *testing.T) {
	t.Parallel()
	stopped := 0
	g := newGroup(
		staged{starts, func() { stopped++ }},
		staged{func() error { return errors.New("no such namespace") }, func() { t.Error("it never started") }},
		staged{func() error { t.Error("nor does the next"); return nil }, func() {}},
	)
	require.ErrorContains(t, g.Run(t.Context(), nil), "no such namespace")
	require.Equal(t, 1, stopped)
}

// A frontend that refuses the polls for longer than the SDK bears is a fatal error of
// the SDK, which ends Run. Two minutes pass at once in the bubble of synctest.
func TestA11TheSDKReportsToTheGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, err := client.NewLazyClient(client.Options{
			HostPort: "passthrough:///none", Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler)),
			ConnectionOptions: client.ConnectionOptions{DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(refusePolls)}},
		})
		require.NoError(t, err)
		defer c.Close()
		g := newGroup()
		g.New(c, "queue", sdk.Options{DisableWorkflowWorker: true})
		err = g.Run(t.Context(), nil)
		require.ErrorContains(t, err, "queue queue: no such namespace")
	})
}

// refusePolls is a frontend: it answers what a worker's start asks, and refuses polls.
func refusePolls(_ context.Context, method string, _, _ any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
	if strings.Contains(method, "Poll") {
		return status.Error(codes.InvalidArgument, "no such namespace")
	}
	return nil
}
