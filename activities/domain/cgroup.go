package domain

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	libvirt "github.com/digitalocean/go-libvirt"
)

// libvirt's daemon gives the program that serves a share the cgroup of the guest. Where a guest that runs has none,
// libvirt 9.0 and others before it end at the attachment. It has one unless no controller is mounted, or
// qemu.conf takes none.

// hasCgroup reports whether libvirt has a controller for a domain that runs: it refuses to tell of those that it has not.
func hasCgroup(l *libvirt.Libvirt, dom libvirt.Domain) bool {
	const live, some = uint32(libvirt.DomainAffectLive), 16
	if _, _, err := l.DomainGetSchedulerType(dom); err == nil {
		return true
	}
	if _, _, err := l.DomainGetMemoryParameters(dom, some, live); err == nil {
		return true
	}
	_, _, err := l.DomainGetBlkioParameters(dom, some, live)
	return err == nil
}

// noController is an assignment in qemu.conf that leaves libvirt no controller.
var noController = regexp.MustCompile(`(?m)^\s*cgroup_controllers\s*=\s*\[\s*\]`)

// givesCgroups reports whether guests get a cgroup of libvirt's daemon, as far as its mounts and its configuration tell.
func givesCgroups(process string) bool {
	config, err := os.ReadFile(filepath.Join(process, "root/etc/libvirt/qemu.conf"))
	if err != nil && !os.IsNotExist(err) || noController.Match(config) {
		return false
	}
	mounts, err := os.Open(filepath.Join(process, "mounts"))
	if err != nil {
		return false
	}
	defer mounts.Close()
	for lines := bufio.NewScanner(mounts); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 2 && (fields[2] == "cgroup" || fields[2] == "cgroup2") {
			return true
		}
	}
	return false
}

// sharesLive reports whether shares can be given to guests that run.
func (a *Activities) sharesLive(ctx context.Context) bool {
	pid, err := a.Client.Daemon(ctx)
	return err == nil && pid != 0 && givesCgroups(filepath.Join("/proc", strconv.Itoa(pid)))
}
