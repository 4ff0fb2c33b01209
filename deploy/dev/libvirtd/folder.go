package libvirtd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/google/uuid"
)

// overlays are the folders below Dir and the paths at which libvirtd sees them.
var overlays = []struct{ folder, path string }{
	{"run", "/run/libvirt"},
	{"lib", "/var/lib/libvirt"},
	{"log", "/var/log/libvirt"},
	{"log/swtpm", "/var/log/swtpm"},
	{"cache", "/var/cache/libvirt"},
	{"etc", "/etc/libvirt"},
}

// layOut makes the folders and writes the configuration.
func layOut(cfg *Config) error {
	for _, f := range []struct {
		name string
		mode fs.FileMode
	}{
		{"", 0o711}, {"run", 0o755}, {"etc", 0o755}, {"cache", 0o755},
		{"lib", 0o711}, {"lib/qemu", 0o750}, {"lib/images", 0o711}, {"lib/boot", 0o711}, {"lib/swtpm", 0o711},
		{"log", 0o755}, {"log/qemu", 0o755}, {"log/swtpm", 0o755}, {"log/swtpm/libvirt", 0o755}, {"log/swtpm/libvirt/qemu", 0o755},
	} {
		path := filepath.Join(cfg.Dir, f.name)
		if err := os.MkdirAll(path, f.mode); err != nil {
			return err
		}
		if err := os.Chmod(path, f.mode); err != nil {
			return err
		}
	}
	// QEMU runs as this user and keeps its monitor sockets there.
	qemu, err := user.Lookup("libvirt-qemu")
	if err != nil {
		return err
	}
	uid, _ := strconv.Atoi(qemu.Uid)
	gid, _ := strconv.Atoi(qemu.Gid)
	if err := os.Chown(filepath.Join(cfg.Dir, "lib", "qemu"), uid, gid); err != nil {
		return err
	}
	if err := os.WriteFile(closedFile(cfg.Dir), nil, 0o000); err != nil {
		return err
	}
	if err := hostUUID(cfg); err != nil {
		return err
	}
	// host_uuid: a machine without SMBIOS has none. stdio_handler: the default
	// needs a virtlogd. cgroup_controllers: two libvirtds on one machine would
	// give their guests the same cgroup names. namespaces: the QEMU of a Lasting
	// guest must not hold on to the mount namespace of one libvirtd.
	if err := write(cfg.Dir, "etc/libvirtd.conf",
		`host_uuid = "`+cfg.HostUUID+`"`,
		`unix_sock_group = "root"`,
		`unix_sock_rw_perms = "0700"`,
		`auth_unix_rw = "none"`,
		`listen_tls = 0`,
		`log_outputs = "2:file:`+filepath.Join(cfg.Dir, "log", "libvirtd.log")+`"`,
		`log_filters = "3:util 3:remote 3:rpc"`,
	); err != nil {
		return err
	}
	settings := []string{
		`stdio_handler = "file"`,
		`security_driver = "none"`,
		`namespaces = [ ]`,
		`swtpm_user = "tss"`,
		`swtpm_group = "tss"`,
	}
	if !cfg.Cgroups {
		settings = append(settings, `cgroup_controllers = [ ]`)
	}
	return write(cfg.Dir, "etc/qemu.conf", settings...)
}

// kvmIsClosed reports whether /dev/kvm is there but not for QEMU's user, as on
// machines without udev. libvirt then probes QEMU as root with KVM, finds its
// own user without it, and does that again at every single use (3 s and more);
// so it must not see the device at all.
func kvmIsClosed() bool {
	info, err := os.Stat("/dev/kvm")
	if err != nil {
		return false
	}
	qemu, err := user.Lookup("libvirt-qemu")
	if err != nil {
		return false
	}
	groups, err := qemu.GroupIds()
	if err != nil {
		return false
	}
	stat, mode := info.Sys().(*syscall.Stat_t), info.Mode().Perm()
	switch {
	case strconv.Itoa(int(stat.Uid)) == qemu.Uid:
		return mode&0o600 != 0o600
	case slices.Contains(groups, strconv.Itoa(int(stat.Gid))):
		return mode&0o060 != 0o060
	}
	return mode&0o006 != 0o006
}

// closedFile is a file that hides another from everybody but root.
func closedFile(dir string) string { return filepath.Join(dir, "closed") }

// hostUUID keeps the host's uuid over restarts when none was given.
func hostUUID(cfg *Config) error {
	if cfg.HostUUID != "" {
		_, err := uuid.Parse(cfg.HostUUID)
		return err
	}
	path := filepath.Join(cfg.Dir, "host-uuid")
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		b = []byte(uuid.NewString())
		err = os.WriteFile(path, b, 0o644)
	}
	cfg.HostUUID = strings.TrimSpace(string(b))
	return err
}

func write(dir, name string, lines ...string) error {
	return os.WriteFile(filepath.Join(dir, name), []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}

// removeSockets removes what a killed libvirtd left: a dial to them would be
// refused, and would be taken for a libvirtd that is not ready yet.
func removeSockets(dir string) error {
	for _, s := range []string{"libvirt-sock", "libvirt-sock-ro", "libvirt-admin-sock"} {
		if err := os.Remove(filepath.Join(dir, "run", s)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("libvirtd: %w", err)
		}
	}
	return nil
}

// emptyRun does to the folder what a machine's end does to /run.
func emptyRun(dir string) error {
	entries, err := os.ReadDir(filepath.Join(dir, "run"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("libvirtd: %w", err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, "run", e.Name())); err != nil {
			return fmt.Errorf("libvirtd: %w", err)
		}
	}
	return nil
}

func pidFile(dir string) string { return filepath.Join(dir, "run", "libvirtd.pid") }
