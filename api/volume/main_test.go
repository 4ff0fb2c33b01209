package volume_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain leaves out what needs packages that are installed for STRONGROOM_TEST_FULL alone: a test that is
// skipped is a failure in CI, so it is not begun.
func TestMain(m *testing.M) {
	flag.Parse()
	const pictured = "^TestVT12Horizon$"
	skipped := flag.Lookup("test.skip").Value
	if os.Getenv("STRONGROOM_TEST_FULL") == "" {
		pattern := pictured
		if asked := skipped.String(); asked != "" {
			pattern = asked + "|" + pictured
		}
		if err := skipped.Set(pattern); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
