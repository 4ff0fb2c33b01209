package compute_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// declared are the values of the constants of a type in the package's source.
func declared(t *testing.T, typeName string) []string {
	t.Helper()
	paths, err := filepath.Glob("*.go")
	require.NoError(t, err)
	var values []string
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			if of, ok := spec.Type.(*ast.Ident); ok && of.Name == typeName {
				value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
				require.NoError(t, err)
				values = append(values, value)
			}
			return true
		})
	}
	return values
}

// C4: a kind that is declared and not listed is one that record.Begin refuses.
func TestEveryKindIsListedOnce(t *testing.T) {
	t.Parallel()
	var listed []string
	for _, a := range compute.Actions {
		listed = append(listed, string(a.Kind))
		found, err := compute.ActionOf(a.Kind)
		require.NoError(t, err)
		require.Equal(t, a.Facts, found.Facts)
	}
	require.ElementsMatch(t, declared(t, "OperationKind"), listed)
}

// C4: an operation with a workflow has a task_state, and each but a create a state
// to begin from.
func TestEveryKindHasATransition(t *testing.T) {
	t.Parallel()
	for _, a := range compute.Actions {
		begins := a.Transition.Always || len(a.Transition.From) > 0
		require.Equal(t, a.Kind != compute.OpCreate, begins, a.Kind)
		require.Equal(t, a.InRequest, a.Transition.Task == compute.TaskNone, a.Kind)
		require.False(t, a.InRequest && a.Boots, a.Kind)
		for _, vm := range a.Transition.From {
			require.Contains(t, allVMStates, vm, a.Kind)
		}
	}
}

// C4: what is kept of arguments is what their type holds, and it is read again as
// that type.
func TestEveryKindKeepsItsArguments(t *testing.T) {
	t.Parallel()
	for _, a := range compute.Actions {
		kept, err := a.Keep(json.RawMessage(`{"change": {"user_data": {"text": "canary"}}}`))
		require.NoError(t, err, a.Kind)
		require.NotContains(t, string(kept), "canary", a.Kind)
		if a.Arguments == reflect.TypeFor[compute.None]() {
			require.Nil(t, kept, a.Kind)
			_, err = a.Keep(json.RawMessage(`null`))
			require.NoError(t, err, a.Kind)
			continue
		}
		again, err := a.Keep(kept)
		require.NoError(t, err, a.Kind)
		require.JSONEq(t, string(kept), string(again), a.Kind)
		for _, none := range []string{"", "null", "[]", "1"} {
			_, err = a.Keep(json.RawMessage(none))
			require.Equal(t, compute.Invalid, compute.KindOf(err), "%s: %q", a.Kind, none)
		}
	}
}

func TestReadArguments(t *testing.T) {
	t.Parallel()
	in, err := compute.Reboot.Read(json.RawMessage(`{"hard": true}`))
	require.NoError(t, err)
	require.True(t, in.Hard)
	_, err = compute.Reboot.Read(json.RawMessage(`{"hard": "canary"}`))
	require.EqualError(t, err, "these are no arguments of a reboot")
	_, err = compute.Start.Read(nil)
	require.NoError(t, err)
}
