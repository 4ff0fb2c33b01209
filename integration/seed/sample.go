package seed

import (
	"crypto/sha256"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// FullVariable is set, to anything, to have every test and every case of each.
const FullVariable = "STRONGROOM_TEST_FULL"

// Dice gives random numbers that a text decides, others for each purpose.
func Dice(text, purpose string) *rand.Rand {
	sum := sha256.Sum256([]byte(text + "\n" + purpose))
	return rand.New(rand.NewPCG(binary.BigEndian.Uint64(sum[:]), binary.BigEndian.Uint64(sum[8:]))) //nolint:gosec // it chooses tests
}

// whole reports whether this run has every test and every case: FullVariable is set, or -run asks for tests by name.
func whole() bool {
	return os.Getenv(FullVariable) != "" || flag.Lookup("test.run").Value.String() != ""
}

// Chosen reports of each of n cases of a test whether this run has it: an eighth of them, and one at least, as the seed chooses
// for the purpose. With FullVariable set, and where -run asks for tests by name, it has all.
func Chosen(purpose string, n int) []bool {
	has := make([]bool, n)
	for place := range has {
		has[place] = whole()
	}
	dice := Dice(Text(), purpose)
	for _, place := range dice.Perm(n)[:(n+7)/8] {
		has[place] = true
	}
	return has
}

// sampled is of how many of a package's longest tests a run has one.
const sampled = 10

// Part leaves one of so many of a package's tests in this run, as the seed chooses, and a tenth of those that take longest, which are
// given. Tests of findings, those whose name or comment has a row of the design documents, and the suite that each adapter of a
// service passes (TestConformance) it leaves as they are. It is for packages that take minutes.
//
// With FullVariable set, and where -run asks for tests by name, it leaves out none. TestMain calls it before m.Run: a test that is
// skipped is a failure in CI, so it is not begun. Not to be given are tests of a finding, and those of a row that no end-to-end test shows.
func Part(of int, longest ...func(*testing.T)) {
	flag.Parse()
	if whole() {
		return
	}
	all, err := ownTests(".")
	if err != nil {
		panic(err)
	}
	long := names(longest)
	all = slices.DeleteFunc(all, func(name string) bool { return slices.Contains(long, name) })
	dice := Dice(Text(), strings.Join(all, " "))
	leave(slices.Concat(Leave(dice, long, sampled), Leave(dice, all, of)))
}

var (
	ofTest = regexp.MustCompile(`(?m)((?:^//.*\n)*)^func (Test\w+)\(\w+ \*testing\.T\)`)
	ofRow  = regexp.MustCompile(`(EE|TPM|SH|VT|PV)-?\d\d`)
	isKept = regexp.MustCompile(`^Test([ACHMP]\d|Low|Conformance$)`) // of a finding, or of all adapters
)

// ownTests gives the tests in a folder that can be left out.
func ownTests(folder string) (names []string, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, test := range ofTest.FindAllStringSubmatch(string(text), -1) {
			if !ofRow.MatchString(test[0]) && !isKept.MatchString(test[2]) {
				names = append(names, test[2])
			}
		}
	}
	return names, err
}

// OneOf leaves one of some tests in this run, as Part does: of long ones that show the same in several ways, as by the same client of two services.
func OneOf(tests ...func(*testing.T)) {
	flag.Parse()
	if whole() {
		return
	}
	all := names(tests)
	leave(Leave(Dice(Text(), strings.Join(all, " ")), all, len(all)))
}

func names(tests []func(*testing.T)) (names []string) {
	for _, test := range tests {
		path := runtime.FuncForPC(reflect.ValueOf(test).Pointer()).Name()
		names = append(names, path[strings.LastIndex(path, ".")+1:])
	}
	return names
}

// leave leaves tests out of this run, and says which.
func leave(names []string) {
	fmt.Fprintf(os.Stdout, "%s=%s leaves out %s\n", Variable, Text(), strings.Join(names, ", "))
	if err := Skip(names...); err != nil {
		panic(err)
	}
}

// Leave gives those of the names that a sample is without: all but one of so many. It brings the names into another order.
func Leave(dice *rand.Rand, names []string, of int) []string {
	dice.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names[:len(names)*(of-1)/of]
}

// Skip leaves the named tests out of this run, besides those that -skip has.
func Skip(names ...string) error {
	if len(names) == 0 {
		return nil
	}
	skipped := flag.Lookup("test.skip").Value
	pattern := "^(" + strings.Join(names, "|") + ")$"
	if asked := skipped.String(); asked != "" {
		pattern = asked + "|" + pattern
	}
	return skipped.Set(pattern)
}
