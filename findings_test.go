package strongroom_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/source"
)

var (
	testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(t `)
	ofFinding    = regexp.MustCompile(`^Test([CHMPS]\d+)[A-Z]`)
	findingRow   = regexp.MustCompile(`(?m)^\| ([CHMPS]\d+) \|.*\| ([^|]+) \|$`)
	quoted       = regexp.MustCompile("`([^`]+)`")
)

// docs/security.md names packages that have tests of each finding, and each test of the lesser
// ones.
func TestTheTableOfFindingsIsTrue(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("docs/security.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "\n## What was found, and the tests of it\n")
	require.True(t, found)
	packages, tests := map[string][]string{}, map[string]bool{} // of each finding; all
	require.NoError(t, source.GoFiles(".", func(path string, text []byte) error {
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		for _, m := range testFunction.FindAllStringSubmatch(string(text), -1) {
			tests[m[1]] = true
			if id := ofFinding.FindStringSubmatch(m[1]); id != nil && !slices.Contains(packages[id[1]], filepath.Dir(path)) {
				packages[id[1]] = append(packages[id[1]], filepath.Dir(path))
			}
		}
		return nil
	}))
	named := func(text string) (out []string) {
		for _, m := range quoted.FindAllStringSubmatch(text, -1) {
			out = append(out, m[1])
		}
		return out
	}
	ids := 0
	for _, row := range findingRow.FindAllStringSubmatch(table, -1) {
		require.NotEmpty(t, named(row[2]), row[1])
		assert.ElementsMatch(t, packages[row[1]], named(row[2]), row[1])
		ids++
	}
	require.Equal(t, 36, ids, "C1, H1 to H9, M1 to M10, P12 to P15, S1 to S12")
	for name := range tests {
		if strings.HasPrefix(name, "TestLow") {
			require.Contains(t, table, "`"+name+"`")
		}
	}
	for _, name := range named(table) {
		if strings.HasPrefix(name, "Test") && !strings.HasSuffix(name, "…") {
			require.True(t, tests[name], name)
		}
	}
}
