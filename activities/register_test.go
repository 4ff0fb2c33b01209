package activities_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// An activity that is declared and not registered is one that a workflow calls and
// nobody ever answers.
func TestEveryActivityIsRegistered(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("*/*.go")
	require.NoError(t, err)
	declared, registered := map[string]bool{}, map[string]bool{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				if len(n.Values) == 1 && isActivity(n.Values[0]) {
					declared[filepath.Dir(path)+"."+n.Names[0].Name] = true
				}
			case *ast.CallExpr:
				if call, ok := n.Fun.(*ast.SelectorExpr); ok && call.Sel.Name == "Register" {
					if activity, ok := call.X.(*ast.Ident); ok {
						registered[filepath.Dir(path)+"."+activity.Name] = true
					}
				}
			}
			return true
		})
	}
	require.Greater(t, len(declared), 40)
	require.Equal(t, declared, registered)
}

// isActivity reports whether a value is a durable.Activity or a durable.HostActivity.
func isActivity(value ast.Expr) bool {
	literal, ok := value.(*ast.CompositeLit)
	if !ok {
		return false
	}
	generic, ok := literal.Type.(*ast.IndexListExpr)
	if !ok {
		return false
	}
	of, ok := generic.X.(*ast.SelectorExpr)
	return ok && strings.HasSuffix(of.Sel.Name, "Activity")
}
