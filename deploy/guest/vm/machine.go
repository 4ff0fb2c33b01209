package vm

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/deploy/guest"
)

// Machine is what a test needs beside itself.
type Machine struct {
	Modules  []string          // of the kernel; what they need comes with them
	Programs []string          // found in PATH, with their libraries
	Files    map[string]string // more files, by path, with their content
	DiskMiB  int               // of /dev/vda, default 256
	Folder   string            // whose content is the read-only file system of /dev/vdb; "": there is none
	Ports    []int             // of the machine, that the test outside reaches: see Running.Address
	Outside  []int             // of 127.0.0.1 outside, that the test in the machine reaches there too
	Forward  map[int]int       // ports of the machine's 127.0.0.1 that lead to others of 127.0.0.1 outside
	// Whole is for a machine that has all that is installed outside: its root is the root outside, as
	// it was when the machine first looked, and what is written goes to memory.
	Whole     bool
	MemoryMiB int // default 640
	CPUs      int // default 1
}

// Running is a machine whose test runs beside the one that started it.
type Running struct {
	Disk string // the file behind /dev/vda

	t       *testing.T
	ports   map[int]int
	over    chan struct{}
	failure error
}

// Address is where the machine's port is reached.
func (r *Running) Address(port int) string { return fmt.Sprintf("127.0.0.1:%d", r.ports[port]) }

// Over is closed when the machine is off.
func (r *Running) Over() <-chan struct{} { return r.over }

// Wait waits for the end of the machine's test, and fails as it does.
func (r *Running) Wait() {
	r.t.Helper()
	<-r.over
	require.NoError(r.t, r.failure, "the machine")
}

const (
	memoryMiB = 640
	lifetime  = 20 * time.Minute // on a machine that is busy
)

// The environment of a machine's init, by the kernel's command line.
const (
	wholeVariable   = "VM_WHOLE"
	outsideVariable = "VM_OUTSIDE"
	rootTag         = "root" // of virtiofs
)

// Run runs the test t, alone, in the machine, and fails as it does. Outside CI it
// skips where QEMU or one of the programs is missing.
func (m Machine) Run(t *testing.T) {
	t.Helper()
	m.Start(t).Wait()
}

// Start starts the machine with the test t in it, which goes on outside meanwhile.
func (m Machine) Start(t *testing.T) *Running {
	t.Helper()
	m.need(t)
	ctx, cancel := context.WithTimeout(t.Context(), lifetime)
	k, err := guest.FindKernel(ctx, guest.Options{})
	require.NoError(t, err)
	dir := t.TempDir()
	ramdisk, disk := filepath.Join(dir, "ramdisk"), filepath.Join(dir, "disk")
	require.NoError(t, m.pack(ramdisk, k))
	require.NoError(t, os.WriteFile(disk, nil, 0o600))
	m.DiskMiB, m.MemoryMiB, m.CPUs = cmp.Or(m.DiskMiB, 256), cmp.Or(m.MemoryMiB, memoryMiB), cmp.Or(m.CPUs, 1)
	require.NoError(t, os.Truncate(disk, int64(m.DiskMiB)<<20))

	r := &Running{Disk: disk, t: t, ports: map[int]int{}, over: make(chan struct{})}
	args := []string{
		"-accel", "tcg", "-cpu", "max", "-smp", fmt.Sprint(m.CPUs), "-m", fmt.Sprint(m.MemoryMiB), "-nodefaults", "-no-reboot", "-nographic", "-serial", "stdio",
		"-kernel", k.Image, "-initrd", ramdisk,
		"-append", "console=ttyS0 quiet panic=-1 " + guest.InHaste() + " " + rightClock + m.environment() + " -- -test.v -test.timeout=20m -test.run=^" + regexp.QuoteMeta(t.Name()) + "$",
		"-drive", "file=" + disk + ",format=raw,if=virtio,cache=unsafe,discard=unmap",
	}
	if m.Folder != "" {
		second := filepath.Join(dir, "folder")
		require.NoError(t, fileSystem(ctx, second, m.Folder))
		args = append(args, "-drive", "file="+second+",format=raw,if=virtio,readonly=on")
	}
	args = append(args, r.network(m.Ports, len(m.Outside)+len(m.Forward) > 0)...)
	if m.Whole {
		args = append(args, m.shareRoot(ctx, t, filepath.Join(dir, "root"))...)
	}
	qemu := exec.CommandContext(ctx, "nice", append([]string{"-n", ahead, "qemu-system-x86_64"}, args...)...)
	qemu.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	qemu.Stderr = t.Output()
	serial, err := qemu.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, qemu.Start())
	go func() {
		defer cancel()
		defer close(r.over)
		r.failure = watch(t.Output(), qemu, serial)
	}()
	t.Cleanup(func() { cancel(); <-r.over })
	return r
}

// fileSystem makes an ext4 of a folder.
func fileSystem(ctx context.Context, to, folder string) error {
	const spare, perFile = 16 << 20, 4 << 10
	size := int64(spare)
	err := filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			size += info.Size() + perFile
		}
		return err
	})
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "mkfs.ext4", "-q", "-F", "-d", folder, to, fmt.Sprintf("%dk", size*5/4>>10)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("mkfs.ext4: %w: %s", err, out)
	}
	return nil
}

// watch shows what the machine says until it is off.
func watch(to io.Writer, qemu *exec.Cmd, serial io.Reader) error {
	begin, code := time.Now(), "none"
	for lines := bufio.NewScanner(serial); lines.Scan(); {
		line := strings.TrimSpace(bootNoise.ReplaceAllString(lines.Text(), ""))
		fmt.Fprintf(to, "%6.2fs %s\n", time.Since(begin).Seconds(), line)
		if c, ok := strings.CutPrefix(line, exitLine); ok {
			code = c
		}
	}
	if err := qemu.Wait(); err != nil {
		return err
	}
	if code != "0" {
		return fmt.Errorf("the exit code of the test in it is %s", code)
	}
	return nil
}

// environment is that of the machine's init.
func (m Machine) environment() string {
	env := " PATH=/bin"
	if m.Whole {
		env = " PATH=/usr/sbin:/usr/bin:/sbin:/bin " + wholeVariable + "=1"
	}
	for _, port := range m.Outside {
		env += fmt.Sprintf(" %s%d=%d", outsideVariable, port, port)
	}
	for port, to := range m.Forward {
		env += fmt.Sprintf(" %s%d=%d", outsideVariable, port, to)
	}
	return env
}

// shareRoot serves the root outside to the machine, as long as the machine is on.
func (m Machine) shareRoot(ctx context.Context, t *testing.T, socket string) []string {
	t.Helper()
	server := exec.CommandContext(ctx, virtiofsd, "--socket-path="+socket, "-o", "source=/", "-o", "sandbox=chroot", "-o", "cache=always")
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	server.Stderr = t.Output()
	require.NoError(t, server.Start())
	go func() { _ = server.Wait() }()
	require.Eventually(t, func() bool { _, err := os.Stat(socket); return err == nil }, time.Minute, 20*time.Millisecond, "virtiofsd")
	return []string{
		"-object", fmt.Sprintf("memory-backend-memfd,id=memory,size=%dM,share=on", m.MemoryMiB), "-machine", "memory-backend=memory",
		"-chardev", "socket,id=root,path=" + socket, "-device", "vhost-user-fs-pci,chardev=root,tag=" + rootTag,
	}
}

// virtiofsd is Debian's, of QEMU.
const virtiofsd = "/usr/lib/qemu/virtiofsd"

// network gives the machine a network on which it is reached, and reaches nobody but perhaps
// what listens on 127.0.0.1 outside.
func (r *Running) network(ports []int, out bool) []string {
	if len(ports) == 0 && !out {
		return nil
	}
	forward := "user,id=n"
	if !out {
		forward += ",restrict=on"
	}
	for _, port := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(r.t, err)
		r.ports[port] = l.Addr().(*net.TCPAddr).Port
		require.NoError(r.t, l.Close())
		forward += fmt.Sprintf(",hostfwd=tcp:%s-%s:%d", r.Address(port), address, port)
	}
	return []string{"-netdev", forward, "-device", "virtio-net-pci,netdev=n,romfile="}
}

// ahead is how much the machine is preferred to what else runs here. A host in it works with guests of its own on CPUs that are
// emulated: starved, it would be silent for so long that it counts as down.
const ahead = "-5"

// rightClock is for the kernel: its clock is a device, not the CPU's counter, which may differ between the CPUs of the machine outside.
// By the counter CPUs seem to be stuck.
const rightClock = "clocksource=hpet nosoftlockup"

// bootNoise is what SeaBIOS says, and how it clears the screen.
var bootNoise = regexp.MustCompile(`^.*\x1b\S*`)

func (m Machine) need(t *testing.T) {
	t.Helper()
	for _, p := range append([]string{"qemu-system-x86_64"}, m.Programs...) {
		if _, err := exec.LookPath(p); err != nil && os.Getenv("CI") == "" {
			t.Skipf("needs %s", p)
		} else {
			require.NoError(t, err)
		}
	}
}

// virtio is what the machine has of hardware.
var virtio = []string{"virtio_pci", "virtio_blk", "virtio_net"}

func (m Machine) wholeModules() []string {
	if m.Whole {
		return []string{"virtiofs", "overlay"}
	}
	return nil
}

// pack writes the machine's file system.
func (m Machine) pack(to string, k guest.Kernel) error {
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	a := guest.NewArchive(w)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	files := map[string]string{"/init": self}
	for _, p := range m.Programs {
		if files["/bin/"+p], err = exec.LookPath(p); err != nil {
			return err
		}
	}
	modules, err := k.ModuleFiles(append(append(m.Modules, virtio...), m.wholeModules()...)...)
	if err != nil {
		return err
	}
	for i, module := range modules {
		files[fmt.Sprintf("%s/%03d-%s", modulesDir, i, filepath.Base(module))] = module
	}
	libraries := map[string]string{}
	for name, from := range files {
		if !strings.HasPrefix(name, modulesDir) {
			if err := addLibraries(libraries, from); err != nil {
				return err
			}
		}
	}
	for _, set := range []map[string]string{files, libraries} {
		for name, from := range set {
			a.File(strings.TrimPrefix(name, "/"), from, 0o755)
		}
	}
	for name, content := range m.Files {
		a.Text(strings.TrimPrefix(name, "/"), content, 0o644)
	}
	if err := a.Close(); err != nil {
		return err
	}
	return w.Flush()
}

var library = regexp.MustCompile(`(?m)(/\S+) \(0x`)

// addLibraries adds the libraries that a program is linked with.
func addLibraries(to map[string]string, program string) error {
	out, err := exec.Command("ldd", program).CombinedOutput()
	if err != nil && !strings.Contains(string(out), "not a dynamic executable") {
		return fmt.Errorf("ldd %s: %w: %s", program, err, out)
	}
	for _, l := range library.FindAllStringSubmatch(string(out), -1) {
		to[l[1]] = l[1]
	}
	return nil
}
