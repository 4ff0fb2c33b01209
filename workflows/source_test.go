package workflows_test

import (
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sources parses what workflows are made of, tests aside.
func sources(t *testing.T) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	for _, pattern := range []string{"*.go", "../durable/*.go", "../compute/*.go"} {
		paths, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, paths, pattern)
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
			require.NoError(t, err)
			files[path] = file
		}
	}
	return files
}

// A10: operations are pinned to the version on which they began, so a workflow has no
// branch for what an earlier version did.
func TestA10NoWorkflowBranchesOnAVersion(t *testing.T) {
	t.Parallel()
	for path, file := range sources(t) {
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				require.NotEqual(t, "GetVersion", s.Sel.Name, path)
			}
			return true
		})
	}
}

// A14: a workflow.Context is an argument and never a field: one that is kept may be
// cancelled, or another coroutine's, when it is used.
func TestA14NoStructKeepsAWorkflowContext(t *testing.T) {
	t.Parallel()
	for path, file := range sources(t) {
		ast.Inspect(file, func(n ast.Node) bool {
			s, ok := n.(*ast.StructType)
			if !ok {
				return true
			}
			for _, field := range s.Fields.List {
				of, ok := field.Type.(*ast.SelectorExpr)
				require.False(t, ok && of.Sel.Name == "Context", "%s keeps a Context in a struct", path)
			}
			return true
		})
	}
}

// A14: a build for tests has the workflows and the timeouts of a release.
func TestA14NoBuildTagChangesWorkflows(t *testing.T) {
	t.Parallel()
	for path, file := range sources(t) {
		for _, comments := range file.Comments {
			for _, c := range comments.List {
				require.False(t, constraint.IsGoBuild(c.Text), "%s: %s", path, c.Text)
			}
		}
	}
}
