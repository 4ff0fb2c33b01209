package domain_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"strongroom/activities/domain"
	"strongroom/compute"
)

// What libvirt counts of a machine that runs, and of one that is paused; one that is off counts nothing.
func TestDiagnose(t *testing.T) {
	t.Parallel()
	h := setup(t, idle)
	s := h.server(t, false, nil)
	h.disksOf(t, s)
	_, err := h.Diagnose(t.Context(), s.ID)
	require.Equal(t, compute.NotFound, compute.KindOf(err), "%v", err)
	_, err = h.Start(t.Context(), domain.StartInput{Server: s})
	require.NoError(t, err)
	var got compute.Diagnostics
	require.EventuallyWithT(t, func(c *assert.CollectT) { // one that has only just begun has used and read nothing yet
		var err error
		got, err = h.Diagnose(t.Context(), s.ID)
		require.NoError(c, err)
		require.Len(c, got.CPUTimes, s.Flavor.VCPUs)
		require.Positive(c, got.CPUTimes[0])
		require.Len(c, got.Disks, len(s.Disks))
		require.Positive(c, got.Disks[0].ReadBytes)
	}, time.Minute, 100*time.Millisecond)
	require.Equal(t, compute.PowerRunning, got.State)
	require.Contains(t, []string{"kvm", "qemu"}, got.Hypervisor)
	require.Equal(t, s.Disks[0].DeviceName, "/dev/"+got.Disks[0].Name)
	require.EqualValues(t, s.Flavor.MemoryMB<<10, got.MemoryKB)
	require.NoError(t, h.Pause(t.Context(), domain.PauseInput{Server: s.ID}))
	got, err = h.Diagnose(t.Context(), s.ID)
	require.NoError(t, err)
	require.Equal(t, compute.PowerPaused, got.State)
}
