package mount_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"strongroom/activities/mount"
	"strongroom/activities/secret"
	"strongroom/compute"
	"strongroom/deploy/guest/vm"
)

// kernelShare is what the machine is told of the test's share.
type kernelShare struct {
	Share           compute.ShareID
	Path, User, Key string
}

const kernelShareFile = "/share.json"

// kernelHost is the machine's.
type kernelHost struct {
	*host
	from kernelShare
}

func (h kernelHost) Export(context.Context, compute.Credential, compute.ShareID) (mount.Export, error) {
	return mount.Export{Path: h.from.Path, User: h.from.User, Key: secret.New([]byte(h.from.Key))}, nil
}

// SH-18, SH-25: where the kernel has a client for CephFS, it is the one that mounts, here on real Ceph by the rule that
// Manila made. No key is left in a keyring or among the options, and what one who may not mount is told says nothing.
func TestSH18CephFSByTheKernel(t *testing.T) {
	if vm.Inside() {
		mountByKernel(t)
		return
	}
	t.Parallel()
	h := beginOnCeph(t)
	h.allow(newServer())
	from, err := h.Export(t.Context(), h.cred, h.share)
	require.NoError(t, err)
	defer from.Key.Wipe()
	told := kernelShare{Share: h.share, Path: from.Path, User: from.User}
	require.NoError(t, from.Key.Use(func(key []byte) error { told.Key = string(key); return nil }))
	text, err := json.Marshal(told)
	require.NoError(t, err)
	vm.Machine{
		Modules: []string{"ceph"}, Programs: []string{"find"}, Files: map[string]string{kernelShareFile: string(text)}, Outside: cephPorts(t, filepath.Dir(h.ceph.ConfFile)),
	}.Run(t)
	written, err := os.ReadFile(filepath.Join(h.elsewhere(t), "letter"))
	require.NoError(t, err)
	require.Equal(t, "by the kernel", string(written))
}

var listening = regexp.MustCompile(`127\.0\.0\.1:(\d+) .*pid=(\d+)`)

// cephPorts are those that a Ceph listens on whose settings are in a folder.
func cephPorts(t *testing.T, dir string) (ports []int) {
	t.Helper()
	out, err := exec.Command("ss", "-Hltnp").Output()
	require.NoError(t, err)
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		found := listening.FindStringSubmatch(lines.Text())
		if found == nil {
			continue
		}
		if arguments, _ := os.ReadFile("/proc/" + found[2] + "/cmdline"); bytes.Contains(arguments, []byte(dir+"/")) {
			port, err := strconv.Atoi(found[1])
			require.NoError(t, err)
			ports = append(ports, port)
		}
	}
	require.NotEmpty(t, ports)
	return ports
}

func mountByKernel(t *testing.T) {
	t.Helper()
	h := kernelHost{host: begin(t)}
	text, err := os.ReadFile(kernelShareFile)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &h.from))
	h.share = h.from.Share
	h.Activities, err = mount.New(mount.Config{Dir: h.Dir, Exports: h, Guests: h.host})
	require.NoError(t, err)
	in := h.input(newServer())
	in.Protocol = compute.CephFSShare
	for range 2 {
		require.NoError(t, h.Mount(t.Context(), in))
		require.Equal(t, 1, h.mounts())
	}
	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs(h.Path(h.share), &fs))
	require.EqualValues(t, unix.CEPH_SUPER_MAGIC, fs.Type)
	require.NoError(t, os.WriteFile(filepath.Join(h.Path(h.share), "letter"), []byte("by the kernel"), 0o600))
	table, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	keys, err := os.ReadFile("/proc/keys")
	require.NoError(t, err)
	require.NotContains(t, string(table), h.from.Key)
	require.NotContains(t, string(keys), "strongroom-mount-")

	other := h.again(h.Dir)
	other.Exports = h
	second := in
	second.Server = newServer()
	require.NoError(t, other.Mount(t.Context(), second))
	require.NoError(t, other.Remove(t.Context(), h.use(in.Server)))
	require.Equal(t, 1, h.mounts(), "the other one uses it")
	require.NoError(t, other.Remove(t.Context(), h.use(second.Server)))
	require.Zero(t, h.mounts())
	require.Empty(t, h.seen())

	wrong := h
	wrong.from.User += "x"
	other.Exports = wrong
	err = other.Mount(t.Context(), in)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "volumes")
	require.NotContains(t, err.Error(), h.from.Key)
	require.Zero(t, h.mounts())
}
