package operation_test

import (
	"os"
	"testing"

	"strongroom/integration/seed"
)

func TestMain(m *testing.M) {
	seed.Deep("faults", TestA3TwoHundredDeletesThatWaitHoldUpNothing)
	os.Exit(m.Run())
}
