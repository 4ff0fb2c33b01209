package guest_test

import (
	"os"
	"testing"

	"strongroom/integration/seed"
)

func TestMain(m *testing.M) {
	seed.Deep("adapters", TestBuildBootsByItself, TestIdleGuestPowersOff, TestCountingGuestCounts)
	os.Exit(m.Run())
}
