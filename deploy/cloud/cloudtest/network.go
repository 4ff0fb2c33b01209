package cloudtest

import (
	"os"
	"testing"

	"strongroom/deploy/cloud/ovn"
)

// NeedNetworks skips the test where a cloud cannot run Neutron. Where a cloud is required, that is a
// failure.
func NeedNetworks(t testing.TB) {
	t.Helper()
	if why := lacking(); why != "" {
		if os.Getenv(Required) != "" {
			t.Fatalf("needs Neutron: %s", why)
		}
		t.Skipf("needs Neutron: %s", why)
	}
}

// lacking says what keeps Neutron from running here; "": nothing.
func lacking() string {
	switch {
	case os.Geteuid() != 0:
		return "must be root to make network namespaces"
	case !ovn.Installed():
		return "deploy/install-packages cloud network"
	}
	return ""
}
