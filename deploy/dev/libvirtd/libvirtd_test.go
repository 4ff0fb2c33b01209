package libvirtd_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/dev/libvirtd"
)

// cache is shared by the tests of this package: QEMU is probed once.
func cache(t *testing.T) string {
	t.Helper()
	if os.Getenv("CI") == "" {
		if _, err := os.Stat("/usr/sbin/libvirtd"); err != nil || os.Getuid() != 0 {
			t.Skip("needs root and libvirtd")
		}
	}
	return libvirtd.DefaultCacheDir()
}

func TestGuestsFollowTheMode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		mode     libvirtd.Mode
		outlives bool
	}{
		{"contained", libvirtd.Contained, false},
		{"lasting", libvirtd.Lasting, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cfg := libvirtd.Config{Dir: shortDir(t), CacheDir: cache(t), Mode: c.mode, Hostname: "lvd-" + c.name}
			d, err := libvirtd.Start(ctx, cfg)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, d.StopAll(context.Background())) })

			l := connect(t, d)
			host, err := l.ConnectGetHostname()
			require.NoError(t, err)
			require.Equal(t, cfg.Hostname, host)
			_, err = l.DomainCreateXML(`<domain type='qemu'><name>`+cfg.Hostname+`</name><memory unit='MiB'>32</memory>
				<os><type arch='x86_64'>hvm</type></os></domain>`, libvirt.DomainStartPaused)
			require.NoError(t, err)
			qemu := qemuPID(t, cfg.Hostname)

			before := d.PID()
			require.NoError(t, d.Kill(ctx))
			require.Zero(t, d.PID())
			require.True(t, alive(qemu), "a guest outlives the crash of libvirtd")
			require.NoError(t, d.Restart(ctx))
			require.NotEqual(t, before, d.PID())
			l = connect(t, d)
			dom, err := l.DomainLookupByName(cfg.Hostname)
			require.NoError(t, err, "the next libvirtd finds it")
			require.NoError(t, l.DomainResume(dom), "and has it in hand")

			require.NoError(t, d.Stop(ctx))
			require.Equal(t, c.outlives, alive(qemu))
			if !c.outlives {
				return
			}
			next, err := libvirtd.Start(ctx, cfg)
			require.NoError(t, err)
			l = connect(t, next)
			dom, err = l.DomainLookupByName(cfg.Hostname)
			require.NoError(t, err)
			require.NoError(t, l.DomainDestroy(dom))
			require.False(t, alive(qemu))
			require.NoError(t, next.Stop(ctx))
		})
	}
}

func TestStopEndsOneThatHangs(t *testing.T) {
	t.Parallel()
	for _, stop := range []func(*libvirtd.Daemon, context.Context) error{(*libvirtd.Daemon).Stop, (*libvirtd.Daemon).Kill, (*libvirtd.Daemon).StopAll} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		d, err := libvirtd.Start(ctx, libvirtd.Config{Dir: shortDir(t), CacheDir: cache(t)})
		require.NoError(t, err)
		require.NoError(t, d.Signal(syscall.SIGSTOP))
		require.NoError(t, d.Signal(syscall.SIGCONT))
		connect(t, d)
		require.NoError(t, d.Signal(syscall.SIGSTOP))
		require.NoError(t, stop(d, ctx))
		require.Zero(t, d.PID())
		require.NoError(t, d.StopAll(ctx))
	}
}

func TestLastingReplacesAnAbandonedOne(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cfg := libvirtd.Config{Dir: shortDir(t), CacheDir: cache(t), Mode: libvirtd.Lasting}
	abandoned, err := libvirtd.Start(ctx, cfg)
	require.NoError(t, err)
	next, err := libvirtd.Start(ctx, cfg)
	require.NoError(t, err)
	require.Zero(t, abandoned.PID())
	connect(t, next)
	require.NoError(t, next.Stop(ctx))
	require.NoFileExists(t, filepath.Join(cfg.Dir, "run", "namespace.pid"), "no guests: nothing stays")
}

// So it is where pid 1 collects nothing, as in many a container: this test is pid 1 there.
func TestLastingReplacesAnAbandonedOneInAContainer(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	inside := exec.CommandContext(ctx, "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", os.Args[0], "-test.run=^TestLastingReplacesAnAbandonedOne$", "-test.v")
	out, err := inside.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: TestLastingReplacesAnAbandonedOne ")
}

// What runs beside a libvirtd sees its files, host name and network; the end of the machine
// leaves its disks and nothing of /run.
func TestMachineOfALibvirtd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cfg := libvirtd.Config{Dir: shortDir(t), CacheDir: cache(t), Mode: libvirtd.Lasting, Hostname: "lvd-beside"}
	d, err := libvirtd.Start(ctx, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.StopAll(context.Background())) })
	require.NoError(t, os.WriteFile(filepath.Join(d.SwtpmDir(), "its own"), nil, 0o600))
	command := cfg.Beside("sh", "-c", "cat /proc/sys/kernel/hostname; echo $$; ls /var/lib/libvirt/swtpm; ls /run/libvirt/libvirt-sock")
	beside := exec.CommandContext(ctx, command[0], command[1:]...)
	out, err := beside.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, fmt.Sprintf("lvd-beside\n%d\nits own\n/run/libvirt/libvirt-sock\n", beside.Process.Pid), string(out))

	_, err = connect(t, d).DomainCreateXML(`<domain type='qemu'><name>`+cfg.Hostname+`</name><memory unit='MiB'>32</memory>
		<os><type arch='x86_64'>hvm</type></os></domain>`, libvirt.DomainStartPaused)
	require.NoError(t, err)
	guest := qemuPID(t, cfg.Hostname)
	requireEmpty := func() {
		t.Helper()
		require.False(t, alive(guest))
		left, err := os.ReadDir(filepath.Join(cfg.Dir, "run"))
		require.NoError(t, err)
		require.Empty(t, left)
		require.FileExists(t, filepath.Join(d.SwtpmDir(), "its own"))
	}
	require.NoError(t, libvirtd.End(ctx, cfg.Dir))
	requireEmpty()
	require.NoError(t, d.Restart(ctx))
	connect(t, d)
	require.NoError(t, d.PowerOff(ctx))
	requireEmpty()
	require.NoError(t, libvirtd.End(ctx, cfg.Dir), "nothing is there to end")
}

func TestStartRefuses(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]libvirtd.Config{
		"long path":      {Dir: "/tmp/" + strings.Repeat("x", 90)},
		"relative path":  {Dir: "state"},
		"malformed uuid": {Dir: shortDir(t), HostUUID: "no"},
	} {
		_, err := libvirtd.Start(t.Context(), cfg)
		require.Error(t, err, name)
	}
}

func TestStartSaysWhyLibvirtdEnded(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cache(t)
	_, err := libvirtd.Start(ctx, libvirtd.Config{Dir: shortDir(t), Binary: "/bin/false"})
	require.ErrorContains(t, err, "ended")
}

// shortDir is t.TempDir with room for the sockets below it.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "sr-lvd-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

type dialer struct{ d *libvirtd.Daemon }

func (s dialer) Dial() (net.Conn, error) { return net.DialTimeout("unix", s.d.Socket(), time.Second) }

func connect(t *testing.T, d *libvirtd.Daemon) *libvirt.Libvirt {
	t.Helper()
	l := libvirt.NewWithDialer(dialer{d})
	require.NoError(t, l.Connect())
	_, err := l.ConnectGetLibVersion()
	require.NoError(t, err)
	return l
}

// qemuPID finds the guest's process, also from outside its pid namespace.
func qemuPID(t *testing.T, guest string) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, f := range files {
		if argv, err := os.ReadFile(f); err == nil && strings.Contains(string(argv), "guest="+guest+",") {
			pid, err := strconv.Atoi(strings.Split(f, "/")[2])
			require.NoError(t, err)
			return pid
		}
	}
	require.Fail(t, "no QEMU found")
	return 0
}

func alive(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(b), ") Z ")
}
