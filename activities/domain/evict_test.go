package domain_test

import (
	"testing"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/stretchr/testify/require"

	"strongroom/activities/domain"
	"strongroom/compute"
)

// The guest of a server that left the host is stopped, again and again, and its domain stays. One
// that an operation started which began after that is left alone.
func TestEvict(t *testing.T) {
	t.Parallel()
	h := setup(t, idle)
	s := h.server(t, false, nil)
	h.disksOf(t, s)
	left := time.Now()
	require.NoError(t, h.Evict(t.Context(), s.ID, left), "it has no domain")
	start := func(began time.Time) {
		_, err := h.Start(t.Context(), domain.StartInput{Server: s, Operation: compute.NewOperationID(), Began: began})
		require.NoError(t, err)
	}
	power := func() compute.PowerState {
		state, err := h.Client.Power(t.Context(), s.ID)
		require.NoError(t, err)
		return state
	}
	start(left.Add(-time.Hour))
	require.Equal(t, compute.PowerRunning, power())
	for range 2 {
		require.NoError(t, h.Evict(t.Context(), s.ID, left))
		require.Equal(t, compute.PowerShutdown, power())
	}
	start(left.Add(time.Second))
	require.NoError(t, h.Evict(t.Context(), s.ID, left))
	require.Equal(t, compute.PowerRunning, power(), "it came back")
}

// libvirt starts no server with its host.
func TestNoAutostart(t *testing.T) {
	t.Parallel()
	h := setup(t, idle)
	s := h.server(t, false, nil)
	h.disksOf(t, s)
	_, err := h.Start(t.Context(), domain.StartInput{Server: s})
	require.NoError(t, err)
	dom := libvirt.Domain{UUID: libvirt.UUID(s.ID.UUID)}
	autostart := func(set int32) (is int32) {
		require.NoError(t, h.Client.Do(t.Context(), func(l *libvirt.Libvirt) (err error) {
			if set != 0 {
				if err = l.DomainSetAutostart(dom, set); err != nil {
					return err
				}
			}
			is, err = l.DomainGetAutostart(dom)
			return err
		}))
		return is
	}
	require.EqualValues(t, 1, autostart(1))
	for range 2 {
		require.NoError(t, h.NoAutostart(t.Context()))
		require.Zero(t, autostart(0))
	}
}
