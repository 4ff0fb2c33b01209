package domain_test

import (
	"testing"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/domain"
	"strongroom/compute"
)

// keeps gives the passphrases that a host keeps of a server, by secret.
func (h *host) keeps(t *testing.T, server compute.ServerID) map[compute.SecretID]string {
	t.Helper()
	ids, err := h.KeptOf(t.Context(), server)
	require.NoError(t, err)
	out := map[compute.SecretID]string{}
	for _, id := range ids {
		p, err := h.kept.Passphrase(server, id)
		require.NoError(t, err)
		require.NoError(t, p.Use(func(v []byte) error { out[id] = string(v); return nil }))
		p.Wipe()
	}
	return out
}

func keeping(t *testing.T) *host {
	t.Helper()
	h := setup(t, idle)
	if h.kept == nil {
		t.Skip("needs the kernel's keyring")
	}
	return h
}

// TPM-20: a host keeps the keys of a guest from its start to its end, whoever ends it, and also while it is
// paused and over a restart of the worker. It says which, and that it does not keep others.
func TestKeysAreKeptWhileTheGuestRuns(t *testing.T) {
	t.Parallel()
	h := keeping(t)
	s := h.server(t, true, &compute.TPM{Version: compute.TPM20, Model: compute.TPMTIS})
	h.disksOf(t, s)
	start := func() {
		t.Helper()
		_, err := h.Start(t.Context(), domain.StartInput{Server: s})
		require.NoError(t, err)
		require.Equal(t, h.keys.values, h.keeps(t, s.ID))
	}
	has := func(ids ...compute.SecretID) error {
		return h.Keeps(t.Context(), domain.KeepsInput{Server: s.ID, Part: compute.KeyOfTPM, Secrets: ids})
	}
	require.Equal(t, compute.Conflict, compute.KindOf(has(s.Secrets()...)), "it does not run")
	start()
	require.NoError(t, has(s.Secrets()...))
	require.Equal(t, compute.Conflict, compute.KindOf(has(compute.SecretID{UUID: uuid.New()})))
	require.NoError(t, h.Pause(t.Context(), domain.PauseInput{Server: s.ID}))
	require.NoError(t, h.CloseIdle(t.Context()))
	require.Equal(t, h.keys.values, h.keeps(t, s.ID), "it is paused")
	require.NoError(t, h.Unpause(t.Context(), domain.PauseInput{Server: s.ID}))

	ends := map[string]func() error{
		"stop": func() error { _, err := h.Stop(t.Context(), domain.StopInput{Server: s.ID}); return err },
		"by itself": func() error {
			if err := h.Client.Do(t.Context(), func(l *libvirt.Libvirt) error {
				return l.DomainDestroy(libvirt.Domain{UUID: libvirt.UUID(s.ID.UUID)})
			}); err != nil {
				return err
			}
			return h.CloseIdle(t.Context())
		},
		"evacuated": func() error { return h.Evict(t.Context(), s.ID, time.Now().Add(time.Hour)) },
		"removed":   func() error { return h.Remove(t.Context(), ofDomain(s.ID)) },
	}
	for _, how := range []string{"stop", "by itself", "evacuated", "removed"} {
		require.NoError(t, ends[how](), how)
		require.Empty(t, h.keeps(t, s.ID), how)
		start()
	}
	_, err := h.Stop(t.Context(), domain.StopInput{Server: s.ID})
	require.NoError(t, err)

	// One that does not start: its root disk does not open.
	h.keys.change(t, *s.Disks[0].Secret, compute.DiskPassphraseBytes)
	_, err = h.Start(t.Context(), domain.StartInput{Server: s})
	require.Equal(t, compute.Corrupt, compute.KindOf(err), "%v", err)
	require.Empty(t, h.keeps(t, s.ID))
}

// EE-30: a host that is to keep no keys of disks keeps that of the vTPM alone, also in the place of an earlier start's, and says so.
func TestEE30TheKeysOfDisksAreNotKept(t *testing.T) {
	t.Parallel()
	h := keeping(t)
	s := h.server(t, true, &compute.TPM{Version: compute.TPM20, Model: compute.TPMTIS})
	h.disksOf(t, s)
	for _, all := range []bool{true, false} {
		h.KeepsDisks = all
		_, err := h.Start(t.Context(), domain.StartInput{Server: s})
		require.NoError(t, err)
		kept := h.keeps(t, s.ID)
		require.Contains(t, kept, *s.TPM.Secret)
		require.Equal(t, all, len(kept) > 1)
		for _, p := range s.OpeningParts() {
			err := h.Keeps(t.Context(), domain.KeepsInput{Server: s.ID, Part: p.Part, Secrets: p.Secrets})
			if all || p.Part == compute.KeyOfTPM {
				require.NoError(t, err)
			} else {
				require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
			}
		}
		_, err = h.Stop(t.Context(), domain.StopInput{Server: s.ID})
		require.NoError(t, err)
		require.Empty(t, h.keeps(t, s.ID))
	}
}

// A host that keeps no keys starts guests, and says that it keeps none.
func TestAHostThatKeepsNoKeys(t *testing.T) {
	t.Parallel()
	h := setup(t, idle)
	h.Kept = nil
	s := h.server(t, true, nil)
	h.disksOf(t, s)
	_, err := h.Start(t.Context(), domain.StartInput{Server: s})
	require.NoError(t, err)
	require.NoError(t, h.CloseIdle(t.Context()))
	require.Equal(t, compute.Forbidden, compute.KindOf(h.Activities.Keeps(t.Context(), domain.KeepsInput{Server: s.ID, Part: compute.KeysOfDisks, Secrets: s.Secrets()})))
}
