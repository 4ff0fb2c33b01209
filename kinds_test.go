package strongroom_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Ports came last of the kinds of things: beside the steps that make them, only the tables name them, so that audit,
// reaper, delete and repair needed no edit (docs/architecture.md, "A new kind of thing").
func TestKindsAreTheTablesAlone(t *testing.T) {
	t.Parallel()
	var found []string
	for _, folder := range []string{"compute", "workflows", "activities/ledger", "activities/operation"} {
		files, err := filepath.Glob(folder + "/*.go")
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			if !strings.HasSuffix(file, "_test.go") && regexp.MustCompile(`\bThing(Plugged)?Port\b`).Match(text) {
				found = append(found, file)
			}
		}
	}
	require.ElementsMatch(t, []string{
		"compute/ledger.go",      // its name
		"compute/kinds.go",       // its row
		"compute/uses.go",        // which of a server's ports one is
		"workflows/things.go",    // its row
		"workflows/network.go",   // makes those of a create
		"workflows/interface.go", // makes those of a running server
	}, found)
}

// N6: a rule of depguard says of each package of activities whom it may import.
func TestN6EachActivityHasItsArrows(t *testing.T) {
	t.Parallel()
	rules, err := os.ReadFile(".golangci.yml")
	require.NoError(t, err)
	named := map[string]bool{}
	for _, m := range regexp.MustCompile(`"\*\*/activities/(\{[a-z,]+\}|[a-z]+)/\*\.go"`).FindAllStringSubmatch(string(rules), -1) {
		for _, name := range strings.Split(strings.Trim(m[1], "{}"), ",") {
			named[name] = true
		}
	}
	files, err := filepath.Glob("activities/*/*.go")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		require.True(t, named[filepath.Base(filepath.Dir(file))], file)
	}
}
