package integration_test

import (
	"embed"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/deploy/guest/vm"
	"strongroom/deploy/source"
	"strongroom/integration/seed"
)

// full reports whether every test is chosen on each back end where it can be run, and every fault point.
func full() bool { return os.Getenv(seed.FullVariable) != "" }

// backends, everywhere, besideEarlier or onDemand is the first statement of every test: on which back ends it can
// be run. The first of backends is the one that shows best what the test is about. TestMain reads it from the source and leaves
// out what is not chosen, for a test that is skipped is a failure in CI. ./task test has those of fast.txt.
func backends(t *testing.T, shows string, also ...string) {
	t.Helper()
	if vm.Inside() { // the test outside was chosen
		return
	}
	require.Contains(t, append(also, shows), leansOn())
	saysTheSeed(t)
}

// everywhere is for a test that can be run on each back end.
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

// besideEarlier is for a test with hosts of two releases: on a back end, where there is an earlier one.
func besideEarlier(t *testing.T, on string) {
	t.Helper()
	backends(t, on)
	require.NotEmpty(t, os.Getenv(earlierVariable))
}

// onDemand is for a test that needs packages which a deep run of its area alone installs (Chromium and the pages that it shows, Neutron's
// agents of Linux bridges), or programs that its tasks make (Terraform's provider, Ansible): on a back end.
func onDemand(t *testing.T, on string) {
	t.Helper()
	backends(t, on)
}

// declared is where a test can be run.
type declared struct {
	able     []string
	earlier  bool // it needs an earlier release
	onDemand bool // it needs packages of its own
}

// chosen reports whether a run on a back end has the test. fast are the tests that every run has there; asked is the pattern of
// tests that were asked for by name.
func (d declared) chosen(name, on string, fast map[string][]string, everything bool, asked string) bool {
	if d.earlier && os.Getenv(earlierVariable) == "" || !slices.Contains(d.able, on) {
		return false
	}
	return everything || asked != "" || slices.Contains(fast[on], name)
}

//go:embed fast.txt
var fastList string

// fastTests gives the tests of fast.txt by back end.
func fastTests() (map[string][]string, error) {
	fast := map[string][]string{}
	for line := range strings.Lines(fastList) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if len(fields) != 2 || fields[0] != local && fields[0] != openStack {
			return nil, fmt.Errorf("fast.txt: %q is not BACKEND TEST", line)
		}
		fast[fields[0]] = append(fast[fields[0]], fields[1])
	}
	return fast, nil
}

//go:embed *_test.go
var sources embed.FS

// declarations gives what each test of the package says first.
func declarations() (map[string]declared, error) {
	files, err := sources.ReadDir(".")
	if err != nil {
		return nil, err
	}
	all := map[string]declared{}
	var missing []error
	for _, file := range files {
		text, err := sources.ReadFile(file.Name())
		if err != nil {
			return nil, err
		}
		tests, err := testsIn(text)
		if err != nil {
			return nil, err
		}
		for f := range tests {
			one, err := declaration(f)
			if err != nil {
				missing = append(missing, fmt.Errorf("%s: %s %w", file.Name(), f.Name.Name, err))
			}
			all[f.Name.Name] = one
		}
	}
	return all, errors.Join(missing...)
}

// testsIn gives the text of each test of a file, with its comment.
func testsIn(text []byte) (tests map[*ast.FuncDecl]string, err error) {
	positions := token.NewFileSet()
	parsed, err := parser.ParseFile(positions, "", text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	tests = map[*ast.FuncDecl]string{}
	for _, d := range parsed.Decls {
		f := source.Test(d)
		if f == nil {
			continue
		}
		begin := f.Pos()
		if f.Doc != nil {
			begin = f.Doc.Pos()
		}
		tests[f] = string(text[positions.Position(begin).Offset:positions.Position(f.End()).Offset])
	}
	return tests, nil
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
		return declared{able: []string{local, openStack}}, nil
	case called == "backends" && len(places) > 0 && !slices.Contains(places, ""):
		return declared{able: places}, nil
	case called == "besideEarlier" && len(places) == 1 && places[0] != "":
		return declared{able: places, earlier: true}, nil
	case called == "onDemand" && len(places) == 1 && places[0] != "":
		return declared{able: places, onDemand: true}, nil
	default:
		return declared{}, errors.New("begins with none of backends(t, ...), everywhere(t), besideEarlier(t, ...) and onDemand(t, ...)")
	}
}

// choose leaves out what this run does not have, before any test runs.
func choose() error {
	all, err := declarations()
	if err != nil {
		return err
	}
	fast, err := fastTests()
	if err != nil {
		return err
	}
	var out []string
	for name, d := range all {
		if !d.chosen(name, leansOn(), fast, full(), seed.Asked()) {
			out = append(out, name)
		}
	}
	fmt.Printf("back end %s, %s=%s: %d of %d tests\n", leansOn(), seed.Variable, seed.Text(), len(all)-len(out), len(all))
	return seed.Skip(out...)
}
