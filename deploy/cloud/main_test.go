package cloud_test

import (
	"os"
	"testing"

	"strongroom/integration/seed"
)

func TestMain(m *testing.M) {
	seed.Deep("network", TestNeutronBindsPorts)
	os.Exit(m.Run())
}
