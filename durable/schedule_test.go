package durable_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"strongroom/deploy/dev/temporal/temporaltest"
	"strongroom/durable"
)

// A schedule that an earlier release created is what this one wants after its start.
func TestA11ScheduleIsUpdated(t *testing.T) {
	t.Parallel()
	schedules := temporaltest.Client(t).ScheduleClient()
	wanted := func(every time.Duration, workflow, queue string) client.ScheduleOptions {
		return client.ScheduleOptions{
			ID: "sweep", Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_SKIP,
			Spec:   client.ScheduleSpec{Intervals: []client.ScheduleIntervalSpec{{Every: every}}},
			Action: &client.ScheduleWorkflowAction{ID: workflow, Workflow: workflow, TaskQueue: queue},
		}
	}
	require.NoError(t, durable.EnsureSchedule(t.Context(), schedules, wanted(time.Hour, "old", "nowhere")))
	handle := schedules.GetHandle(t.Context(), "sweep")
	require.NoError(t, handle.Pause(t.Context(), client.SchedulePauseOptions{Note: "by the operator"}))

	errs := make(chan error)
	for range 3 {
		go func() {
			errs <- durable.EnsureSchedule(t.Context(), schedules, wanted(2*time.Hour, "new", durable.ControlQueue))
		}()
	}
	for range 3 {
		require.NoError(t, <-errs)
	}
	found, err := handle.Describe(t.Context())
	require.NoError(t, err)
	require.Equal(t, []client.ScheduleIntervalSpec{{Every: 2 * time.Hour}}, found.Schedule.Spec.Intervals)
	action, ok := found.Schedule.Action.(*client.ScheduleWorkflowAction)
	require.True(t, ok)
	require.Equal(t, "new", action.Workflow)
	require.Equal(t, durable.ControlQueue, action.TaskQueue)
	require.Equal(t, enumspb.SCHEDULE_OVERLAP_POLICY_SKIP, found.Schedule.Policy.Overlap)
	require.True(t, found.Schedule.State.Paused, "what the operator paused stays paused")
}
