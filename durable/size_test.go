package durable_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"strongroom/compute"
	"strongroom/deploy/dev/temporal/temporaltest"
	"strongroom/durable"
)

// K15: a step whose input or result is more than goes through Temporal fails at once, and the workflow goes on to its undo.
func TestK15AStepThatIsTooLargeFails(t *testing.T) {
	t.Parallel()
	c := temporaltest.Client(t)
	queue := uuid.NewString()
	step := durable.Activity[string, string]{Name: "step", Queue: queue}
	var tries, undone atomic.Int32
	w := worker.New(c, queue, worker.Options{Interceptors: []interceptor.WorkerInterceptor{&durable.Boundary{}}})
	step.Register(w, func(_ context.Context, in string) (string, error) {
		if in == "undo" {
			undone.Add(1)
			return in, nil
		}
		tries.Add(1)
		return in + in, nil
	})
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context, bytes int) error {
		err := step.Do(ctx, strings.Repeat("x", bytes))
		if err := step.Do(ctx, "undo"); err != nil {
			return err
		}
		return err
	}, workflow.RegisterOptions{Name: "steps"})
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, v := range []struct {
		bytes int
		tries int32
		want  string
	}{
		{durable.MostBytes/2 - 1, 1, ""}, // its result has two quotation marks
		{durable.MostBytes / 2, 1, "the result of step has 1025 KiB, and at most 1024 go through Temporal"},
		{durable.MostBytes, 0, "the input of step has 1025 KiB, and at most 1024 go through Temporal"},
		{4 << 20, 0, "the input of step has 4097 KiB, and at most 1024 go through Temporal"},
	} {
		tries.Store(0)
		undone.Store(0)
		run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: queue}, "steps", v.bytes)
		require.NoError(t, err)
		err = run.Get(ctx, nil)
		require.Equal(t, []int32{v.tries, 1}, []int32{tries.Load(), undone.Load()}, v.bytes)
		if v.want == "" {
			require.NoError(t, err)
			continue
		}
		got := durable.FromTemporal(err)
		require.Equal(t, compute.Invalid, got.Kind)
		require.Equal(t, v.want, got.Message)
	}
}
