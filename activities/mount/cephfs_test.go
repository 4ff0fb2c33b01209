package mount_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	gopher "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"strongroom/activities/mount"
	"strongroom/activities/secret"
	"strongroom/activities/share"
	"strongroom/activities/share/manila"
	"strongroom/compute"
	"strongroom/deploy/cloud/cloudtest"
)

// cephHost is a host with a share of Manila's, on CephFS.
type cephHost struct {
	*host
	*manila.Service
	ceph   cloudtest.Ceph
	client *gophercloud.ServiceClient
	cred   compute.Credential
	id     compute.HostID
	user   share.Grantee
	memory string
	wrong  *mount.Export // what the host is told instead of the truth
}

func (h *cephHost) Client(context.Context, compute.Credential) (*gophercloud.ServiceClient, error) {
	return h.client, nil
}

// Export gives what a gateway does.
func (h *cephHost) Export(ctx context.Context, cred compute.Credential, id compute.ShareID) (mount.Export, error) {
	if h.wrong != nil {
		return *h.wrong, nil
	}
	locations, err := h.Locations(ctx, h.cred, id)
	if err != nil {
		return mount.Export{}, err
	}
	key, err := h.AccessKey(ctx, h.cred, id, h.user)
	return mount.Export{Path: locations[0].Path(), User: h.user.Name, Key: key}, err
}

func beginOnCeph(t *testing.T) *cephHost {
	t.Helper()
	h := &cephHost{host: begin(t), ceph: cloudtest.OpenCeph(t), id: compute.HostID{UUID: uuid.New()}, memory: t.TempDir()}
	provider := cloudtest.NewProject(t).Login(t)
	userID, projectID := cloudtest.Who(t, provider)
	h.cred = compute.Credential{ID: uuid.New(), ProjectID: projectID, UserID: userID}
	var err error
	h.client, err = gopher.NewSharedFileSystemV2(provider, cloudtest.Endpoint)
	require.NoError(t, err)
	h.Service = &manila.Service{Clients: h}
	h.share = compute.ShareID{UUID: uuid.MustParse(cloudtest.NewShare(t, provider, cloudtest.CephFSShares, "CEPHFS").ID)}
	h.user = share.UserOf(h.id, h.share)
	h.host.Activities = h.again(h.Dir)
	t.Cleanup(func() {
		for unix.Unmount(h.Path(h.share), unix.MNT_DETACH) == nil { // what a test that failed left
		}
	})
	return h
}

// again is another process of the same host.
func (h *cephHost) again(dir string) *mount.Activities {
	a, err := mount.New(mount.Config{Dir: dir, Exports: h, Guests: h.host, Memory: h.memory})
	require.NoError(h.t, err)
	return a
}

func (h *cephHost) allow(server compute.ServerID) {
	h.t.Helper()
	_, err := h.Allow(h.t.Context(), share.AllowInput{Credential: h.cred, Share: h.share, Server: server, To: h.user, Level: share.ReadWrite})
	require.NoError(h.t, err)
}

func (h *cephHost) deny(server compute.ServerID) {
	h.t.Helper()
	require.NoError(h.t, h.Deny(h.t.Context(), share.DenyInput{Credential: h.cred, Share: h.share, Server: server}))
}

func (h *cephHost) input(server compute.ServerID) mount.Input {
	in := h.host.input(server)
	in.Protocol = compute.CephFSShare
	return in
}

// pid is the process that serves the mount.
func (h *host) pid() int {
	h.t.Helper()
	text, err := os.ReadFile(filepath.Join(h.Dir, h.share.String(), "pid"))
	require.NoError(h.t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(h.t, err)
	return pid
}

// elsewhere is a second mount of the share, past the host.
func (h *cephHost) elsewhere(t *testing.T) (folder string) {
	t.Helper()
	other := share.UserOf(compute.HostID{UUID: uuid.New()}, h.share)
	in := share.AllowInput{Credential: h.cred, Share: h.share, Server: newServer(), To: other, Level: share.ReadWrite}
	_, err := h.Allow(t.Context(), in)
	require.NoError(t, err)
	locations, err := h.Locations(t.Context(), h.cred, h.share)
	require.NoError(t, err)
	key, err := h.AccessKey(t.Context(), h.cred, h.share, other)
	require.NoError(t, err)
	defer key.Wipe()
	require.NoError(t, key.Use(func(value []byte) error {
		folder = h.ceph.Mount(t, locations[0].Path(), other.Name, string(value))
		return nil
	}))
	return folder
}

// SH-10, SH-11, SH-17, SH-18: a share of CephFS is mounted once for two servers, also when the worker
// was restarted, and what is written there is in the share. Nothing of the key stays on the host.
func TestSH18AShareOfCephFSIsMounted(t *testing.T) {
	t.Parallel()
	h, one, two := beginOnCeph(t), newServer(), newServer()
	h.allow(one)
	h.allow(two)
	for range 2 {
		require.NoError(t, h.Mount(t.Context(), h.input(one)))
		require.Equal(t, 1, h.mounts())
	}
	first := h.pid()
	h.host.Activities = h.again(h.Dir)
	require.NoError(t, h.Mount(t.Context(), h.input(two)))
	require.Equal(t, 1, h.mounts())
	require.Equal(t, first, h.pid())
	require.NoError(t, os.WriteFile(filepath.Join(h.Path(h.share), "letter"), []byte("dear"), 0o600))
	other := h.elsewhere(t)
	text, err := os.ReadFile(filepath.Join(other, "letter"))
	require.NoError(t, err)
	require.Equal(t, "dear", string(text))
	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs(h.Path(h.share), &fs))
	require.Equal(t, int64(unix.ST_NOEXEC|unix.ST_NODEV|unix.ST_NOSUID), fs.Flags&(unix.ST_NOEXEC|unix.ST_NODEV|unix.ST_NOSUID))

	key, err := h.AccessKey(t.Context(), h.cred, h.share, h.user)
	require.NoError(t, err)
	locations, err := h.Locations(t.Context(), h.cred, h.share)
	require.NoError(t, err)
	left, err := os.ReadDir(h.memory)
	require.NoError(t, err)
	require.Empty(t, left)
	var notes []byte
	for _, file := range []string{filepath.Join("/proc", strconv.Itoa(first), "cmdline"), filepath.Join("/proc", strconv.Itoa(first), "environ"),
		filepath.Join(h.Dir, h.share.String(), "source"), filepath.Join(h.Dir, h.share.String(), one.String()+".use")} {
		note, err := os.ReadFile(file)
		require.NoError(t, err)
		notes = append(notes, note...)
	}
	require.NotContains(t, string(notes), locations[0].Path())
	_, path, _ := strings.Cut(locations[0].Path(), ":/")
	require.NotContains(t, string(notes), path)
	require.NoError(t, key.Use(func(value []byte) error {
		require.NotContains(t, string(notes), string(value), "INVARIANT")
		return nil
	}))

	require.NoError(t, h.Remove(t.Context(), h.use(one)))
	require.Equal(t, 1, h.mounts())
	h.deny(one)
	require.FileExists(t, filepath.Join(h.Path(h.share), "letter"))
	require.NoError(t, os.WriteFile(filepath.Join(h.Path(h.share), "last"), []byte("word"), 0o600))
	require.Eventually(t, func() bool { // as a workflow tries again, while ceph-fuse still writes
		err = h.Remove(t.Context(), h.use(two))
		return compute.KindOf(err) != compute.Unavailable
	}, time.Minute, time.Second)
	require.NoError(t, err)
	require.Zero(t, h.mounts())
	require.NoError(t, h.Remove(t.Context(), h.use(two)))
	require.False(t, alive(first), "ceph-fuse has ended, so that all is written")
	require.NoDirExists(t, filepath.Dir(h.Path(h.share)))
	require.Empty(t, h.seen())
	h.deny(two)
	text, err = os.ReadFile(filepath.Join(other, "last"))
	require.NoError(t, err)
	require.Equal(t, "word", string(text))
}

// alive reports whether a process runs; one that nobody has collected yet does not.
func alive(pid int) bool {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	return err == nil && len(text) > 0
}

// The mount is made where libvirt's daemon sees it, and its program is waited for, though that is in
// another namespace of processes.
func TestAMountOfCephFSIsMadeWhereLibvirtSeesIt(t *testing.T) {
	t.Parallel()
	h, server := beginOnCeph(t), newServer()
	daemon := h.apart()
	h.allow(server)
	for range 2 {
		require.NoError(t, h.Mount(t.Context(), h.input(server)))
		require.Equal(t, 1, h.mountsOf(daemon))
		require.Zero(t, h.mounts())
	}
	pid := h.pid()
	require.True(t, alive(pid))
	there := filepath.Join("/proc", strconv.Itoa(daemon), "root", h.Path(h.share), "letter")
	require.NoError(t, os.WriteFile(there, []byte("dear"), 0o600))
	require.NoError(t, h.Remove(t.Context(), h.use(server)))
	require.Zero(t, h.mountsOf(daemon))
	require.False(t, alive(pid))
	h.deny(server)
	require.Empty(t, h.seen())
}

// SH-14: a mount that was shut out, or whose program has ended, is made anew for the next start.
func TestSH14ADeadMountIsMadeAnew(t *testing.T) {
	t.Parallel()
	h, one, two := beginOnCeph(t), newServer(), newServer()
	for name, kill := range map[string]func(){
		"the rule was taken away": func() {
			h.deny(one)
			require.Eventually(t, func() bool { // the storage may take a moment
				_, err := os.ReadDir(h.Path(h.share))
				return err != nil
			}, time.Minute, 50*time.Millisecond)
		},
		"ceph-fuse was killed": func() { // whoever looks at its mount may get an error, or no answer
			require.NoError(t, syscall.Kill(h.pid(), syscall.SIGKILL))
			require.Eventually(t, func() bool { return !alive(h.pid()) }, time.Minute, 50*time.Millisecond)
		},
	} {
		letter := filepath.Join(h.Path(h.share), "letter")
		h.allow(one)
		require.NoError(t, h.Mount(t.Context(), h.input(one)), name)
		require.NoError(t, os.WriteFile(letter, nil, 0o600))
		first := h.pid()
		kill()
		h.allow(two)
		require.NoError(t, h.Mount(t.Context(), h.input(two)), name)
		require.Equal(t, 1, h.mounts(), name)
		require.NotEqual(t, first, h.pid(), name)
		_, err := os.ReadDir(h.Path(h.share))
		require.NoError(t, err, name)
		for _, server := range []compute.ServerID{one, two} {
			require.NoError(t, h.Remove(t.Context(), h.use(server)), name)
			h.deny(server)
		}
		require.Empty(t, h.seen(), name)
	}
}

// SH-12, SH-25: a mount that fails says why, and neither from where nor with which key.
func TestSH12AMountOfCephFSThatFails(t *testing.T) {
	t.Parallel()
	h, server := beginOnCeph(t), newServer()
	err := h.Mount(t.Context(), h.input(server))
	require.Equal(t, compute.NotFound, compute.KindOf(err), "there is no rule: %v", err)
	h.allow(server)
	good, err := h.Export(t.Context(), h.cred, h.share)
	require.NoError(t, err)
	const wrongKey = "AQAxAxZmAAAAABAAwrongwrongwrongwrong1w=="
	for name, tc := range map[string]struct {
		change func(e *mount.Export)
		says   string
	}{
		"a wrong key":         {func(e *mount.Export) { e.Key = secret.New([]byte(wrongKey)) }, "none knows the key"},
		"another folder":      {func(e *mount.Export) { e.Path += "-other" }, "permi"},
		"a setting of Ceph's": {func(e *mount.Export) { e.Path += "\nlog_file = /tmp/x" }, "cannot be read"},
		"another's user":      {func(e *mount.Export) { e.User = "admin\n[global]" }, "cannot be read"},
	} {
		wrong := good
		wrong.Key = copyOf(t, good.Key)
		tc.change(&wrong)
		h.wrong = &wrong
		err := h.Mount(t.Context(), h.input(server))
		require.Equal(t, compute.Conflict, compute.KindOf(err), "%s: %v", name, err)
		require.Contains(t, strings.ToLower(err.Error()), tc.says, name)
		for _, word := range []string{h.Dir, "127.0.0.1", "/volumes", h.user.Name, wrongKey} {
			require.NotContains(t, err.Error(), word, name)
		}
		require.Zero(t, h.mounts(), name)
		left, err := os.ReadDir(h.memory)
		require.NoError(t, err)
		require.Empty(t, left, name)
	}
	h.wrong = nil
	good.Key.Wipe()
	require.NoError(t, h.Mount(t.Context(), h.input(server)))
	require.NoError(t, h.Remove(t.Context(), h.use(server)))
	require.Empty(t, h.seen())
	h.deny(server)
}

func copyOf(t *testing.T, key *secret.Passphrase) (out *secret.Passphrase) {
	t.Helper()
	require.NoError(t, key.Use(func(value []byte) error {
		if len(value) == 0 {
			return errors.New("no key")
		}
		out = secret.New([]byte(string(value)))
		return nil
	}))
	return out
}
