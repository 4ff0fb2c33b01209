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
	"math/rand/v2"
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

// backends, everywhere, besideEarlier or onDemand is the first statement of every test: on which back ends it can
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

// onDemand is for a test that needs packages which ./task test:full alone installs (Chromium and the pages that it shows, Neutron's
// agents of Linux bridges, or Terraform's provider): on a back end. No sample has it.
func onDemand(t *testing.T, on string) {
	t.Helper()
	backends(t, on)
}

// declared is where a test can be run, and where the sample has it.
type declared struct {
	able, sample []string
	earlier      bool // it needs an earlier release
	onDemand     bool // it needs packages that a sample goes without
	matrix       bool
	cloud        bool     // it takes a cloud, and with it time
	shows        []string // rows of the design documents, each once
	finding      bool     // it shows that a finding is mended
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
	takesCloud = regexp.MustCompile(`Cloud\w*\(t|twoHosts\(t|newNested`)
)

// read takes from a test's name, its text and what its file has beside tests what it costs and shows.
func (d *declared) read(name, text, beside string) {
	d.matrix = strings.HasPrefix(name, matrices)
	d.cloud = d.matrix || takesCloud.MatchString(text)
	if d.shows = ofRow.FindAllString(text, -1); d.shows == nil {
		d.shows = ofRow.FindAllString(beside, -1)
	}
	d.finding = ofFinding.MatchString(name)
	slices.Sort(d.shows)
	d.shows = slices.Compact(d.shows)
}

// oneOf is of how many tests that a sample can be without it has one, oneFinding the same of tests of findings.
const (
	oneOf      = 24
	oneFinding = 6
)

// sampleOf leaves out of the sample, as a seed has it, tests that take a cloud, but for one of oneOf of a back end: matrices, and of
// the others those without which each row is shown still, on the real cloud where a test there shows it. Of tests of findings it
// keeps more. A test of both back ends is in the sample of one of them.
func sampleOf(all map[string]declared, text string) map[string]declared {
	some, dice := maps.Clone(all), seed.Dice(text, "tests")
	places := map[string][]string{} // by back end, what takes time
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if one := all[name]; one.cloud && len(one.sample) > 0 {
			place := one.sample[dice.IntN(len(one.sample))]
			one.sample = []string{place}
			some[name] = one
			places[place] = append(places[place], name)
		}
	}
	elsewhere := map[string]bool{} // what the real cloud shows
	for _, place := range []string{openStack, local} {
		var matrix, needed []string
		for _, name := range places[place] {
			if all[name].matrix {
				matrix = append(matrix, name)
			} else {
				needed = append(needed, name)
			}
		}
		needed, spare := shownBy(dice, all, needed, elsewhere)
		for _, name := range needed {
			for _, row := range all[name].shows {
				elsewhere[row] = true
			}
		}
		var findings, others []string
		for _, name := range spare {
			if all[name].finding {
				findings = append(findings, name)
			} else {
				others = append(others, name)
			}
		}
		for _, name := range slices.Concat(seed.Leave(dice, matrix, oneOf), seed.Leave(dice, others, oneOf), seed.Leave(dice, findings, oneFinding)) {
			one := some[name]
			one.sample = nil
			some[name] = one
		}
	}
	return some
}

// shownBy parts tests of one back end into those that it takes to show all that they show and that is not shown elsewhere, and others.
func shownBy(dice *rand.Rand, all map[string]declared, tests []string, elsewhere map[string]bool) (needed, spare []string) {
	times := map[string]int{} // by row, in how many tests
	for _, name := range tests {
		for _, row := range all[name].shows {
			times[row]++
		}
	}
	dice.Shuffle(len(tests), func(i, j int) { tests[i], tests[j] = tests[j], tests[i] })
	slices.SortStableFunc(tests, func(a, b string) int { return len(all[a].shows) - len(all[b].shows) }) // it takes fewer of those that show more
	for _, name := range tests {
		if slices.ContainsFunc(all[name].shows, func(row string) bool { return times[row] == 1 && !elsewhere[row] }) {
			needed = append(needed, name)
			continue
		}
		spare = append(spare, name)
		for _, row := range all[name].shows {
			times[row]--
		}
	}
	return needed, spare
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
			one.read(f.Name.Name, text, beside)
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
	all = sampleOf(all, seed.Text())
	var out []string
	for name, d := range all {
		if !d.chosen(leansOn(), full(), flagText("test.run")) {
			out = append(out, name)
		}
	}
	fmt.Printf("back end %s, %s=%s: %d of %d tests\n", leansOn(), seed.Variable, seed.Text(), len(all)-len(out), len(all))
	return seed.Skip(out...)
}

func flagText(name string) string { return flag.Lookup(name).Value.String() }
