package volume_test

import (
	"flag"
	"os"
	"testing"

	"strongroom/integration/seed"
)

// TestMain leaves the deep tests out. TestVT12Horizon needs a browser, which a deep run installs.
func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(seed.FullVariable) == "" { // it needs a browser, also when it is asked for by name
		if err := seed.Skip("TestVT12Horizon"); err != nil {
			panic(err)
		}
	}
	seed.Deep("ops", TestStandardClient, TestVT12CinderClient, TestVT12CinderClientOnKeystone, TestStandardClientOnKeystone)
	os.Exit(m.Run())
}
