package domain_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/domain"
	"strongroom/compute"
)

// Each may run twice, also at once, and finds what is done; what is off is a conflict.
func TestPause(t *testing.T) {
	t.Parallel()
	h := setup(t, idle)
	s := h.server(t, false, nil)
	h.disksOf(t, s)
	in := domain.PauseInput{Server: s.ID}
	conflicts := func(state string) {
		t.Helper()
		for _, err := range []error{h.Pause(t.Context(), in), h.Unpause(t.Context(), in)} {
			require.Equal(t, compute.Conflict, compute.KindOf(err), "%s: %v", state, err)
			require.ErrorContains(t, err, "its machine neither runs nor is paused")
		}
	}
	conflicts("not there")
	_, err := h.Start(t.Context(), domain.StartInput{Server: s})
	require.NoError(t, err)
	for range 2 {
		for _, step := range []struct {
			does  func() error
			power compute.PowerState
		}{
			{func() error { return h.Unpause(t.Context(), in) }, compute.PowerRunning},
			{func() error { return h.Pause(t.Context(), in) }, compute.PowerPaused},
			{func() error { return h.Unpause(t.Context(), in) }, compute.PowerRunning},
		} {
			var both sync.WaitGroup // an attempt that timed out and its successor
			for range 2 {
				both.Go(func() { require.NoError(t, step.does()) })
			}
			both.Wait()
			state, err := h.Client.Power(t.Context(), s.ID)
			require.NoError(t, err)
			require.Equal(t, step.power, state)
		}
	}
	require.NoError(t, h.Pause(t.Context(), in))
	begun, err := h.Stop(t.Context(), domain.StopInput{Server: s.ID, GraceSeconds: 600})
	require.NoError(t, err, "a paused guest does not notice its power button")
	require.Equal(t, compute.PowerShutdown, begun.PowerState)
	conflicts("off")

	_, err = h.Start(t.Context(), domain.StartInput{Server: s})
	require.NoError(t, err)
	require.NoError(t, h.Pause(t.Context(), in))
	require.NoError(t, h.Remove(t.Context(), ofDomain(s.ID)))
	require.Zero(t, qemus(t, s))
	conflicts("gone")
}
