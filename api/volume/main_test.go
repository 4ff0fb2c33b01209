package volume_test

import (
	"flag"
	"os"
	"testing"

	"strongroom/integration/seed"
)

// TestMain leaves out what needs packages that are installed for STRONGROOM_TEST_FULL alone: a test that is
// skipped is a failure in CI, so it is not begun.
func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(seed.FullVariable) == "" {
		if err := seed.Skip("TestVT12Horizon"); err != nil {
			panic(err)
		}
	}
	seed.OneOf(TestStandardClient, TestStandardClientOnKeystone)
	seed.OneOf(TestVT12CinderClient, TestVT12CinderClientOnKeystone)
	os.Exit(m.Run())
}
