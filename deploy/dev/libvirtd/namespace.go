package libvirtd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// namespace is the pid, mount and uts namespace in which libvirtd and its
// guests live: the process id, as seen from here, of its pid 1. libvirtd comes
// and goes in it; it lasts until end, or until the process that made a
// Contained one ends.
type namespace struct{ init int }

// enter is run by sh inside the new namespaces: $1 is the host name, then pairs
// of what to see at which path up to "--", then the command to become.
const enter = `set -e
[ -z "$1" ] || echo "$1" >/proc/sys/kernel/hostname
shift
while [ "$1" != -- ]; do [ -e "$2" ] || mkdir -p "$2"; mount --rbind "$1" "$2"; shift 2; done
shift
exec "$@"`

// reap is pid 1. It must collect at once what outlives its parent: libvirt
// takes a zombie for a QEMU that will not end, and a machine's own pid 1 may be
// slow to collect.
const reap = `touch "$1"; sleep infinity & while :; do wait -n || :; done`

// hold gives the folder's namespace: the one that a Lasting libvirtd left, or a new one.
func hold(ctx context.Context, cfg Config, out *os.File) (*namespace, error) {
	if ns := found(cfg.Dir); ns != nil {
		return ns, nil
	}
	mark := holderMark(cfg.Dir)
	if err := os.Remove(mark); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("libvirtd: %w", err)
	}
	args := cfg.apart([]string{"--pid", "--fork", "--kill-child=KILL", "--mount-proc"}, "bash", "-c", reap, "reap", mark)
	holder, err := start(args, out, cfg.Mode == Contained)
	if err != nil {
		return nil, err
	}
	if err := poll(ctx, holder, func() bool { _, err := os.Stat(mark); return err == nil }); err != nil {
		return nil, err
	}
	init, err := waitChild(ctx, holder)
	if err != nil {
		return nil, err
	}
	return &namespace{init}, os.WriteFile(holderFile(cfg.Dir), []byte(strconv.Itoa(init)), 0o644)
}

// apart gives the command that runs another in mount and uts namespaces of its own, and more by
// flags of unshare: the folders are at libvirtd's paths there.
func (c Config) apart(flags []string, command ...string) []string {
	var args []string
	if c.Netns != "" {
		args = append(args, "nsenter", "--net=/run/netns/"+c.Netns, "--")
	}
	args = append(args, "unshare", "--mount", "--uts", "--propagation", "slave")
	args = append(append(args, flags...), "sh", "-c", enter, "enter", c.Hostname)
	for _, o := range overlays {
		args = append(args, filepath.Join(c.Dir, o.folder), o.path)
	}
	if kvmIsClosed() {
		args = append(args, closedFile(c.Dir), "/dev/kvm")
	}
	return append(append(args, "--"), command...)
}

// Beside gives the command that runs another as on the machine of this libvirtd: with its files
// at the fixed paths, its host name and its network. It is no member of libvirtd's pid
// namespace, and keeps the process id of what started it. Start must have made the folder.
func (c Config) Beside(command ...string) []string { return c.apart(nil, command...) }

// End ends the Lasting libvirtd of a folder and all its guests, whoever started them, as the
// machine's power switch would. What a machine has in /run does not outlive that either.
func End(ctx context.Context, dir string) error {
	if ns := found(dir); ns != nil {
		if err := ns.end(ctx, func() {}); err != nil {
			return err
		}
	}
	return emptyRun(dir)
}

// found gives the namespace that an earlier process left in the folder.
func found(dir string) *namespace {
	b, err := os.ReadFile(holderFile(dir))
	if err != nil {
		return nil
	}
	init, err := strconv.Atoi(string(b))
	if err != nil || !hasArgument(init, holderMark(dir)) { // the pid may be another process's by now
		return nil
	}
	return &namespace{init}
}

// enter gives the command that runs another inside the namespace. Its child,
// not itself, becomes the other.
func (n *namespace) enter(command ...string) []string {
	return append([]string{"nsenter", "--target", strconv.Itoa(n.init), "--mount", "--uts", "--pid", "--net", "--"}, command...)
}

func (n *namespace) alive() bool { return n != nil && exists(n.init) }

// end kills everything in the namespace and waits until it is gone. It cannot
// go before libvirtd was collected by its parent, which is outside and may have
// to be woken for that, again and again.
func (n *namespace) end(ctx context.Context, wake func()) error {
	for n.alive() {
		if err := syscall.Kill(n.init, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("libvirtd: %w", err)
		}
		wake()
		if err := pause(ctx); err != nil {
			return err
		}
	}
	return nil
}

// members gives the pids of all processes in the namespace but pid 1 and its sleep.
func (n *namespace) members() []int {
	want, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", n.init))
	if err != nil {
		return nil
	}
	var pids []int
	for _, pid := range processes() {
		ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
		if err == nil && ns == want && pid != n.init && exists(pid) && !hasArgument(pid, "infinity") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// replace ends a libvirtd that an earlier process left in the folder. Its nsenter ends with it, and collects it: without, it would be left to the pid 1
// outside, which in a container may collect nothing, and the namespace could not end.
func replace(ctx context.Context, cfg Config) error {
	for _, pid := range processes() {
		if !hasArgument(pid, pidFile(cfg.Dir)) || !isProgram(pid, cfg.Binary) {
			continue
		}
		sig, deadline := syscall.SIGTERM, time.Now().Add(stopPatience)
		for exists(pid) {
			if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("libvirtd: an earlier one, pid %d: %w", pid, err)
			}
			if time.Now().After(deadline) {
				sig = syscall.SIGKILL
			}
			if err := pause(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func processes() (pids []int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// exists reports whether a process runs; a zombie does not.
func exists(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := bytes.Cut(b, []byte(") "))
	return len(state) > 0 && state[0] != 'Z' && state[0] != 'X'
}

// arguments are those of a process, its program's name first; none: there is no such process.
func arguments(pid int) []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
}

func hasArgument(pid int, arg string) bool { return slices.Contains(arguments(pid), arg) }

// isProgram reports whether a process was started by this name.
func isProgram(pid int, name string) bool {
	args := arguments(pid)
	return len(args) > 0 && args[0] == name
}

func holderMark(dir string) string { return filepath.Join(dir, "run", "namespace-ready") }
func holderFile(dir string) string { return filepath.Join(dir, "run", "namespace.pid") }
