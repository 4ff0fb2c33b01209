package vm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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
	for _, fs := range []struct{ kind, at string }{
		{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/run"}, {"tmpfs", "/tmp"},
	} {
		if err := os.MkdirAll(fs.at, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(fs.kind, fs.at, fs.kind, 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("mount %s: %w", fs.at, err)
		}
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
	return errors.Join(
		os.Symlink("/proc/self/fd", "/dev/fd"),
		os.WriteFile("/proc/sys/kernel/printk", []byte("3\n"), 0), // the kernel's own lines would cut into the test's
	)
}

func load(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.FinitModule(int(f.Fd()), "", 0)
}
