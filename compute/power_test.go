package compute_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

func TestFound(t *testing.T) {
	t.Parallel()
	for power, want := range map[compute.PowerState]struct {
		vm    compute.VMState
		power compute.PowerState
	}{
		compute.PowerRunning:  {compute.VMActive, compute.PowerRunning},
		compute.PowerPaused:   {compute.VMPaused, compute.PowerPaused},
		compute.PowerNone:     {compute.VMStopped, compute.PowerShutdown},
		compute.PowerShutdown: {compute.VMStopped, compute.PowerShutdown},
		compute.PowerCrashed:  {compute.VMStopped, compute.PowerShutdown},
	} {
		for _, was := range []compute.VMState{compute.VMActive, compute.VMPaused, compute.VMStopped} {
			vm, found := compute.Found(was, power)
			require.Equal(t, want.vm, vm, "%s, %d", was, power)
			require.Equal(t, want.power, found, "%s, %d", was, power)
		}
		vm, found := compute.Found(compute.VMRescued, power)
		require.Equal(t, compute.VMRescued, vm, power)
		require.Equal(t, want.power, found, power)
		if want.vm == compute.VMStopped { // libvirt has its memory
			want.vm = compute.VMSuspended
		}
		vm, found = compute.Found(compute.VMSuspended, power)
		require.Equal(t, want.vm, vm, power)
		require.Equal(t, want.power, found, power)
	}
}
