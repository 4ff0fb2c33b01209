package schema_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/deploy/source"
)

// N9: operations are accepted in one place, also those that nobody asked for.
func TestN9OperationsAreAcceptedInOnePlace(t *testing.T) {
	t.Parallel()
	var in []string
	require.NoError(t, source.GoFiles("..", func(path string, text []byte) error {
		if !strings.HasSuffix(path, "_test.go") && !strings.HasSuffix(path, ".sql.go") && strings.Contains(string(text), ".InsertOperation(") {
			in = append(in, filepath.ToSlash(path))
		}
		return nil
	}))
	require.ElementsMatch(t, []string{"../durable/outbox/accept.go", "../schema/schematest/fixture.go"}, in)
}

// Each query is called by something other than a test.
func TestEveryQueryIsUsed(t *testing.T) {
	t.Parallel()
	called := map[string]bool{}
	require.NoError(t, source.GoFiles("..", func(path string, text []byte) error {
		if strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".sql.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				called[s.Sel.Name] = true
			}
			return true
		})
		return nil
	}))
	files, err := filepath.Glob("queries/*.sql")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	name := regexp.MustCompile(`(?m)^-- name: (\w+) :`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, query := range name.FindAllStringSubmatch(string(text), -1) {
			require.True(t, called[query[1]], "%s: nothing calls %s", file, query[1])
		}
	}
}

// A14: no statement sets a column to itself.
func TestA14NoQuerySetsAColumnToItself(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("queries/*.sql")
	require.NoError(t, err)
	sets := regexp.MustCompile(`(\w+) = (\w+)[,\n]`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, set := range sets.FindAllStringSubmatch(string(text), -1) {
			require.NotEqual(t, set[1], set[2], "%s: %s", file, set[0])
		}
	}
}
