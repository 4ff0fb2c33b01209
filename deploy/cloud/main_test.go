package cloud_test

import (
	"os"
	"testing"

	"strongroom/integration/seed"
)

// Tests of all packages that need a cloud show that it starts and stops.
func TestMain(m *testing.M) {
	seed.OneOf(TestNeutronBindsPorts, TestBarbicanPolicy, TestStopLeavesNothingAndTheNextStartGoesOn)
	os.Exit(m.Run())
}
