package tpm_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/tpm"
	"strongroom/compute"
)

func of(name string) compute.Removal {
	return compute.Removal{Thing: compute.Thing{Kind: compute.ThingTPMState, Name: name}}
}

func TestRemoveAndSeen(t *testing.T) {
	t.Parallel()
	a, err := tpm.New(tpm.Config{SwtpmDir: filepath.Join(t.TempDir(), "swtpm")})
	require.NoError(t, err)
	got, err := a.Seen(t.Context(), compute.SeenInput{})
	require.NoError(t, err, "no TPM was ever made here")
	require.Equal(t, compute.SeenResult{Looked: []string{compute.LookedAll}}, got)

	var states []compute.Seen
	for range 2 {
		name := uuid.NewString()
		state := filepath.Join(a.SwtpmDir, name, "tpm2")
		require.NoError(t, os.MkdirAll(state, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(state, "tpm2-00.permall"), []byte("state"), 0o600))
		states = append(states, compute.Seen{Kind: compute.ThingTPMState, Name: name})
	}
	require.NoError(t, os.Mkdir(filepath.Join(a.SwtpmDir, "lost+found"), 0o700))
	got, err = a.Seen(t.Context(), compute.SeenInput{})
	require.NoError(t, err)
	require.ElementsMatch(t, states, got.Seen)
	require.Equal(t, []string{compute.LookedAll}, got.Looked)

	for range 2 {
		require.NoError(t, a.Remove(t.Context(), of(states[0].Name)))
	}
	got, err = a.Seen(t.Context(), compute.SeenInput{})
	require.NoError(t, err)
	require.Equal(t, states[1:], got.Seen)
	for _, name := range []string{"", ".", "..", "lost+found", uuid.Nil.String(), "../" + states[1].Name} {
		require.True(t, compute.Is(a.Remove(t.Context(), of(name)), compute.Invalid), name)
	}
	wrong := of(states[1].Name)
	wrong.Thing.Kind = compute.ThingDomain
	require.True(t, compute.Is(a.Remove(t.Context(), wrong), compute.Invalid))
	require.DirExists(t, filepath.Join(a.SwtpmDir, "lost+found"))
	require.DirExists(t, filepath.Join(a.SwtpmDir, states[1].Name))

	_, err = tpm.New(tpm.Config{SwtpmDir: "swtpm"})
	require.Error(t, err)
}

func TestTroubleIsSaid(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	a, err := tpm.New(tpm.Config{SwtpmDir: file})
	require.NoError(t, err)
	_, err = a.Seen(t.Context(), compute.SeenInput{})
	require.True(t, compute.Is(err, compute.Unavailable), "%v", err)
	require.True(t, compute.Is(a.Remove(t.Context(), of(uuid.NewString())), compute.Unavailable))
}
