package schema_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The code that sqlc made is of the present queries and migrations, and nobody changed it by hand. ./task generate writes sqlc.sum, so that sqlc itself, which
// takes minutes to build, is needed for nothing else.
func TestGeneratedCodeIsOfTheseQueries(t *testing.T) {
	t.Parallel()
	modules, err := os.ReadFile("../tools/go.mod")
	require.NoError(t, err)
	want := regexp.MustCompile(`github.com/sqlc-dev/sqlc v\S+`).FindString(string(modules)) + "\n"
	for _, pattern := range []string{"sqlc.yaml", "queries/*.sql", "migrations/*.sql", "*.sql.go"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			want += fmt.Sprintf("%x  %s\n", sha256.Sum256(text), file)
		}
	}
	want += fmt.Sprintf("%x  -\n", sha256.Sum256([]byte(want)))
	sums, err := os.ReadFile("sqlc.sum")
	require.NoError(t, err)
	require.Equal(t, want, string(sums), "run ./task generate")
}
