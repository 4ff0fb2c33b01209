package integration_test

import (
	"embed"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/deploy/guest/vm"
	"strongroom/integration/seed"
)

// full reports whether every test is chosen on each back end where it can be run, and every fault point.
func full() bool { return os.Getenv(seed.FullVariable) != "" }

// backends, everywhere, besideEarlier or inABrowser is the first statement of every test: on which back ends it can
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

// everywhere is for a matrix that can be run on each back end: a sample that has it, has it on one of them.
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

// inABrowser is for a test that needs Chromium and the pages that it shows, which ./task test:full installs: on a back end. No
// sample has it.
func inABrowser(t *testing.T, on string) {
	t.Helper()
	backends(t, on)
}

// declared is where a test can be run, and where the sample has it.
type declared struct {
	able, sample []string
	earlier      bool // it needs an earlier release
	browser      bool // it needs one
	optional     bool // a sample may be without it
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
// them alone.
const matrices = "TestKillMatrix"

var (
	ofRow      = regexp.MustCompile(`\b(EE|TPM|SH|VT|PV)-\d\d\b`)
	ofFinding  = regexp.MustCompile(`^Test[ACHMP]\d`)
	takesCloud = regexp.MustCompile(`Cloud\w*\(t|twoHosts\(t|newNested`) // and with it time
)

// isOptional reports whether a sample may be without a test, by its name, its text and what its file has beside tests: it is
// a matrix, or takes a cloud and names neither a row nor a finding.
func isOptional(name, text, beside string) bool {
	return strings.HasPrefix(name, matrices) ||
		takesCloud.MatchString(text) && !ofFinding.MatchString(name) && !ofRow.MatchString(text) && !ofRow.MatchString(beside)
}

// sampleOf leaves in the sample what a seed chooses of the optional tests: every fourth one of a back end, of the matrices and of
// the others, and each of those that are for both on one of them.
func sampleOf(all map[string]declared, text string) map[string]declared {
	type pool struct {
		place  string
		matrix bool
	}
	some, pools := maps.Clone(all), map[pool][]string{}
	d := seed.Dice(text, "tests")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if one := all[name]; one.optional && len(one.sample) > 0 {
			place := one.sample[d.IntN(len(one.sample))]
			of := pool{place, strings.HasPrefix(name, matrices)}
			pools[of] = append(pools[of], name)
			one.sample = []string{place}
			some[name] = one
		}
	}
	for _, place := range []string{local, openStack} {
		for _, matrix := range []bool{false, true} {
			for _, name := range seed.Leave(d, pools[pool{place, matrix}]) {
				one := some[name]
				one.sample = nil
				some[name] = one
			}
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
		tests, beside, err := testsIn(text)
		if err != nil {
			return nil, err
		}
		for f, text := range tests {
			one, err := declaration(f)
			if err != nil {
				missing = append(missing, fmt.Errorf("%s: %s %w", file.Name(), f.Name.Name, err))
			}
			one.optional = isOptional(f.Name.Name, text, beside)
			all[f.Name.Name] = one
		}
	}
	return all, errors.Join(missing...)
}

// testsIn gives the text of each test of a file, with its comment, and all that is beside them.
func testsIn(text []byte) (tests map[*ast.FuncDecl]string, beside string, err error) {
	positions := token.NewFileSet()
	parsed, err := parser.ParseFile(positions, "", text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, "", err
	}
	tests = map[*ast.FuncDecl]string{}
	end := 0
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil || f.Name.Name == "TestMain" || !strings.HasPrefix(f.Name.Name, "Test") {
			continue
		}
		begin := f.Pos()
		if f.Doc != nil {
			begin = f.Doc.Pos()
		}
		from := positions.Position(begin).Offset
		beside += string(text[end:from])
		end = positions.Position(f.End()).Offset
		tests[f] = string(text[from:end])
	}
	return tests, beside + string(text[end:]), nil
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
	case called == "inABrowser" && len(places) == 1 && places[0] != "":
		return declared{able: places, browser: true}, nil
	default:
		return declared{}, errors.New("begins with none of backends(t, ...), everywhere(t), besideEarlier(t, ...) and inABrowser(t, ...)")
	}
}

// choose leaves out what this run does not have, before any test runs.
func choose() error {
	all, err := declarations()
	if err != nil {
		return err
	}
	all = sampleOf(all, seed.Text())
	var out []string
	for name, d := range all {
		if !d.chosen(leansOn(), full(), seed.Asked()) {
			out = append(out, name)
		}
	}
	fmt.Printf("back end %s, %s=%s: %d of %d tests\n", leansOn(), seed.Variable, seed.Text(), len(all)-len(out), len(all))
	return seed.Skip(out...)
}
