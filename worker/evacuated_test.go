package worker_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/interceptor"

	"strongroom/compute"
	"strongroom/worker"
	"strongroom/worker/gateway"
)

// work is an activity that notes that it ran.
type work struct {
	interceptor.ActivityInboundInterceptorBase
	done int
}

func (w *work) ExecuteActivity(context.Context, *interceptor.ExecuteActivityInput) (any, error) {
	w.done++
	return nil, nil
}

// A host that was away begins no activity before it has stopped the guests that left it
// meanwhile, and none while it cannot know of them; one that asked a moment ago does not ask
// again.
func TestAHostThatWasAwayStopsWhatLeftIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		left := gateway.Evacuated{Server: compute.ServerID{UUID: uuid.New()}, Since: time.Now()}
		var asked, stopped int
		var away, stuck error
		e := &worker.Eviction{
			Evacuated: func(context.Context) ([]gateway.Evacuated, error) {
				asked++
				return []gateway.Evacuated{left}, away
			},
			Evict: func(_ context.Context, server compute.ServerID, since time.Time) error {
				require.Equal(t, left.Server, server)
				require.Equal(t, left.Since, since)
				stopped++
				return stuck
			},
		}
		next := &work{}
		run := func() error {
			_, err := e.InterceptActivity(t.Context(), next).ExecuteActivity(t.Context(), nil)
			return err
		}
		require.NoError(t, run(), "the first asks")
		require.Equal(t, []int{1, 1, 1}, []int{asked, stopped, next.done})
		time.Sleep(20 * time.Second)
		require.NoError(t, run())
		require.Equal(t, []int{1, 1, 2}, []int{asked, stopped, next.done})

		time.Sleep(20 * time.Second)
		away = errors.New("away")
		err := run()
		require.Equal(t, compute.Unavailable, compute.KindOf(err), "it is tried again")
		require.ErrorContains(t, err, "this host was away")
		away, stuck = nil, errors.New("stuck")
		require.ErrorContains(t, run(), "may run here still")
		require.Equal(t, 2, next.done)
		stuck = nil
		require.NoError(t, run())
		require.Equal(t, []int{4, 3, 3}, []int{asked, stopped, next.done})
		require.NoError(t, e.Run(t.Context()))
		require.Equal(t, 5, asked, "whoever says that the host runs asks each time")
	})
}

// A guest that cannot be stopped, or hangs, keeps no other one running that left the host, too; the
// host takes no work meanwhile.
func TestAGuestThatDoesNotStopKeepsNoOtherRunning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var left []gateway.Evacuated
		for range 3 {
			left = append(left, gateway.Evacuated{Server: compute.ServerID{UUID: uuid.New()}})
		}
		stopped := make(chan compute.ServerID, len(left))
		e := &worker.Eviction{
			Evacuated: func(context.Context) ([]gateway.Evacuated, error) { return left, nil },
			Evict: func(ctx context.Context, server compute.ServerID, _ time.Time) error {
				switch server {
				case left[0].Server:
					return errors.New("stuck")
				case left[1].Server:
					<-ctx.Done()
					return ctx.Err()
				}
				stopped <- server
				return nil
			},
		}
		next := &work{}
		_, err := e.InterceptActivity(t.Context(), next).ExecuteActivity(t.Context(), nil)
		require.ErrorContains(t, err, left[0].Server.String())
		require.ErrorContains(t, err, left[1].Server.String())
		require.Len(t, stopped, 1)
		require.Equal(t, left[2].Server, <-stopped)
		require.Zero(t, next.done)
	})
}

// A host whose guests cannot be stopped neither reports itself nor takes work.
func TestAHostThatCannotStopWhatLeftItTakesNoWork(t *testing.T) {
	t.Parallel()
	h := worker.Host{
		Name: "a", Gateway: leaving{},
		ShieldShares: func(context.Context) error { return nil },
		Evict:        func(context.Context, compute.ServerID, time.Time) error { return errors.New("libvirt is away") },
		Describe: func(context.Context) (gateway.HostReport, error) {
			require.Fail(t, "it reports itself")
			return gateway.HostReport{}, nil
		},
	}
	require.ErrorContains(t, h.Run(t.Context()), "may run here still: libvirt is away")
}

// leaving is a gateway that knows of a server that left the host.
type leaving struct{ worker.Gateway }

func (leaving) Evacuated(context.Context) ([]gateway.Evacuated, error) {
	return make([]gateway.Evacuated, 1), nil
}
