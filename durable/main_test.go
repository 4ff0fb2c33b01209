package durable_test

import (
	"os"
	"testing"

	"strongroom/integration/seed"
)

// TestMain has more tests at once than there are cores: they wait for the clock of a real server.
func TestMain(m *testing.M) {
	seed.AtOnce(4)
	seed.Deep("faults", TestA12AnOutageOfTheDatabaseCostsFewEvents)
	os.Exit(m.Run())
}
