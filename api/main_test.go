package api_test

import (
	"os"
	"testing"

	"strongroom/integration/seed"
)

// TestMain leaves the program of the python client, which integration's TestOpenStackClient drives too, to the deep tests.
func TestMain(m *testing.M) {
	seed.Deep("ops", TestStandardClient)
	os.Exit(m.Run())
}
