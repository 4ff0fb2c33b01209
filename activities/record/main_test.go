package record_test

import (
	"os"
	"testing"

	"strongroom/integration/seed"
)

func TestMain(m *testing.M) {
	seed.Part(3)
	os.Exit(m.Run())
}
