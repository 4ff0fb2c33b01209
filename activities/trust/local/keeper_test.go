package local_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/trust"
	"strongroom/activities/trust/local"
	"strongroom/activities/trust/trusttest"
	"strongroom/compute"
)

func open(t *testing.T, dir string) *local.Keeper {
	t.Helper()
	k, err := local.Open(dir)
	require.NoError(t, err)
	return k
}

func TestConformance(t *testing.T) {
	t.Parallel()
	trusttest.Run(t, func(t *testing.T) trusttest.Harness {
		dir := t.TempDir()
		return trusttest.Harness{
			Keeper: open(t, dir), Again: open(t, dir),
			Owner: compute.Credential{ProjectID: "p1", UserID: "u1"}, Other: compute.Credential{ProjectID: "p2", UserID: "u2"},
		}
	})
}

func TestADamagedFileIsSaidToBe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k := open(t, dir)
	id, err := k.Create(t.Context(), trust.CreateInput{Credential: compute.Credential{ProjectID: "p", UserID: "u"}, Name: "x"})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, id+".json"), []byte("{}"), 0o600))
	_, err = k.List(t.Context(), trust.ListInput{})
	require.Equal(t, compute.Corrupt, compute.KindOf(err), "%v", err)
}
