// Command init is pid 1 of the tiny test guest, and its only program. What it
// finds it tells on the serial console, one line "TG key=value ..." each; it
// obeys commands that come in there (see commands.go) and the power button.
//
// The order of the lines is a contract with tests and the demo: init, block and
// disk, rootdisk, tpm, net, ready, then tick=N each second, and beside it dhcp for
// each interface.
package main

import (
	"errors"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	mountKernelFilesystems()
	c := openConsole()
	c.say("init uptime=%s", uptime())
	loadModules(c)
	go watchPowerButton(c)
	reportDisks(c)
	mountRoot(c)
	reportTPM(c)
	reportNetwork(c)
	c.say("ready uptime=%s", uptime())
	beReachable(c)
	go getAddresses(c)
	go tick(c)
	obey(c)
	powerOff(c)
}

func mountKernelFilesystems() {
	for _, fs := range []struct{ kind, at string }{{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}} {
		os.MkdirAll(fs.at, 0o755)
		unix.Mount(fs.kind, fs.at, fs.kind, 0, "") // devtmpfs may be mounted already: what is missing shows soon enough
	}
	os.MkdirAll(rootDir, 0o755)
	os.WriteFile("/proc/sys/kernel/printk", []byte("3\n"), 0) // the kernel's own lines would cut into ours
}

// loadModules loads /mods/*.ko; the builder numbered them in the order of their needs.
func loadModules(c *console) {
	files, _ := filepath.Glob("/mods/*.ko")
	sort.Strings(files)
	for _, f := range files {
		if err := loadModule(f); err != nil && !errors.Is(err, unix.EEXIST) {
			c.say("module name=%s err=%q", filepath.Base(f), err)
		}
	}
}

func loadModule(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.FinitModule(int(f.Fd()), "", 0)
}

// tick counts in memory: a counter that goes on shows that the memory did.
func tick(c *console) {
	for n := 1; ; n++ {
		time.Sleep(time.Second)
		c.say("tick=%d", n)
	}
}

func uptime() string {
	b, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return "unknown"
	}
	seconds, _, _ := strings.Cut(string(b), " ")
	return seconds
}
