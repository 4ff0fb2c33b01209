package stack

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"strongroom/deploy/dev/libvirtd"
)

// MaxHosts is how many hosts a stack can have: their folders have a digit.
const MaxHosts = 9

// Host is one compute host of a stack: a libvirtd with its guests and a host worker. The first
// is the machine itself. The others have their files in a folder, and namespaces, of their own.
type Host struct {
	Layout
	Number int // from 1
}

// Host gives one of the hosts, from 1.
func (l Layout) Host(number int) Host { return Host{l, number} }

func (h Host) first() bool { return h.Number == 1 }

// dir is short: see maxState.
func (h Host) dir() string {
	if h.first() {
		return h.State
	}
	return h.Layout.path(fmt.Sprintf("h%d", h.Number))
}

func (h Host) path(parts ...string) string {
	return filepath.Join(append([]string{h.dir()}, parts...)...)
}

// Part is the name of one of the host's two parts, host and libvirtd, for its files of log and pid.
func (h Host) Part(name string) string {
	if h.first() {
		return name
	}
	return fmt.Sprint(name, h.Number)
}

// Name is the host's name in the API.
func (h Host) Name() (string, error) {
	name, err := os.Hostname()
	if err == nil && !h.first() {
		name = fmt.Sprintf("%s-%d", name, h.Number)
	}
	return name, err
}

// ConfigFile is the host worker's configuration: it needs nothing of the others'.
func (h Host) ConfigFile() string { return h.path("host.yaml") }

// Instances is the folder of the servers' disks.
func (h Host) Instances() string { return h.path("instances") }

// ConsoleSocket is a server's serial line, to read and to type.
func (h Host) ConsoleSocket(server string) string { return h.path("run", server+".sock") }

// LibvirtSocket is the socket of the libvirtd that the stack runs for the host.
func (h Host) LibvirtSocket() string { return h.path("libvirt", "run", "libvirt-sock") }

// SwtpmDir is where that libvirtd has the folders with the state of TPMs.
func (h Host) SwtpmDir() string { return h.path("libvirt", "lib", "swtpm") }

func (h Host) certificate() string { return h.path("certificate") }

// make makes the host's folders. It is on, whatever its switch said to an earlier stack.
func (h Host) make() error {
	if err := errors.Join(removeFile(h.offFile()), removeFile(h.isOffFile())); err != nil {
		return err
	}
	return makeFolders(h.dir(), map[string]os.FileMode{"instances": 0o711, "cache": 0o711, "run": 0o711})
}

// libvirtd is the libvirtd that the stack runs for the host.
func (h Host) libvirtd() (libvirtd.Config, error) {
	cfg := libvirtd.Config{Dir: h.path("libvirt"), CacheDir: libvirtd.DefaultCacheDir(), Mode: libvirtd.Lasting}
	if h.first() {
		return cfg, nil
	}
	cfg.Netns = h.netns()
	var err error
	cfg.Hostname, err = h.Name()
	return cfg, err
}
