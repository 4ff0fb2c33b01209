package devcloud_test

import (
	"os"
	"testing"

	"strongroom/integration/seed"
)

func TestMain(m *testing.M) {
	seed.OneOf(TestTheStandardClientsNetworks, TestTheStandardClientsImages, TestTheStandardClientsIdentity)
	os.Exit(m.Run())
}
