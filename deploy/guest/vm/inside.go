package vm

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"strongroom/deploy/dev/forward"
)

// modulesDir holds the kernel modules, numbered in the order of their needs.
const modulesDir = "/mods"

// exitLine is the machine's last word, with the exit code of the tests.
const exitLine = "VM exit code="

// Inside reports whether this is the machine.
func Inside() bool { return os.Getpid() == 1 }

// Main is m.Run; as a machine's init it is the whole life of the machine.
func Main(m *testing.M) int {
	if !Inside() {
		return m.Run()
	}
	code := 1
	if err := begin(); err != nil {
		fmt.Fprintln(os.Stdout, "VM begin:", err)
	} else {
		code = m.Run()
	}
	fmt.Fprintf(os.Stdout, "%s%d\n", exitLine, code)
	time.Sleep(50 * time.Millisecond) // for the serial line
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	return code
}

// begin makes a machine of a kernel and a process.
func begin() error {
	if err := mountAll(""); err != nil {
		return err
	}
	modules, err := filepath.Glob(modulesDir + "/*.ko")
	if err != nil {
		return err
	}
	slices.Sort(modules)
	for _, file := range modules {
		if err := load(file); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
	}
	if os.Getenv(wholeVariable) != "" {
		if err := enterWhole(); err != nil {
			return err
		}
	}
	return errors.Join(
		plug("lo", "127.0.0.1"), plug("eth0", address),
		os.Symlink("/proc/self/fd", "/dev/fd"),
		os.WriteFile("/proc/sys/kernel/printk", []byte("3\n"), 0), // the kernel's own lines would cut into the test's
		reachOutside(),
	)
}

// mountAll mounts at a root what the kernel has, and memory.
func mountAll(root string) error {
	for _, fs := range []struct{ kind, at string }{
		{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"devpts", "/dev/pts"}, {"tmpfs", "/dev/shm"}, {"tmpfs", "/run"}, {"tmpfs", "/tmp"},
	} {
		if fs.at == "/tmp" && root != "" {
			continue // what the test outside has there is seen
		}
		if err := mount(fs.kind, fs.kind, root+fs.at, 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
			return err
		}
	}
	return nil
}

func mount(source, kind, at string, flags uintptr, options string) error {
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(source, at, kind, flags, options); err != nil {
		return fmt.Errorf("mount %s: %w", at, err)
	}
	return nil
}

// enterWhole makes the root outside the machine's own, with memory over it.
func enterWhole() error {
	const under, over, root = "/whole/under", "/whole/over", "/whole/root"
	err := mount(rootTag, "virtiofs", under, unix.MS_RDONLY, "")
	if err == nil {
		err = mount("tmpfs", "tmpfs", over, 0, "size=100%")
	}
	if err == nil {
		err = errors.Join(os.Mkdir(over+"/upper", 0o755), os.Mkdir(over+"/work", 0o755))
	}
	if err == nil {
		err = mount("overlay", "overlay", root, 0, "lowerdir="+under+",upperdir="+over+"/upper,workdir="+over+"/work")
	}
	if err == nil {
		err = mountAll(root)
	}
	if err != nil {
		return err
	}
	return errors.Join(os.Chdir(root), unix.Mount(".", "/", "", unix.MS_MOVE, ""), unix.Chroot("."), os.Chdir("/"))
}

// gateway is where the machine reaches what listens on 127.0.0.1 outside: QEMU's address there.
const gateway = "10.0.2.2"

// reachOutside lets the machine reach some ports of 127.0.0.1 outside at the same address, perhaps by other
// numbers, as long as it runs.
func reachOutside() error {
	for _, variable := range os.Environ() {
		name, to, _ := strings.Cut(variable, "=")
		port, ok := strings.CutPrefix(name, outsideVariable)
		if !ok {
			continue
		}
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
		if err != nil {
			return err
		}
		forward.Start(listener, net.JoinHostPort(gateway, to))
	}
	return nil
}

// address is the machine's on its network, if it has one: QEMU's for the first machine there.
const address = "10.0.2.15"

// plug gives a network interface its address, if it is there.
func plug(name, ip string) error {
	if _, err := os.Stat("/sys/class/net/" + name); err != nil {
		return nil // the machine has none
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	at, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	up := *at
	if err := at.SetInet4Addr(net.ParseIP(ip).To4()); err != nil {
		return err
	}
	up.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return errors.Join(unix.IoctlIfreq(fd, unix.SIOCSIFADDR, at), unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, &up))
}

func load(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.FinitModule(int(f.Fd()), "", 0)
}
