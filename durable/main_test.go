package durable_test

import (
	"os"
	"testing"

	"strongroom/integration/seed"
)

func TestMain(m *testing.M) {
	seed.Deep("faults", TestA12AnOutageOfTheDatabaseCostsFewEvents)
	os.Exit(m.Run())
}
