package domain_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"libvirt.org/go/libvirtxml"

	"strongroom/activities/domain"
	"strongroom/activities/tpm"
	"strongroom/compute"
)

func TestHungLibvirtdIsLeft(t *testing.T) {
	t.Parallel()
	h := setup(t, idle)
	s := h.server(t, false, nil)
	require.NoError(t, h.daemon.Signal(syscall.SIGSTOP))
	calls := map[string]func(context.Context) error{
		"start":  func(ctx context.Context) error { _, err := h.Start(ctx, domain.StartInput{Server: s}); return err },
		"stop":   func(ctx context.Context) error { _, err := h.Stop(ctx, domain.StopInput{Server: s.ID}); return err },
		"remove": func(ctx context.Context) error { return h.Remove(ctx, ofDomain(s.ID)) },
		"seen": func(ctx context.Context) error {
			_, err := h.Seen(ctx, compute.SeenInput{})
			return err
		},
	}
	for name, call := range calls {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		require.ErrorIs(t, call(ctx), context.Canceled, name)
	}
	impatient := *h.Client
	impatient.Timeout = 100 * time.Millisecond
	_, err := impatient.Power(t.Context(), s.ID)
	require.Equal(t, compute.Unavailable, compute.KindOf(err), "%v", err)
	require.NoError(t, h.daemon.Signal(syscall.SIGCONT))
	for name, call := range calls {
		if name != "start" {
			require.NoError(t, call(t.Context()), name)
		}
	}
}

func TestStartFindsWhatAKilledOneLeft(t *testing.T) {
	t.Parallel()
	h := setup(t, idle)
	s := h.server(t, false, &compute.TPM{Version: compute.TPM20, Model: compute.TPMCRB})
	h.disksOf(t, s)
	leave := func(name string, id uuid.UUID) {
		x := libvirtxml.Secret{Ephemeral: "yes", Private: "yes", UUID: id.String(), Usage: &libvirtxml.SecretUsage{Type: "vtpm", Name: name}}
		doc, err := x.Marshal()
		require.NoError(t, err)
		require.NoError(t, h.Client.Do(t.Context(), func(l *libvirt.Libvirt) error { _, err := l.SecretDefineXML(doc, 0); return err }))
	}
	leave(s.ID.String(), uuid.New())           // the same use under another id
	leave("something else", s.TPM.Secret.UUID) // the same id in another use
	other := uuid.NewString()
	leave(other, uuid.New())
	leave("not a server's", uuid.New())
	_, err := h.Start(t.Context(), domain.StartInput{Server: s})
	require.NoError(t, err)
	var names []string
	for _, left := range h.secrets(t) {
		names = append(names, left.UsageID)
	}
	require.ElementsMatch(t, []string{other, "not a server's"}, names, "others' secrets are none of its business")
	seen := h.seen(t)
	require.Len(t, seen, 2)
	require.Equal(t, compute.Seen{Kind: compute.ThingDomain, Name: s.InstanceName()}, seen[0])
	require.Equal(t, compute.ThingHypervisorSecret, seen[1].Kind, "the other server's")

	leave(s.ID.String(), s.TPM.Secret.UUID)
	for range 2 {
		require.NoError(t, h.Remove(t.Context(), ofSecret(s.ID, *s.TPM.Secret)))
	}
	require.Len(t, h.secrets(t), 2)
}

func TestKilledLibvirtdIsFoundAgain(t *testing.T) {
	t.Parallel()
	h := setup(t, idle)
	s := h.server(t, false, &compute.TPM{Version: compute.TPM20, Model: compute.TPMCRB})
	h.disksOf(t, s)
	done := make(chan error, 1)
	go func() {
		_, err := h.Start(t.Context(), domain.StartInput{Server: s})
		done <- err
	}()
	require.Eventually(t, func() bool { // it is in the middle of the start
		_, err := os.Stat(filepath.Join(h.daemon.SwtpmDir(), s.ID.String()))
		return err == nil
	}, time.Minute, time.Millisecond)
	require.NoError(t, h.daemon.Kill(t.Context()))
	err := <-done
	require.Equal(t, compute.Unavailable, compute.KindOf(err), "%v", err)
	require.NoError(t, h.daemon.Restart(t.Context()))
	got, err := h.Start(t.Context(), domain.StartInput{Server: s, NewTPM: true})
	require.NoError(t, err)
	require.Equal(t, compute.PowerRunning, got.PowerState)
	require.Equal(t, 1, qemus(t, s))
	require.Empty(t, h.secrets(t))

	require.NoError(t, h.daemon.Kill(t.Context()))
	require.NoError(t, h.daemon.Restart(t.Context()))
	state, err := h.Client.Power(t.Context(), s.ID)
	require.NoError(t, err)
	require.Equal(t, compute.PowerRunning, state, "the guest outlived libvirtd")
	require.NoError(t, h.Remove(t.Context(), ofDomain(s.ID)))
	require.Zero(t, qemus(t, s))
}

// State of a vTPM that no guest has used is made anew where it does not open: libvirt
// takes for whole what a setup left that was killed. What a guest has used is kept. A start
// that fails leaves libvirt no secret, as one that does not (TPM-11).
func TestStartMakesANewTPMAnew(t *testing.T) {
	t.Parallel()
	h := setup(t, idle)
	s := h.server(t, false, &compute.TPM{Version: compute.TPM20, Model: compute.TPMCRB})
	h.disksOf(t, s)
	_, err := h.Start(t.Context(), domain.StartInput{Server: s, NewTPM: true})
	require.NoError(t, err)
	whole := func() (file string, state []byte) {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(h.daemon.SwtpmDir(), s.ID.String(), "*", "*permall"))
		require.NoError(t, err)
		require.Len(t, found, 1)
		state, err = os.ReadFile(found[0])
		require.NoError(t, err)
		return found[0], state
	}
	_, err = h.Stop(t.Context(), domain.StopInput{Server: s.ID})
	require.NoError(t, err)
	file, state := whole()
	_, err = h.Start(t.Context(), domain.StartInput{Server: s, NewTPM: true})
	require.NoError(t, err)
	_, err = h.Stop(t.Context(), domain.StopInput{Server: s.ID})
	require.NoError(t, err)
	_, now := whole()
	require.Len(t, now, len(state), "it opens, and stays")

	require.NoError(t, os.Truncate(file, 100))
	_, err = h.Start(t.Context(), domain.StartInput{Server: s})
	require.Equal(t, compute.Corrupt, compute.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "is damaged", "K20")
	require.Empty(t, h.secrets(t))
	_, now = whole()
	require.Len(t, now, 100, "and is left alone")
	got, err := h.Start(t.Context(), domain.StartInput{Server: s, NewTPM: true})
	require.NoError(t, err)
	require.Equal(t, compute.PowerRunning, got.PowerState)
	require.Empty(t, h.secrets(t))
	_, now = whole()
	require.Len(t, now, len(state))
}

// K20: where the state of a vTPM that the server had is gone, or has a link in it (S3), the server is not started: libvirt would make a new one, and
// what the guest has sealed would be lost. It starts once the state is back, and where the operation makes a new one.
func TestK20NoOtherTPMTakesThePlaceOfALostOne(t *testing.T) {
	t.Parallel()
	h := setup(t, idle)
	tpms, err := tpm.New(tpm.Config{SwtpmDir: h.daemon.SwtpmDir()})
	require.NoError(t, err)
	h.TPMs = tpms
	s := h.server(t, false, &compute.TPM{Version: compute.TPM20, Model: compute.TPMCRB})
	h.disksOf(t, s)
	start := func(isNew bool) error {
		_, err := h.Start(t.Context(), domain.StartInput{Server: s, NewTPM: isNew, Operation: "req-1", Began: time.Now()})
		return err
	}
	require.NoError(t, start(true))
	_, err = h.Stop(t.Context(), domain.StopInput{Server: s.ID})
	require.NoError(t, err)
	dir := filepath.Join(h.daemon.SwtpmDir(), s.ID.String())
	refused := func(why string) {
		t.Helper()
		err := start(false)
		require.Equal(t, compute.Corrupt, compute.KindOf(err), "%v", err)
		require.ErrorContains(t, err, why)
		state, err := h.Client.Power(t.Context(), s.ID)
		require.NoError(t, err)
		require.NotEqual(t, compute.PowerRunning, state)
		require.Empty(t, h.secrets(t))
	}
	away := filepath.Join(t.TempDir(), "away")
	require.NoError(t, os.Rename(dir, away))
	refused("its TPM state is not on this host")
	require.NoDirExists(t, dir, "and none is made")
	require.NoError(t, os.Rename(away, dir))
	link := filepath.Join(dir, "tpm2", "more")
	require.NoError(t, os.Symlink(away, link))
	refused("is no file")
	require.NoError(t, os.Remove(link))
	require.NoError(t, start(false))
	_, err = h.Stop(t.Context(), domain.StopInput{Server: s.ID})
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, start(true))
}

func TestDestroyAfterACancelledStart(t *testing.T) {
	t.Parallel()
	h := setup(t, idle)
	s := h.server(t, true, &compute.TPM{Version: compute.TPM20, Model: compute.TPMCRB})
	h.disksOf(t, s)
	for range 6 {
		ctx, cancel := context.WithCancel(t.Context())
		stop := time.AfterFunc(time.Duration(rand.IntN(1500))*time.Millisecond, cancel)
		_, err := h.Start(ctx, domain.StartInput{Server: s})
		if err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
		stop.Stop()
		cancel()
		require.NoError(t, h.Remove(t.Context(), ofDomain(s.ID)))
		require.Zero(t, qemus(t, s))
		require.Empty(t, h.secrets(t))
		require.Empty(t, h.seen(t))
		h.removeTPM(t, s)
	}
}
