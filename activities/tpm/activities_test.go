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

func TestDeleteAndInventory(t *testing.T) {
	t.Parallel()
	a, err := tpm.New(filepath.Join(t.TempDir(), "swtpm"))
	require.NoError(t, err)
	got, err := a.Inventory(t.Context())
	require.NoError(t, err, "no TPM was ever made here")
	require.Empty(t, got.Servers)

	var servers []compute.ServerID
	for range 2 {
		s := compute.ServerID{UUID: uuid.New()}
		state := filepath.Join(a.SwtpmDir, s.String(), "tpm2")
		require.NoError(t, os.MkdirAll(state, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(state, "tpm2-00.permall"), []byte("state"), 0o600))
		servers = append(servers, s)
	}
	require.NoError(t, os.Mkdir(filepath.Join(a.SwtpmDir, "lost+found"), 0o700))
	got, err = a.Inventory(t.Context())
	require.NoError(t, err)
	require.ElementsMatch(t, []string{servers[0].String(), servers[1].String()}, got.Servers)

	for range 2 {
		require.NoError(t, a.Delete(t.Context(), tpm.DeleteInput{Server: servers[0]}))
	}
	got, err = a.Inventory(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{servers[1].String()}, got.Servers)
	require.True(t, compute.Is(a.Delete(t.Context(), tpm.DeleteInput{}), compute.Invalid))
	require.DirExists(t, filepath.Join(a.SwtpmDir, "lost+found"))

	_, err = tpm.New("swtpm")
	require.Error(t, err)
}

func TestTroubleIsSaid(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	a, err := tpm.New(file)
	require.NoError(t, err)
	_, err = a.Inventory(t.Context())
	require.True(t, compute.Is(err, compute.Unavailable), "%v", err)
	require.True(t, compute.Is(a.Delete(t.Context(), tpm.DeleteInput{Server: compute.ServerID{UUID: uuid.New()}}), compute.Unavailable))
}
