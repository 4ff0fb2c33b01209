package operation_test

import (
	"os"
	"testing"

	"strongroom/integration/seed"
)

func TestMain(m *testing.M) {
	seed.Deep("ops", TestA3TwoHundredDeletesThatWaitHoldUpNothing)
	os.Exit(m.Run())
}
