package seed

import (
	"crypto/sha256"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"strconv"
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

// Whole reports whether this run has every test and every case: FullVariable is set, or -run asks for tests by name.
func Whole() bool {
	return os.Getenv(FullVariable) != "" || Asked() != ""
}

// Deep leaves tests of a package out of ./task test: those of an area that take long, boot a guest for what others show in part, or need a
// machine, a cluster or a service that the others do not. With FullVariable set, and where -run asks for tests by name, it leaves out none. TestMain calls it before m.Run,
// so that they are not begun: a test that is skipped is a failure in CI.
func Deep(area string, tests ...func(*testing.T)) {
	if !flag.Parsed() { // again, it would set -skip back
		flag.Parse()
	}
	if Whole() {
		return
	}
	var names []string
	for _, test := range tests {
		path := runtime.FuncForPC(reflect.ValueOf(test).Pointer()).Name()
		names = append(names, path[strings.LastIndex(path, ".")+1:])
	}
	fmt.Fprintf(os.Stdout, "left to the deep tests of %s: %s\n", area, strings.Join(names, ", "))
	if err := Skip(names...); err != nil {
		panic(err)
	}
}

// AtOnce has up to n tests of a package run at once, unless -parallel says how many: for tests that wait more than they compute, on any number
// of cores. TestMain calls it before m.Run.
func AtOnce(n int) {
	if !flag.Parsed() {
		flag.Parse()
	}
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if asked {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(max(n, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
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
