package manila_test

import (
	"os"
	"testing"

	"strongroom/integration/seed"
)

func TestMain(m *testing.M) {
	seed.Part(2)
	os.Exit(m.Run())
}
