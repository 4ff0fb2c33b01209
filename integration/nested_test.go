package integration_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/services"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"

	"strongroom/deploy/await"
	"strongroom/deploy/dev/libvirtd"
	"strongroom/deploy/guest"
	"strongroom/deploy/guest/vm"
)

// A nested host is a compute host in a virtual machine with a stock kernel, which has a device
// mapper: libvirtd, QEMU, LVM, cryptsetup and strongroom's host worker run in it, and the rest of the
// cloud outside. Its guests run on an emulated CPU that emulates another: they are those that do
// little (guest.BuildCounting).
type nestedHost struct {
	*testCloud
	machine *vm.Running
	name    string
	count   string // the image of the guest that counts its boots
	config  map[string]any
}

// countingImage is the name of the image of the guest that counts its boots.
const countingImage = "counting"

// What is in the machine.
const (
	nestedPort   = 8000 // does what it is asked for
	nestedAgent  = 8776
	nestedGroup  = "cloud-disks"
	nestedConfig = "/etc/strongroom-nested.yaml"
	nestedState  = "/var/lib/strongroom-nested"
	nestedFaults = "/run/faults"
	nestedLVM    = `
devices { obtain_device_list_from_udev = 0 external_device_info_source = "none" use_devicesfile = 0 hints = "none" }
activation { udev_sync = 0 udev_rules = 0 monitoring = 0 }
backup { backup = 0 archive = 0 }
`
)

// newNestedHost gives a cloud of the test's own, whose servers are placed on a nested host: it is
// enrolled and runs, and makes encrypted disks in the format, unless they are asked for in another.
// In the machine it does what the test outside asks for, and gives nil.
func newNestedHost(t *testing.T, format string) *nestedHost {
	t.Helper()
	return newNestedHostWith(t, format, nestedNeeds{})
}

// nestedNeeds are what a test needs of a nested host, or around it, beside what all have.
type nestedNeeds struct {
	name     string         // of its cloud; the format, if it is empty
	services []string       // of OpenStack
	modules  []string       // of the kernel
	forward  map[int]string // ports of the machine's 127.0.0.1 that lead to services of OpenStack
	host     map[string]any // configuration
	cgroups  bool           // its guests have some
}

func newNestedHostWith(t *testing.T, format string, needs nestedNeeds) *nestedHost {
	t.Helper()
	if vm.Inside() {
		serveNested(t, needs)
		return nil
	}
	needRoot(t)
	t.Parallel()
	ownClouds.borrow(t, alone, 1)
	c, err := startWith("n"+cmp.Or(needs.name, format), 1, slices.Concat(coreServices, needs.services))
	if c != nil {
		t.Cleanup(c.end)
	}
	require.NoError(t, err)
	h := &nestedHost{testCloud: c, name: "nested"}
	var settings struct {
		Temporal struct{ Address string }
		Gateway  struct{ Listen string }
	}
	readYAML(t, c.ConfigFile(), &settings)
	forward := map[int]int{}
	for port, service := range needs.forward {
		forward[port] = c.real.Port(service)
	}
	h.machine = vm.Machine{
		Modules: append([]string{"dm-crypt", "xts", "aesni-intel", "algif_skcipher", "algif_hash",
			"essiv", "dm-integrity", "algif_aead", "authenc", "hmac", "sha256_generic", "ext4",
			"nf_tables", "nft_compat", "xt_comment", // a host keeps its guests from the storage of shares (S6)
		}, needs.modules...), Forward: forward,
		Whole: true, DiskMiB: 512, MemoryMiB: 2048, CPUs: 2,
		Ports: []int{nestedPort, nestedAgent}, Outside: []int{portOf(t, settings.Temporal.Address), portOf(t, settings.Gateway.Listen)},
	}.Start(t)
	await.For(t, "the machine answers", func() bool {
		resp, err := http.Get("http://" + h.machine.Address(nestedPort) + "/")
		return err == nil && resp.Body.Close() == nil
	}, h.work())
	h.config = map[string]any{
		"temporal": map[string]any{"address": settings.Temporal.Address, "namespace": "default", "tls": map[string]any{"own": true}},
		"host": map[string]any{
			"name": h.name, "id_file": nestedState + "/host.id", "instances": nestedState + "/instances", "image_cache": nestedState + "/cache",
			"certificate": nestedState + "/certificate", "run": "/run/strongroom", "volume_group": nestedGroup,
			"libvirt_socket": nestedLibvirtd.Dir + "/run/libvirt-sock", "virt_type": "qemu", "swtpm_enabled": false, "traffic_filter": "off",
			"agent_listen": fmt.Sprintf("0.0.0.0:%d", nestedAgent), "agent_url": "https://" + h.machine.Address(nestedAgent),
			"gateway":    "https://" + settings.Gateway.Listen,
			"disk_ratio": 64, // its files are in memory
		},
	}
	maps.Copy(h.config["host"].(map[string]any), needs.host)
	token, err := exec.Command(c.binary, "--config", c.ConfigFile(), "host", "token", h.name).Output()
	require.NoError(t, err)
	h.defaultFormat(t, format, string(token))
	c.updateService(t, c.Host(1), map[string]any{"status": "disabled"})

	file := c.dir + "/counting.qcow2"
	require.NoError(t, guest.BuildCounting(t.Context(), file))
	h.count, err = uploadGuest(c.imageService(t, ""), countingImage, file)
	require.NoError(t, err)
	return h
}

// defaultFormat has the host make encrypted disks in a format, and starts its worker anew. With a
// token it enrolls first.
func (h *nestedHost) defaultFormat(t *testing.T, format, token string) {
	t.Helper()
	h.config["host"].(map[string]any)["ephemeral_storage_encryption"] = map[string]any{"default_format": format}
	text, err := yaml.Marshal(h.config)
	require.NoError(t, err)
	h.inside(t, string(text), "sh", "-c", "umask 077 && cat >"+nestedConfig)
	if token != "" {
		h.inside(t, token, h.binary, "--config", nestedConfig, "host", "enroll")
	}
	h.ask(t, "/worker", nestedOrder{Command: []string{h.binary, "--config", nestedConfig, "host"}})
	h.isUp(t)
}

// returns has the host's worker started anew, and again whenever it has ended, as a service manager does. Points that are armed in the
// machine (armInside) cut it off.
func (h *nestedHost) returns(t *testing.T) {
	t.Helper()
	h.inside(t, "", "mkdir", "-p", nestedFaults)
	h.ask(t, "/worker", nestedOrder{Command: []string{"sh", "-c", fmt.Sprintf(
		"while :; do STRONGROOM_FAULTPOINTS=%s %s --config %s host; sleep 0.3; done", nestedFaults, h.binary, nestedConfig)}})
}

// armInside makes the host's worker die when it reaches a point, which reached requires to have been so.
func (h *nestedHost) armInside(t *testing.T, point string) (reached func()) {
	t.Helper()
	h.inside(t, "", "touch", nestedFaults+"/"+point)
	return func() {
		t.Helper()
		h.inside(t, "", "test", "!", "-e", nestedFaults+"/"+point)
	}
}

// work tells how much the machine has done. It has a lifetime, so that this ends.
func (h *nestedHost) work() await.Witness {
	return await.Witness{Name: "the machine's time", Look: func() string {
		const much = 30 * time.Second // than it takes when it idles
		all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, file := range all {
			if arguments, _ := os.ReadFile(file); bytes.Contains(arguments, []byte(h.machine.Disk)) {
				threads, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "task", "*"))
				return fmt.Sprint(ranFor(threads).Truncate(much))
			}
		}
		return "it is off"
	}}
}

// isUp waits until the host's worker says that it runs.
func (h *nestedHost) isUp(t *testing.T) {
	t.Helper()
	since := time.Now() // what was said before is of another worker, or long ago
	await.For(t, "the worker of host "+h.name+" says that it runs", func() bool {
		pages, err := services.List(h.compute(t, ""), services.ListOpts{Host: h.name, Binary: "nova-compute"}).AllPages(t.Context())
		require.NoError(t, err)
		all, err := services.ExtractServices(pages)
		require.NoError(t, err)
		return len(all) == 1 && all[0].State == "up" && all[0].UpdatedAt.After(since)
	}, h.work())
}

// createOf asks for a server while the host takes some: one that a busy machine starved was silent, and counts as down.
func (h *nestedHost) createOf(t *testing.T, f flavorSpec, image string) string {
	t.Helper()
	h.isUp(t)
	return h.testCloud.createOf(t, f, image)
}

// inside runs a command on the host, with what it shall read, and gives what it prints.
func (h *nestedHost) inside(t *testing.T, in string, command ...string) string {
	t.Helper()
	return h.ask(t, "/run", nestedOrder{In: in, Command: command})
}

// nestedOrder is what is asked of the machine.
type nestedOrder struct {
	In      string
	Command []string
}

func (h *nestedHost) ask(t *testing.T, path string, order nestedOrder) string {
	t.Helper()
	body, err := json.Marshal(order)
	require.NoError(t, err)
	resp, err := http.Post("http://"+h.machine.Address(nestedPort)+path, "application/json", bytes.NewReader(body))
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	said, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, "%v: %s", order.Command, said)
	return string(said)
}

// boots waits until a server's guest has booted, and requires how often it did from its disk.
func (h *nestedHost) boots(t *testing.T, id string, times int) {
	t.Helper()
	var said string
	want := strings.TrimSpace(guest.CountingText) + digit(times)
	await.For(t, fmt.Sprintf("the guest of server %s says %q", id, want), func() bool {
		said, _ = servers.ShowConsoleOutput(t.Context(), h.compute(t, "-demo"), id, servers.ShowConsoleOutputOpts{}).Extract()
		at := strings.LastIndex(said, strings.TrimSpace(guest.CountingText))
		return at >= 0 && strings.HasPrefix(said[at:], want) && strings.Contains(said[at:], "ready")
	}, h.progress(id), h.work(), await.Witness{Name: "guest", Look: func() string { return fmt.Sprintf("%d bytes, the last %.80q", len(said), lastLine([]byte(said))) }})
}

// opened lists the volumes that the host's kernel decrypts.
func (h *nestedHost) opened(t *testing.T) (names []string) {
	t.Helper()
	for line := range strings.Lines(h.inside(t, "", "dmsetup", "ls", "--target", "crypt")) {
		if name, _, ok := strings.Cut(line, "\t"); ok {
			names = append(names, name)
		}
	}
	return names
}

// volumes lists the host's logical volumes.
func (h *nestedHost) volumes(t *testing.T) []string {
	t.Helper()
	return strings.Fields(h.inside(t, "", "lvm", "lvs", "--noheadings", "--options", "lv_name", nestedGroup))
}

// volumesOf are those of a server.
func (h *nestedHost) volumesOf(t *testing.T, id string) []string {
	t.Helper()
	return slices.DeleteFunc(h.volumes(t), func(name string) bool { return !strings.HasPrefix(name, id+"_") })
}

var nestedLibvirtd = libvirtd.Config{Dir: "/run/libvirtd-nested", CacheDir: libvirtd.DefaultCacheDir(), Mode: libvirtd.Contained}

// serveNested makes the machine a compute host and does what is asked of it, as long as it is on.
func serveNested(t *testing.T, needs nestedNeeds) {
	t.Helper()
	t.Setenv("DM_DISABLE_UDEV", "1")
	require.NoError(t, os.WriteFile("/etc/lvm/lvm.conf", []byte(nestedLVM), 0o600))
	for _, args := range [][]string{{"pvcreate", "--quiet", "/dev/vda"}, {"vgcreate", "--quiet", nestedGroup, "/dev/vda"}} {
		out, err := exec.Command("lvm", args...).CombinedOutput()
		require.NoError(t, err, string(out))
	}
	require.NoError(t, os.MkdirAll("/dev/hugepages", 0o755))
	require.NoError(t, unix.Mount("hugetlbfs", "/dev/hugepages", "hugetlbfs", 0, "")) // libvirtd looks for it when it begins
	// What is mounted there later is to be seen by libvirtd, as systemd has it of the whole machine.
	for _, folder := range []string{nestedState, nestedLibvirtd.Dir} {
		require.NoError(t, os.MkdirAll(folder, 0o711))
		require.NoError(t, unix.Mount(folder, folder, "", unix.MS_BIND, ""))
		require.NoError(t, unix.Mount("", folder, "", unix.MS_SHARED, ""))
	}
	config := nestedLibvirtd
	if config.Cgroups = needs.cgroups; needs.cgroups {
		require.NoError(t, os.MkdirAll("/sys/fs/cgroup", 0o755))
		require.NoError(t, unix.Mount("cgroup2", "/sys/fs/cgroup", "cgroup2", 0, ""))
	}
	_, err := libvirtd.Start(t.Context(), config)
	require.NoError(t, err)
	var worker struct {
		sync.Mutex
		*exec.Cmd
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(http.ResponseWriter, *http.Request) {})
	answer := func(w http.ResponseWriter, said []byte, err error) {
		if err != nil {
			http.Error(w, fmt.Sprintf("%v: %s", err, said), http.StatusInternalServerError)
			return
		}
		_, _ = w.Write(said)
	}
	command := func(ctx context.Context, r *http.Request) (*exec.Cmd, error) {
		var order nestedOrder
		if err := json.NewDecoder(r.Body).Decode(&order); err != nil {
			return nil, err
		}
		cmd := exec.CommandContext(ctx, order.Command[0], order.Command[1:]...)
		cmd.Stdin = strings.NewReader(order.In)
		return cmd, nil
	}
	mux.HandleFunc("POST /run", func(w http.ResponseWriter, r *http.Request) {
		cmd, err := command(r.Context(), r)
		if err != nil {
			answer(w, nil, err)
			return
		}
		said, err := cmd.CombinedOutput()
		answer(w, said, err)
	})
	mux.HandleFunc("POST /worker", func(w http.ResponseWriter, r *http.Request) {
		worker.Lock()
		defer worker.Unlock()
		if worker.Cmd != nil {
			_ = worker.Process.Kill()
			_ = worker.Wait()
		}
		var err error
		if worker.Cmd, err = command(context.WithoutCancel(r.Context()), r); err == nil {
			worker.Stdout, worker.Stderr = os.Stdout, os.Stdout
			err = worker.Start()
		}
		answer(w, nil, err)
	})
	require.NoError(t, (&http.Server{Addr: fmt.Sprintf(":%d", nestedPort), Handler: mux, ReadHeaderTimeout: time.Minute}).ListenAndServe())
}

func portOf(t *testing.T, address string) (port int) {
	t.Helper()
	_, text, ok := strings.Cut(address, ":")
	require.True(t, ok)
	_, err := fmt.Sscan(text, &port)
	require.NoError(t, err)
	return port
}
