package api_test

import (
	"os"
	"testing"

	"strongroom/integration/seed"
)

func TestMain(m *testing.M) {
	seed.Deep("security", TestH4APageIsBoundedInBytes)
	os.Exit(m.Run())
}
