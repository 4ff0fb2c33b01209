package cloudtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"strongroom/deploy/cloud"
	"strongroom/deploy/cloud/ovn"
)

// NeedNetworks skips the test where a cloud cannot run Neutron. Where a cloud is required, that is a
// failure.
func NeedNetworks(t testing.TB) {
	t.Helper()
	Open(t) // where there is a cloud, there are the packages of the other services
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
		return "deploy/install-packages network"
	}
	return ""
}

// RunWithNetworks runs a package's tests, for its TestMain, and gives the exit code. The cloud that they
// are given has Neutron: where the one that is set has none, a cloud of their own with
// nothing else runs meanwhile.
func RunWithNetworks(m *testing.M) int {
	given := os.Getenv(Variable)
	if given == "" || lacking() != "" {
		return m.Run() // the tests are skipped, or fail
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(given), "run", cloud.Neutron+".pid")); err == nil {
		return m.Run()
	}
	stop, err := startNetworks()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Neutron:", err)
		return 1
	}
	code := m.Run()
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, "INVARIANT: something of Neutron is left:", err)
		return 1
	}
	return code
}

func startNetworks() (stop func() error, err error) {
	dir, err := os.MkdirTemp("/tmp", "sr-net-")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	running, err := cloud.Start(ctx, cloud.Config{Dir: dir, Services: []string{cloud.Neutron}, TokenCache: time.Minute})
	if err != nil {
		return nil, err // the folder stays, with the logs
	}
	if err := os.Setenv(Variable, running.CloudsFile()); err != nil {
		return nil, err
	}
	return func() error {
		if err := running.Stop(context.Background()); err != nil {
			return err
		}
		return os.RemoveAll(dir)
	}, nil
}
