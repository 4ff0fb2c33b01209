package integration_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/dev/process"
	"strongroom/deploy/dev/stack"
)

// microversion is what the suites speak unless they say otherwise.
const microversion = "2.90"

// testCloud is one running strongroom, shared by the suites.
type testCloud struct {
	stack.Layout
	binary string
	faults string // the folder of armed fault points
	cmd    *exec.Cmd
	image  string // the tiny guest's
}

var shared struct {
	once  sync.Once
	cloud *testCloud
	err   error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.cloud != nil {
		shared.cloud.stop()
		if code == 0 {
			_ = os.RemoveAll(filepath.Dir(shared.cloud.State))
		} else {
			fmt.Println("state and logs are kept in", shared.cloud.State)
		}
	}
	os.Exit(code)
}

// startedCloud gives the shared cloud and starts it at the first call. Without
// root there is none; in CI that is a failure.
func startedCloud(t *testing.T) *testCloud {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("the end-to-end suites need root")
		}
		t.Skip("needs root: libvirt, QEMU, PostgreSQL")
	}
	shared.once.Do(func() { shared.cloud, shared.err = startCloud() })
	require.NoError(t, shared.err)
	return shared.cloud
}

func startCloud() (*testCloud, error) {
	dir, err := os.MkdirTemp("", "sr")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, err
	}
	c := &testCloud{binary: filepath.Join(dir, "strongroom"), faults: filepath.Join(dir, "faults")}
	if err := os.Mkdir(c.faults, 0o700); err != nil {
		return nil, err
	}
	// The same binary, with the points at which the kill matrix lets it die.
	build := exec.Command("go", "build", "-tags", "faultpoints", "-o", c.binary, "strongroom/cmd/strongroom")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building strongroom: %w\n%s", err, out)
	}
	c.Layout = stack.Layout{State: filepath.Join(dir, "s"), PortBase: freeRow()}
	if err := c.launch(); err != nil {
		return nil, err
	}
	c.image, err = c.uploadGuest()
	return c, err
}

// freeRow finds a row of ports that nobody uses, below those that the kernel
// hands out to clients.
func freeRow() int {
	for {
		base := 20000 + rand.IntN(12000)
		if (stack.Layout{PortBase: base}).PortsAreFree() == nil {
			return base
		}
	}
}

// launch runs `strongroom dev` and waits until it is ready.
func (c *testCloud) launch() error {
	log, err := os.OpenFile(filepath.Join(filepath.Dir(c.State), "dev.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	c.cmd = exec.Command(c.binary, "dev", "--state", c.State, "--port-base", fmt.Sprint(c.PortBase), "--own-libvirt", "--clouds-yaml", c.CloudsFile())
	c.cmd.Env = append(os.Environ(), "STRONGROOM_FAULTPOINTS="+c.faults)
	c.cmd.Stdout, c.cmd.Stderr = log, log
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := c.cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- c.cmd.Wait() }()
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if _, err := os.Stat(c.ReadyFile()); err == nil {
			return nil
		}
		select {
		case err := <-ended:
			text, _ := os.ReadFile(log.Name())
			return fmt.Errorf("strongroom dev ended: %w\n%s", err, text)
		default:
		}
	}
	return fmt.Errorf("strongroom dev is not ready: see %s", log.Name())
}

// stop ends `strongroom dev` as Ctrl-C does, and waits for it.
func (c *testCloud) stop() {
	_ = c.cmd.Process.Signal(os.Interrupt)
	for deadline := time.Now().Add(90 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if c.cmd.Process.Signal(syscall.Signal(0)) != nil {
			return
		}
	}
	_ = c.cmd.Process.Kill()
}

// kill ends one part with SIGKILL, as a crash would. It is started again.
func (c *testCloud) kill(t *testing.T, part string) {
	t.Helper()
	pid, running := process.Named(c.PIDFile(part))
	require.True(t, running, "%s does not run", part)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
}

// provider logs in as a cloud of the stack's clouds.yaml: "" (the
// administrator), "-demo", "-alt" or "-reader".
func (c *testCloud) provider(user string) (*gophercloud.ProviderClient, gophercloud.EndpointOpts, error) {
	auth, endpoint, tls, err := clouds.Parse(clouds.WithCloudName(stack.CloudName+user), clouds.WithLocations(c.CloudsFile()))
	if err != nil {
		return nil, endpoint, err
	}
	auth.AllowReauth = true
	provider, err := config.NewProviderClient(context.Background(), auth, config.WithTLSConfig(tls))
	return provider, endpoint, err
}

// compute gives a client of the compute API.
func (c *testCloud) compute(t *testing.T, user string) *gophercloud.ServiceClient {
	t.Helper()
	provider, endpoint, err := c.provider(user)
	require.NoError(t, err)
	client, err := openstack.NewComputeV2(provider, endpoint)
	require.NoError(t, err)
	client.Microversion = microversion
	return client
}
