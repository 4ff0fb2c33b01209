package integration_test

import (
	"embed"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/deploy/guest/vm"
	"strongroom/integration/seed"
)

// fullVariable, set to anything, chooses every test on each back end where it can be
// run, and every fault point.
const fullVariable = "STRONGROOM_TEST_FULL"

func full() bool { return os.Getenv(fullVariable) != "" }

// backends, everywhere or besideEarlier is the first statement of every test: on which back ends it can
// be run. The first of backends is the one that shows best what the test is about, and
// the only one on which the sample has it. TestMain reads it from the source and leaves
// out what is not chosen, for a test that is skipped is a failure in CI.
func backends(t *testing.T, shows string, also ...string) {
	t.Helper()
	if vm.Inside() { // the test outside was chosen
		return
	}
	require.Contains(t, append(also, shows), leansOn())
	saysTheSeed(t)
}

// everywhere is for a test that every sample has on each back end: a sample of its own.
func everywhere(t *testing.T) {
	t.Helper()
	saysTheSeed(t)
}

func saysTheSeed(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("to have the same sample again: %s=%s", seed.Variable, seed.Text())
		}
	})
}

// earlierVariable names a program that ./task earlier has built: strongroom of an earlier commit.
const earlierVariable = "STRONGROOM_TEST_EARLIER"

// besideEarlier is for a test with hosts of two releases: on a back end, where there is an earlier one. No sample has it.
func besideEarlier(t *testing.T, on string) {
	t.Helper()
	backends(t, on)
	require.NotEmpty(t, os.Getenv(earlierVariable))
}

// declared is where a test can be run, and where the sample has it.
type declared struct {
	able, sample []string
	earlier      bool // it needs an earlier release
}

// chosen reports whether a run has the test. asked is the pattern of tests that were
// asked for by name: those need not be in the sample.
func (d declared) chosen(on string, everything bool, asked string) bool {
	if d.earlier && os.Getenv(earlierVariable) == "" {
		return false
	}
	return slices.Contains(d.sample, on) || (everything || asked != "") && slices.Contains(d.able, on)
}

// matrices is how the tests begin that cut off operations, at many points each. No row of the design documents is shown by
// them alone: a sample has some of them.
const matrices = "TestKillMatrix"

// someMatrices leaves in the sample what a seed chooses of the matrices: every second one of a back end, and each of
// those that are for both on one of them.
func someMatrices(all map[string]declared, text string) map[string]declared {
	some := maps.Clone(all)
	left := map[string][]string{}
	d := dice(text, "matrices")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !strings.HasPrefix(name, matrices) {
			continue
		}
		places := all[name].sample
		place := places[d.IntN(len(places))]
		left[place] = append(left[place], name)
		some[name] = declared{able: all[name].able, sample: []string{place}}
	}
	for _, place := range []string{local, openStack} {
		names := left[place]
		d.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for _, name := range names[:len(names)/2] {
			some[name] = declared{able: all[name].able}
		}
	}
	return some
}

//go:embed *_test.go
var source embed.FS

// declarations gives what each test of the package says first.
func declarations() (map[string]declared, error) {
	files, err := source.ReadDir(".")
	if err != nil {
		return nil, err
	}
	all := map[string]declared{}
	var missing []error
	for _, file := range files {
		text, err := source.ReadFile(file.Name())
		if err != nil {
			return nil, err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file.Name(), text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || f.Name.Name == "TestMain" || !strings.HasPrefix(f.Name.Name, "Test") {
				continue
			}
			if all[f.Name.Name], err = declaration(f); err != nil {
				missing = append(missing, fmt.Errorf("%s: %s %w", file.Name(), f.Name.Name, err))
			}
		}
	}
	return all, errors.Join(missing...)
}

// declaration reads a test's first statement.
func declaration(f *ast.FuncDecl) (declared, error) {
	var called string
	var places []string
	if len(f.Body.List) > 0 {
		if statement, ok := f.Body.List[0].(*ast.ExprStmt); ok {
			if call, ok := statement.X.(*ast.CallExpr); ok {
				called = types.ExprString(call.Fun)
				for _, argument := range call.Args[1:] {
					places = append(places, map[string]string{"local": local, "openStack": openStack}[types.ExprString(argument)])
				}
			}
		}
	}
	switch {
	case called == "everywhere":
		return declared{able: []string{local, openStack}, sample: []string{local, openStack}}, nil
	case called == "backends" && len(places) > 0 && !slices.Contains(places, ""):
		return declared{able: places, sample: places[:1]}, nil
	case called == "besideEarlier" && len(places) == 1 && places[0] != "":
		return declared{able: places, earlier: true}, nil
	default:
		return declared{}, errors.New("begins with none of backends(t, ...), everywhere(t) and besideEarlier(t, ...)")
	}
}

// choose leaves out what this run does not have, before any test runs.
func choose() error {
	all, err := declarations()
	if err != nil {
		return err
	}
	all = someMatrices(all, seed.Text())
	var out []string
	for name, d := range all {
		if !d.chosen(leansOn(), full(), flagText("test.run")) {
			out = append(out, name)
		}
	}
	fmt.Printf("back end %s, %s=%s: %d of %d tests\n", leansOn(), seed.Variable, seed.Text(), len(all)-len(out), len(all))
	if len(out) == 0 {
		return nil
	}
	pattern := "^(" + strings.Join(out, "|") + ")$"
	if skipped := flagText("test.skip"); skipped != "" {
		pattern = skipped + "|" + pattern
	}
	return flag.Set("test.skip", pattern)
}

func flagText(name string) string { return flag.Lookup(name).Value.String() }
