package domain_test

import (
	"log/slog"
	"syscall"
	"testing"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/domain"
	"strongroom/compute"
)

// A watchdog stops a host's guests, those that are paused among them, also where libvirtd is dead or
// hangs. Domains that are not strongroom's are left alone, and its own can be started again.
func TestStopAll(t *testing.T) {
	t.Parallel()
	h := setup(t, idle)
	runs, paused := h.server(t, false, nil), h.server(t, false, nil)
	h.disksOf(t, runs)
	h.disksOf(t, paused)
	begin := func() {
		for _, s := range []compute.Server{runs, paused} {
			_, err := h.Start(t.Context(), domain.StartInput{Server: s})
			require.NoError(t, err)
			require.Equal(t, 1, qemus(t, s))
		}
		require.NoError(t, h.Pause(t.Context(), domain.PauseInput{Server: paused.ID}))
	}
	client := &domain.Client{Socket: h.Client.Socket, Timeout: time.Minute}
	stop := func() error { return domain.StopAll(t.Context(), client, slog.New(slog.DiscardHandler)) }
	off := func() {
		t.Helper()
		require.Eventually(t, func() bool { return qemus(t, runs)+qemus(t, paused) == 0 }, time.Minute, 20*time.Millisecond)
	}
	shut := func() {
		t.Helper()
		require.Eventually(t, func() bool {
			a, err := h.Client.Power(t.Context(), runs.ID)
			require.NoError(t, err)
			b, err := h.Client.Power(t.Context(), paused.ID)
			require.NoError(t, err)
			return a == compute.PowerShutdown && b == compute.PowerShutdown
		}, time.Minute, 20*time.Millisecond)
	}
	require.NoError(t, stop(), "there is none")
	other := libvirt.Domain{Name: "somebody's", UUID: libvirt.UUID(uuid.New())}
	require.NoError(t, h.Client.Do(t.Context(), func(l *libvirt.Libvirt) (err error) {
		other, err = l.DomainCreateXML(`<domain type='qemu'><name>somebodys</name><memory unit='MiB'>32</memory>
			<os><type arch='x86_64' machine='q35'>hvm</type></os></domain>`, 0)
		return err
	}))
	begin()
	for range 2 {
		require.NoError(t, stop())
		off()
		shut()
	}

	begin()
	client.Timeout = time.Second
	require.NoError(t, h.daemon.Signal(syscall.SIGSTOP))
	require.NoError(t, stop())
	off()
	require.NoError(t, h.daemon.Signal(syscall.SIGCONT))
	shut()

	begin()
	require.NoError(t, h.daemon.Kill(t.Context()))
	require.NoError(t, stop())
	off()
	require.Error(t, stop(), "whether any runs of which no file tells is not known")
	require.NoError(t, h.daemon.Restart(t.Context()))
	shut()
	require.NoError(t, h.Client.Do(t.Context(), func(l *libvirt.Libvirt) error {
		state, _, err := l.DomainGetState(other, 0)
		require.Equal(t, libvirt.DomainRunning, libvirt.DomainState(state))
		return err
	}))
}
