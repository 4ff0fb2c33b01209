package vm

import (
	"bufio"
	"context"
	"fmt"
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
}

const (
	memoryMiB = 640
	lifetime  = 9 * time.Minute // on a machine that is busy
)

// Run runs the test t, alone, in the machine, and fails as it does. Outside CI it
// skips where QEMU or one of the programs is missing.
func (m Machine) Run(t *testing.T) {
	t.Helper()
	m.need(t)
	ctx, cancel := context.WithTimeout(t.Context(), lifetime)
	defer cancel()
	k, err := guest.FindKernel(ctx, guest.Options{})
	require.NoError(t, err)
	dir := t.TempDir()
	ramdisk, disk := filepath.Join(dir, "ramdisk"), filepath.Join(dir, "disk")
	require.NoError(t, m.pack(ramdisk, k))
	require.NoError(t, os.WriteFile(disk, nil, 0o600))
	if m.DiskMiB == 0 {
		m.DiskMiB = 256
	}
	require.NoError(t, os.Truncate(disk, int64(m.DiskMiB)<<20))

	qemu := exec.CommandContext(ctx, "qemu-system-x86_64",
		"-accel", "tcg", "-cpu", "max", "-m", fmt.Sprint(memoryMiB), "-nodefaults", "-no-reboot", "-nographic", "-serial", "stdio",
		"-kernel", k.Image, "-initrd", ramdisk,
		"-append", "console=ttyS0 quiet panic=-1 "+guest.InHaste+" "+rightClock+" PATH=/bin -- -test.v -test.run=^"+regexp.QuoteMeta(t.Name())+"$",
		"-drive", "file="+disk+",format=raw,if=virtio,cache=unsafe,discard=unmap")
	qemu.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	qemu.Stderr = t.Output()
	serial, err := qemu.StdoutPipe()
	require.NoError(t, err)
	begin := time.Now()
	require.NoError(t, qemu.Start())
	code := "none"
	for lines := bufio.NewScanner(serial); lines.Scan(); {
		line := strings.TrimSpace(bootNoise.ReplaceAllString(lines.Text(), ""))
		fmt.Fprintf(t.Output(), "%6.2fs %s\n", time.Since(begin).Seconds(), line)
		if c, ok := strings.CutPrefix(line, exitLine); ok {
			code = c
		}
	}
	err = qemu.Wait()
	require.NoError(t, err, "the machine")
	require.Equal(t, "0", code, "the exit code of the test in the machine")
}

// rightClock is for the kernel: it measures at boot how fast the CPU's counter runs, and one
// that was not let run meanwhile has found a clock eighty times too fast, by which all that
// the test waits for came too late.
const rightClock = "clocksource=hpet"

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
var virtio = []string{"virtio_pci", "virtio_blk"}

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
	modules, err := k.ModuleFiles(append(m.Modules, virtio...)...)
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
