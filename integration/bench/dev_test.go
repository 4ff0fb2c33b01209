package bench_test

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/imagedata"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"google.golang.org/protobuf/proto"

	"strongroom/compute"
	"strongroom/deploy/await"
	"strongroom/deploy/dev/port"
	"strongroom/deploy/dev/stack"
	"strongroom/deploy/guest"
	"strongroom/durable"
	"strongroom/worker/pki"
)

const (
	settleTimeout = 5 * time.Minute
	pollEvery     = 5 * time.Millisecond // a client's look at a server takes about as long
)

// dev is a running `strongroom dev` of some binary, and a user of it.
type dev struct {
	*testing.B
	stack.Layout
	name     string
	env      []string // settings of its own
	clouds   string   // clouds.yaml of its users; "": its own
	user     *gophercloud.ServiceClient
	temporal client.Client
	server   servers.CreateOpts // what it creates
	active   func()             // called when a server is ACTIVE; nil: nothing is
}

// startDev runs a binary on a PostgreSQL, a Temporal and a libvirtd of its own, and makes what
// BenchmarkSpawn creates.
func startDev(b *testing.B, name, binary string) *dev {
	b.Helper()
	d := launchDev(b, name, binary)
	admin, endpoint := d.login(stack.CloudName)
	d.server = servers.CreateOpts{Name: "bench", Networks: "none",
		FlavorRef: d.flavor(admin, endpoint, flavors.ExtraSpecsOpts{"hw:ephemeral_encryption": "true", "hw:tpm_version": "2.0"}),
		ImageRef:  d.image(admin, endpoint, idleImage(b))}
	provider, endpoint := d.login(stack.CloudName + "-demo")
	d.user = d.compute(provider, endpoint)
	return d
}

// launchDev runs a binary, with further arguments of its command dev.
func launchDev(b *testing.B, name, binary string, args ...string) *dev {
	b.Helper()
	d, dir := newDev(b, name)
	d.start(binary, dir, args...)
	return d
}

// newDev is one that does not run yet, and the folder for what belongs to it.
func newDev(b *testing.B, name string) (*dev, string) {
	b.Helper()
	dir, err := os.MkdirTemp("/tmp", "srb") // short: there are unix sockets below it
	require.NoError(b, err)
	require.NoError(b, os.Chmod(dir, 0o711))
	return &dev{B: b, name: name, Layout: stack.Layout{State: filepath.Join(dir, "s"), PortBase: freePorts(b)}}, dir
}

func (d *dev) start(binary, dir string, args ...string) {
	d.Helper()
	d.launch(binary, dir, args...)
	var err error
	d.temporal, err = d.dialTemporal()
	require.NoError(d, err)
	d.Cleanup(d.temporal.Close)
}

// dialTemporal connects to Temporal. Releases before 0.2.0 have one that asks for no
// certificate, and no authority.
func (d *dev) dialTemporal() (client.Client, error) {
	if _, err := os.Stat(d.Authority()); errors.Is(err, fs.ErrNotExist) {
		return client.Dial(client.Options{HostPort: d.TemporalAddress(), Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	}
	return d.DialTemporal(pki.Operator)
}

func (d *dev) launch(binary, dir string, args ...string) {
	d.Helper()
	output, err := os.Create(filepath.Join(dir, "dev.log"))
	require.NoError(d, err)
	defer func() { _ = output.Close() }()
	cmd := exec.Command(binary, append([]string{"dev", "--state", d.State, "--port-base", fmt.Sprint(d.PortBase), "--own-libvirt", "--clouds-yaml", d.CloudsFile()}, args...)...)
	cmd.Env = append(os.Environ(), d.env...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	require.NoError(d, cmd.Start())
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	d.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		<-ended
		if d.Failed() {
			d.Log("state and logs of", d.name, "are kept in", dir)
			return
		}
		require.NoError(d, os.RemoveAll(dir))
	})
	await.For(d, "strongroom dev is ready: "+d.name, func() bool {
		if _, err := os.Stat(d.ReadyFile()); err == nil {
			return true
		}
		select {
		case <-ended:
			text, _ := os.ReadFile(output.Name())
			require.Fail(d, "strongroom dev ended", "%s: %s", d.name, text)
		default:
		}
		return false
	}, await.Witness{Name: "its log", Look: func() string {
		text, _ := os.ReadFile(output.Name())
		return fmt.Sprint(len(text), " bytes")
	}})
}

// freePorts finds a row of ports for a stack.
func freePorts(b *testing.B) int {
	b.Helper()
	for {
		first, err := port.Or(b.Context(), 0)
		require.NoError(b, err)
		if (stack.Layout{PortBase: first}).PortsAreFree() == nil {
			return first
		}
	}
}

func (d *dev) login(cloud string) (*gophercloud.ProviderClient, gophercloud.EndpointOpts) {
	d.Helper()
	auth, endpoint, tls, err := clouds.Parse(clouds.WithCloudName(cloud), clouds.WithLocations(cmp.Or(d.clouds, d.CloudsFile())))
	require.NoError(d, err)
	auth.AllowReauth = true
	provider, err := config.NewProviderClient(d.Context(), auth, config.WithTLSConfig(tls))
	require.NoError(d, err)
	return provider, endpoint
}

func (d *dev) compute(provider *gophercloud.ProviderClient, endpoint gophercloud.EndpointOpts) *gophercloud.ServiceClient {
	d.Helper()
	c, err := openstack.NewComputeV2(provider, endpoint)
	require.NoError(d, err)
	c.Microversion = "2.90"
	return c
}

// flavor has a disk of 1 GiB.
func (d *dev) flavor(provider *gophercloud.ProviderClient, endpoint gophercloud.EndpointOpts, specs flavors.ExtraSpecsOpts) string {
	d.Helper()
	admin, root := d.compute(provider, endpoint), 1
	_, err := flavors.Create(d.Context(), admin, flavors.CreateOpts{ID: "bench", Name: "bench", VCPUs: 1, RAM: 192, Disk: &root}).Extract()
	require.NoError(d, err)
	_, err = flavors.CreateExtraSpecs(d.Context(), admin, "bench", specs).Extract()
	require.NoError(d, err)
	return "bench"
}

// idleImage is of a guest that does nothing: what strongroom does is measured, not a boot.
func idleImage(b *testing.B) string {
	b.Helper()
	file := filepath.Join(b.TempDir(), "idle.qcow2")
	require.NoError(b, guest.BuildIdle(b.Context(), file))
	return file
}

// image uploads a file in qcow2.
func (d *dev) image(provider *gophercloud.ProviderClient, endpoint gophercloud.EndpointOpts, file string) string {
	d.Helper()
	public := images.ImageVisibilityPublic
	store, err := openstack.NewImageV2(provider, endpoint)
	require.NoError(d, err)
	img, err := images.Create(d.Context(), store, images.CreateOpts{Name: "idle", DiskFormat: "qcow2", ContainerFormat: "bare", Visibility: &public}).Extract()
	require.NoError(d, err)
	data, err := os.Open(file)
	require.NoError(d, err)
	defer func() { _ = data.Close() }()
	require.NoError(d, imagedata.Upload(d.Context(), store, img.ID, data).ExtractErr())
	return img.ID
}

// spawn creates a server, and deletes it again.
func (d *dev) spawn() (s spawned) {
	d.Helper()
	begin := time.Now()
	created, err := servers.Create(d.Context(), d.user, d.server, nil).Extract()
	require.NoError(d, err)
	d.until(created.ID, func(now *servers.Server, err error) bool {
		require.NoError(d, err)
		require.NotEqual(d, "ERROR", now.Status, now.Fault.Message)
		return now.Status == "ACTIVE"
	})
	s.took = time.Since(begin)
	if d.active != nil {
		d.active()
	}
	server := compute.ServerOwner(compute.ServerID{UUID: uuid.MustParse(created.ID)})
	d.measure(durable.WorkflowID(server, compute.OpCreate), &s)
	require.NoError(d, servers.Delete(d.Context(), d.user, created.ID).ExtractErr())
	d.until(created.ID, func(_ *servers.Server, err error) bool {
		return gophercloud.ResponseCodeIs(err, http.StatusNotFound)
	})
	d.ends(durable.WorkflowID(server, compute.OpDelete))
	return s
}

func (d *dev) until(id string, is func(*servers.Server, error) bool) {
	d.Helper()
	shown := ""
	await.Every(d, pollEvery, d.name+": the operation on server "+id+" settles", func() bool {
		s, err := servers.Get(d.Context(), d.user, id).Extract()
		if err == nil {
			shown = fmt.Sprintf("%s %s %d%%", s.Status, s.TaskState, s.Progress)
		}
		return is(s, err)
	}, await.Witness{Name: "server", Look: func() string { return shown }})
}

func (d *dev) ends(workflow string) {
	d.Helper()
	require.NoError(d, d.temporal.GetWorkflow(d.Context(), workflow, "").Get(d.Context(), nil))
}

// measure reads the history of a workflow once it has ended.
func (d *dev) measure(workflow string, s *spawned) {
	d.Helper()
	d.ends(workflow)
	events := d.temporal.GetWorkflowHistory(d.Context(), workflow, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		require.NoError(d, err)
		s.events++
		s.bytes += proto.Size(event)
		if event.GetEventType() == enumspb.EVENT_TYPE_MARKER_RECORDED {
			s.markers++
		}
	}
}
