package local_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/object"
	"strongroom/activities/object/local"
	"strongroom/activities/object/objecttest"
	"strongroom/compute"
)

func open(t *testing.T, dir string) *object.Segmented {
	t.Helper()
	s, err := local.Open(dir)
	require.NoError(t, err)
	return s
}

func TestConformance(t *testing.T) {
	t.Parallel()
	objecttest.Run(t, func(t *testing.T) objecttest.Harness {
		dir := t.TempDir()
		one := open(t, dir)
		return objecttest.Harness{
			Store: one, Again: open(t, dir), Blobs: one.Blobs,
			Owner: compute.Credential{ProjectID: "p1"}, Other: compute.Credential{ProjectID: "p2"},
		}
	})
}

func TestAProjectIsNoPath(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	for _, project := range []string{"..", ".", "a/b", "../a"} {
		_, err := s.Get(t.Context(), compute.Credential{ProjectID: project}, "x")
		require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
		_, err = s.List(t.Context(), compute.Credential{ProjectID: project}, object.ListInput{})
		require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
	}
}
