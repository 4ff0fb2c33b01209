package durable_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"

	"strongroom/compute"
	"strongroom/deploy/dev/temporal/temporaltest"
	"strongroom/durable"
)

// C1: each call of an activity that a control worker runs itself has an answer of its own.
// Who takes workflow tasks writes these answers into the history; an older one of the same
// run is not believed in the place of a newer.
func TestC1AnAnswerIsToOneLocalCall(t *testing.T) {
	t.Parallel()
	write := durable.Activity[string, string]{Name: "record.Write", Queue: durable.RecordQueue}
	asked := []string{"one", "two", "no one", "no two"}
	type end struct {
		result string
		err    error
	}
	var ends []end // of the last run or replay
	do := func(ctx workflow.Context) error {
		ends = nil
		for _, in := range asked {
			result, err := write.Run(ctx, in)
			ends = append(ends, end{result, err})
		}
		return nil
	}
	const name = "write"
	server := temporaltest.Start(t)
	c := temporaltest.Dial(t, server)
	w := worker.New(c, durable.ControlQueue, worker.Options{Interceptors: []interceptor.WorkerInterceptor{&durable.Boundary{}}})
	write.Register(w, func(_ context.Context, in string) (string, error) {
		if in[:2] == "no" {
			return "", compute.Errorf(compute.NotFound, "there is %s", in)
		}
		return "wrote " + in, nil
	})
	w.RegisterWorkflowWithOptions(do, workflow.RegisterOptions{Name: name})
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "server/1", TaskQueue: durable.ControlQueue}, name)
	require.NoError(t, err)
	require.NoError(t, run.Get(t.Context(), nil))

	var said historypb.History
	events := c.GetWorkflowHistory(t.Context(), run.GetID(), run.GetRunID(), false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		require.NoError(t, err)
		said.Events = append(said.Events, event)
	}
	replay := func(change func(markers []*historypb.MarkerRecordedEventAttributes)) []end {
		t.Helper()
		history := proto.CloneOf(&said)
		var markers []*historypb.MarkerRecordedEventAttributes
		for _, event := range history.Events {
			if m := event.GetMarkerRecordedEventAttributes(); m != nil {
				markers = append(markers, m)
			}
		}
		require.Len(t, markers, len(asked))
		change(markers)
		r, err := durable.NewAuthenticReplayer(temporaltest.Keys)
		require.NoError(t, err)
		r.RegisterWorkflowWithOptions(do, workflow.RegisterOptions{Name: name})
		require.NoError(t, r.ReplayWorkflowHistoryWithOptions(nil, history, worker.ReplayWorkflowHistoryOptions{
			OriginalExecution: workflow.Execution{ID: run.GetID(), RunID: run.GetRunID()},
		}))
		require.Len(t, ends, len(asked))
		return slices.Clone(ends)
	}
	believed := replay(func([]*historypb.MarkerRecordedEventAttributes) {})
	require.Equal(t, end{result: "wrote one"}, believed[0])
	require.Equal(t, end{result: "wrote two"}, believed[1])
	for _, i := range []int{2, 3} {
		require.Equal(t, compute.NotFound, compute.KindOf(durable.FromTemporal(believed[i].err)), "%v", believed[i].err)
	}
	const result = "result"
	for why, swapped := range map[string]struct {
		at     int
		change func(markers []*historypb.MarkerRecordedEventAttributes)
	}{
		"an older result":  {1, func(m []*historypb.MarkerRecordedEventAttributes) { m[1].Details[result] = m[0].Details[result] }},
		"an older failure": {3, func(m []*historypb.MarkerRecordedEventAttributes) { m[3].Failure = m[2].Failure }},
		"no result":        {1, func(m []*historypb.MarkerRecordedEventAttributes) { delete(m[1].Details, result) }},
	} {
		got := replay(swapped.change)
		for i := range got {
			if i != swapped.at {
				require.Equal(t, believed[i].result, got[i].result, why)
				continue
			}
			require.ErrorContains(t, got[i].err, "not authentic", why)
			require.Equal(t, compute.Unavailable, compute.KindOf(durable.FromTemporal(got[i].err)), why)
		}
	}
}
