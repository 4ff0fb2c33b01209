package domain_test

import (
	"testing"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/stretchr/testify/require"

	"strongroom/activities/domain"
	"strongroom/compute"
)

// A domain that somebody at the host paused is neither off nor running.
func TestPowerStates(t *testing.T) {
	t.Parallel()
	h := setup(t, idle)
	s, off := h.server(t, false, nil), h.server(t, false, nil)
	h.disksOf(t, s)
	h.disksOf(t, off)
	requireStates := func(want map[compute.ServerID]compute.PowerState) {
		t.Helper()
		got, err := h.PowerStates(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, in := range []compute.Server{s, off} {
		_, err := h.Start(t.Context(), domain.StartInput{Server: in})
		require.NoError(t, err)
	}
	_, err := h.Stop(t.Context(), domain.StopInput{Server: off.ID})
	require.NoError(t, err)
	requireStates(map[compute.ServerID]compute.PowerState{s.ID: compute.PowerRunning})
	require.Equal(t, compute.Conflict, compute.KindOf(h.IsOff(t.Context(), s.ID)))
	require.NoError(t, h.IsOff(t.Context(), off.ID))
	h.does(t, s, (*libvirt.Libvirt).DomainSuspend)
	requireStates(map[compute.ServerID]compute.PowerState{s.ID: compute.PowerPaused})
	h.does(t, s, (*libvirt.Libvirt).DomainResume)
	requireStates(map[compute.ServerID]compute.PowerState{s.ID: compute.PowerRunning})
	_, err = h.Stop(t.Context(), domain.StopInput{Server: s.ID})
	require.NoError(t, err)
	requireStates(map[compute.ServerID]compute.PowerState{})
}

// does does something to a server's domain, past its activities.
func (h *host) does(t *testing.T, s compute.Server, do func(*libvirt.Libvirt, libvirt.Domain) error) {
	t.Helper()
	require.NoError(t, h.Client.Do(t.Context(), func(l *libvirt.Libvirt) error {
		return do(l, libvirt.Domain{Name: s.InstanceName(), UUID: libvirt.UUID(s.ID.UUID)})
	}))
}
