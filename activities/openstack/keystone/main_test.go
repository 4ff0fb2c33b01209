package keystone_test

import (
	"os"
	"testing"

	"strongroom/integration/seed"
)

func TestMain(m *testing.M) {
	seed.Part(3, TestShortLives, TestWhatIsGivenUpIsNotMadeLater, TestARevokedServiceToken, TestALargeTransfer)
	os.Exit(m.Run())
}
