package guest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A machine whose package lists were removed, as those of images are, gets lists of its own for the kernel, and its own stay as they are.
func TestTheKernelIsFoundWithoutLists(t *testing.T) {
	lists := filepath.Join(t.TempDir(), "lists")
	require.NoError(t, os.MkdirAll(filepath.Join(lists, "partial"), 0o755))
	config := filepath.Join(t.TempDir(), "apt.conf")
	require.NoError(t, os.WriteFile(config, []byte(`Dir::State::lists "`+lists+`"; Dir::Cache::pkgcache ""; Dir::Cache::srcpkgcache "";`), 0o600))
	t.Setenv("APT_CONFIG", config)
	_, err := newest(t.Context())
	require.Error(t, err)
	var name string
	tries := 0
	require.NoError(t, withLists(t.Context(), func(options ...string) (err error) {
		tries++
		name, err = newest(t.Context(), options...)
		return err
	}))
	require.Regexp(t, `^linux-image-\d.*-cloud-amd64$`, name)
	require.Equal(t, 2, tries)
	left, err := filepath.Glob(filepath.Join(lists, "*Packages*"))
	require.NoError(t, err)
	require.Empty(t, left)
}
