package domain

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// An interface that a running guest gets is filtered as one that it was started with: it sends with the addresses of its port alone (H8).
func TestAnInterfaceOfARunningGuestIsFiltered(t *testing.T) {
	t.Parallel()
	a := &Activities{Config: Config{Filter: NoMACSpoofing}}
	in := InterfaceInput{Network: compute.Network{MAC: "fa:72:0a:00:00:02", Port: &compute.Port{
		ID: &compute.PortID{UUID: uuid.New()}, Type: compute.VIFBridge, Bridge: "sr-1", HostFilter: true, Addresses: []compute.PortAddress{{IP: "10.0.0.2"}},
	}}}
	filter := a.plugged(in).FilterRef
	require.NotNil(t, filter)
	require.Equal(t, CleanTraffic, filter.Filter)
	require.Len(t, filter.Parameters, 1)
	require.Equal(t, "10.0.0.2", filter.Parameters[0].Value)

	in.Network.Port.HostFilter = false
	require.Nil(t, a.plugged(in).FilterRef, "its service filters")
}
