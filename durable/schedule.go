package durable

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
)

// EnsureSchedule makes a schedule what want says: it creates it, or changes the one
// that an earlier release created. That an operator paused it stays. Several
// processes may do this at once.
func EnsureSchedule(ctx context.Context, schedules client.ScheduleClient, want client.ScheduleOptions) error {
	_, err := schedules.Create(ctx, want)
	if errors.Is(err, temporal.ErrScheduleAlreadyRunning) {
		err = schedules.GetHandle(ctx, want.ID).Update(ctx, client.ScheduleUpdateOptions{
			DoUpdate: func(found client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
				return &client.ScheduleUpdate{Schedule: &client.Schedule{
					Spec: &want.Spec, Action: want.Action, State: found.Description.Schedule.State,
					Policy: &client.SchedulePolicies{Overlap: want.Overlap, CatchupWindow: want.CatchupWindow, PauseOnFailure: want.PauseOnFailure},
				}}, nil
			},
		})
	}
	if err != nil {
		return fmt.Errorf("scheduling %q: %w", want.ID, err)
	}
	return nil
}
