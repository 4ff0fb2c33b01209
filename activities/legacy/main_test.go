package legacy_test

import (
	"os"
	"testing"

	"strongroom/integration/seed"
)

func TestMain(m *testing.M) {
	seed.Deep("ops", TestEE48NovaDatabase)
	os.Exit(m.Run())
}
