package workflows_test

import (
	"os"
	"testing"

	"strongroom/integration/seed"
)

// TestMain has more tests at once than there are cores: those on a real server wait for its clock, for a minute (durable.HostSilence) and more.
func TestMain(m *testing.M) {
	seed.Deep("workflows", TestOnAServerEachOperation)
	seed.AtOnce(4)
	os.Exit(m.Run())
}
