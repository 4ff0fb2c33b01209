package legacy_test

import (
	"os"
	"testing"

	"strongroom/integration/seed"
)

func TestMain(m *testing.M) {
	seed.Deep("volumes", TestEE48NovaDatabase)
	os.Exit(m.Run())
}
