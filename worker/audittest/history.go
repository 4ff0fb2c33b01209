package audittest

import (
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/proxy"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/proto"
)

// Histories is what an audit cost Temporal, over all runs that went on one after another.
type Histories struct {
	Runs    int
	Bytes   int // of all
	Largest int // history
	Payload int // the largest
}

// Measure reads the histories of all runs of a workflow from its first on.
func Measure(t testing.TB, c client.Client, workflow, run string) Histories {
	t.Helper()
	var out Histories
	for run != "" {
		out.Runs++
		size, next := 0, ""
		events := c.GetWorkflowHistory(t.Context(), workflow, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			event, err := events.Next()
			require.NoError(t, err)
			size += proto.Size(event)
			out.Payload = max(out.Payload, largestPayload(t, event))
			if on := event.GetWorkflowExecutionContinuedAsNewEventAttributes(); on != nil {
				next = on.GetNewExecutionRunId()
			}
		}
		out.Bytes, out.Largest = out.Bytes+size, max(out.Largest, size)
		run = next
	}
	return out
}

func largestPayload(t testing.TB, event *historypb.HistoryEvent) (size int) {
	t.Helper()
	require.NoError(t, proxy.VisitPayloads(t.Context(), event, proxy.VisitPayloadsOptions{
		Visitor: func(_ *proxy.VisitPayloadsContext, all []*commonpb.Payload) ([]*commonpb.Payload, error) {
			for _, p := range all {
				size = max(size, proto.Size(p))
			}
			return all, nil
		},
	}))
	return size
}
