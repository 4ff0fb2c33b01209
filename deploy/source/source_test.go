package source_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/deploy/source"
)

// What a new machine has below the repository besides, Go itself and its test data that is no Go, is not read.
func TestGoFilesAreThoseOfTheRepository(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), ".clone") // the name of the root itself says nothing
	for _, name := range []string{"a.go", "b/c_test.go", "b/text.txt", ".bin/go/src/broken.go", ".task/earlier/a.go", "b/.cache/a.go"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(name), 0o600))
	}
	found := map[string]string{}
	require.NoError(t, source.GoFiles(root, func(path string, text []byte) error {
		found[path] = string(text)
		return nil
	}))
	require.Equal(t, map[string]string{filepath.Join(root, "a.go"): "a.go", filepath.Join(root, "b/c_test.go"): "b/c_test.go"}, found)
}
