package cloud_test

import (
	"os"
	"testing"

	"strongroom/integration/seed"
)

func TestMain(m *testing.M) {
	seed.Deep("network", TestNeutronBindsPorts)
	seed.Deep("adapters", TestStopLeavesNothingAndTheNextStartGoesOn, TestBarbicanPolicy)
	os.Exit(m.Run())
}
