package main

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/notification"
)

// notify_on_state_change has Nova's values, and no other.
func TestSH24WhichChangesAreToldIsChecked(t *testing.T) {
	t.Parallel()
	for value, ok := range map[string]bool{"": true, "vm_state": true, "vm_and_task_state": true, "task_state": false, "None": false} {
		cfg := defaults()
		cfg.Notifications.URL, cfg.Notifications.NotifyOnStateChange = "amqp://rabbit.example.org/", value
		writer, _, err := (&backends{Config: cfg}).notifications(slog.New(slog.DiscardHandler))
		if !ok {
			require.ErrorContains(t, err, "notifications.notify_on_state_change", value)
			continue
		}
		require.NoError(t, err, value)
		require.Equal(t, notification.StateChange(value), writer.StateChange)
	}
}
