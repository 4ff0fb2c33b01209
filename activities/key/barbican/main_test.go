package barbican_test

import (
	"os"
	"testing"

	"strongroom/integration/seed"
)

func TestMain(m *testing.M) {
	seed.Deep("keys", TestListHasAllPages, TestEE38WhatIsMadeOfAPrivateSecretIsPrivateWhereItsACLIsHidden)
	os.Exit(m.Run())
}
