package integration_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/await"
	"strongroom/deploy/cloud"
	"strongroom/deploy/dev/process"
	"strongroom/deploy/dev/stack"
)

// microversion is what the suites speak unless they say otherwise.
const microversion = "2.90"

// testCloud is one running strongroom, and the cloud that it uses.
type testCloud struct {
	products
	stack.Layout
	dir     string
	real    *cloud.Cloud           // nil: strongroom dev stands in for it
	faults  string                 // the folder of armed fault points
	env     []string               // settings of its own
	hosts   int                    // how many compute hosts it has
	shared  bool                   // tests use it side by side
	proxies map[string]*faultProxy // before some of its services
	cmd     *exec.Cmd
	image   string // the tiny guest's
	idler   string // the image of the guest that does nothing
	logins  struct {
		sync.Mutex
		of map[string]session
	}
}

func startCloud(name string, env ...string) (*testCloud, error) {
	return startHosts(name, 1, env...)
}

// startHosts starts a cloud with several compute hosts.
func startHosts(name string, hosts int, env ...string) (*testCloud, error) {
	return startWith(name, hosts, coreServices, env...)
}

// startWith starts a cloud whose OpenStack, if it is one, has these services.
func startWith(name string, hosts int, services []string, env ...string) (*testCloud, error) {
	p, err := made()
	if err != nil {
		return nil, err
	}
	return p.start(name, hosts, services, env...)
}

// start starts a cloud that is made from them.
func (p products) start(name string, hosts int, services []string, env ...string) (*testCloud, error) {
	dir := filepath.Join(folder, name)
	c := &testCloud{products: p, dir: dir, faults: filepath.Join(dir, "faults"), env: env, hosts: hosts, proxies: map[string]*faultProxy{}}
	c.logins.of = map[string]session{}
	if err := os.Mkdir(c.dir, 0o711); err != nil {
		return nil, err
	}
	if err := os.Mkdir(c.faults, 0o700); err != nil {
		return nil, err
	}
	c.Layout = stack.Layout{State: filepath.Join(dir, "s"), PortBase: freeRow()}
	if leansOn() == openStack {
		var err error
		if c.real, err = startOpenStack(filepath.Join(dir, "c"), c.APIURL(), services); err != nil {
			return nil, err
		}
		for service, at := range behindProxies {
			if slices.Contains(services, service) {
				c.proxies[service] = newFaultProxy(c.real.Port(service), at.fault)
				c.env = append(c.env, at.setting+"="+c.proxies[service].URL+at.path)
			}
		}
	}
	err := c.launch()
	if err == nil {
		err = c.uploadGuests()
	}
	return c, err
}

// launch runs `strongroom dev` and waits until it is ready.
func (c *testCloud) launch() error {
	log, err := os.OpenFile(filepath.Join(c.dir, "dev.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	args := []string{"dev", "--state", c.State, "--port-base", fmt.Sprint(c.PortBase), "--own-libvirt", "--clouds-yaml", c.Layout.CloudsFile()}
	if c.real != nil {
		args = append(args, "--cloud", c.real.CloudsFile())
	}
	if c.hosts > 1 {
		args = append(args, "--hosts", fmt.Sprint(c.hosts))
	}
	c.cmd = exec.Command(c.binary, args...)
	// Guests write little: a small disk, or a /tmp in memory, has room for all of them at once.
	c.cmd.Env = slices.Concat(os.Environ(), []string{"STRONGROOM_FAULTPOINTS=" + c.faults, "STRONGROOM_HOST__DISK_RATIO=64"}, c.env)
	c.cmd.Stdout, c.cmd.Stderr = log, log
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := c.cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- c.cmd.Wait() }()
	var failure error
	err = await.Until("strongroom dev is ready", func() bool {
		if _, err := os.Stat(c.ReadyFile()); err == nil {
			return true
		}
		select {
		case err := <-ended:
			text, _ := os.ReadFile(log.Name())
			failure = fmt.Errorf("strongroom dev ended: %w\n%s", err, text)
		default:
		}
		return failure != nil
	}, c.logs())
	return cmp.Or(failure, err)
}

// stop ends `strongroom dev` as Ctrl-C does, and waits for it.
func (c *testCloud) stop() {
	_ = c.cmd.Process.Signal(os.Interrupt)
	err := await.Until("strongroom dev has ended", func() bool { return c.cmd.Process.Signal(syscall.Signal(0)) != nil }, c.logs())
	if err != nil {
		fmt.Println(err)
		_ = c.cmd.Process.Kill()
	}
}

// end stops everything.
func (c *testCloud) end() {
	if c.cmd != nil && c.cmd.Process != nil {
		c.stop()
	}
	if c.real == nil {
		return
	}
	for _, d := range c.proxies {
		d.CloseClientConnections()
		d.Close()
	}
	if err := c.real.Stop(context.Background()); err != nil {
		fmt.Println("the cloud does not stop cleanly:", err)
	}
}

// kill ends one part with SIGKILL, as a crash would. It is started again.
func (c *testCloud) kill(t *testing.T, part string) {
	t.Helper()
	pid, running := process.Named(c.PIDFile(part))
	require.True(t, running, "%s does not run", part)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
}

// session is a user's login.
type session struct {
	provider *gophercloud.ProviderClient
	endpoint gophercloud.EndpointOpts
}

// session gives a login of a user, by its cloud's name (see entry), that all tests
// use: logging in costs Keystone more than most of what is then asked for.
func (c *testCloud) session(user string) (session, error) {
	c.logins.Lock()
	defer c.logins.Unlock()
	if s, ok := c.logins.of[user]; ok {
		return s, nil
	}
	s, err := c.login(user)
	if err == nil {
		c.logins.of[user] = s
	}
	return s, err
}

// login logs in anew, for a test that looks at the token or ends it.
func (c *testCloud) login(user string) (session, error) {
	auth, endpoint, tls, err := clouds.Parse(clouds.WithCloudName(c.entry(user)), clouds.WithLocations(c.CloudsFile()))
	if err != nil {
		return session{}, err
	}
	auth.AllowReauth = true
	provider, err := config.NewProviderClient(context.Background(), auth, config.WithTLSConfig(tls))
	return session{provider: provider, endpoint: endpoint}, err
}

// compute gives a client of the compute API.
func (c *testCloud) compute(t *testing.T, user string) *gophercloud.ServiceClient {
	t.Helper()
	s, err := c.session(user)
	require.NoError(t, err)
	return s.compute(t)
}

// asking is compute with a token that is new. What an owner delegates, Keystone notes
// while his token is good, and tokens of these tests are not good for long.
func (c *testCloud) asking(t *testing.T, user string) *gophercloud.ServiceClient {
	t.Helper()
	s, err := c.login(user)
	require.NoError(t, err)
	return s.compute(t)
}

func (s session) compute(t *testing.T) *gophercloud.ServiceClient {
	t.Helper()
	client, err := openstack.NewComputeV2(s.provider, s.endpoint)
	require.NoError(t, err)
	client.Microversion = microversion
	return client
}
