// Package ovn runs OVN for tests: its two databases and northd, and one chassis per
// compute host with an Open vSwitch whose datapath is in userspace, from the
// distribution's packages. Everything listens on unix sockets below one folder. Each
// chassis's switch has a network namespace of its own, which goes with its process:
// nothing of the machine's network is touched, and no kernel module is needed.
package ovn

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"strongroom/deploy/dev/process"
)

// Config says what to run.
type Config struct {
	Dir    string   // holds all state, mode 0700; at most 80 bytes, for sockets are below it
	RunDir string   // pid files; default Dir
	LogDir string   // default Dir
	Hosts  []string // names of the chassis, at most 254; ports are bound to these
	// Guests says that the first chassis's switch runs in this process's network namespace, so that guests of a
	// libvirtd here can be plugged into it. There is one such on a machine: its bridge is br-int.
	Guests bool
	Logger *slog.Logger
}

// Network is a running OVN.
type Network struct {
	cfg     Config
	central []*process.Process
	hosts   []*chassis
}

// chassis is what runs for a host: what uses another one comes after it.
type chassis struct {
	name      string
	address   string   // of its end of tunnels
	enter     []string // what runs a command in the network namespace of its switch; nil: this process's
	processes []*process.Process
}

// Start starts the folder's OVN, which is made if there is none, and returns once its
// databases answer and its chassis run. Needs root.
func Start(ctx context.Context, cfg Config) (*Network, error) {
	for _, dir := range []*string{&cfg.RunDir, &cfg.LogDir} {
		if *dir == "" {
			*dir = cfg.Dir
		}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	begin := time.Now()
	n := &Network{cfg: cfg}
	for i, name := range cfg.Hosts {
		enter := []string{"unshare", "--net"}
		if cfg.Guests && i == 0 {
			enter = nil
		}
		n.add(name, enter)
	}
	if err := n.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("ovn: %w", err), n.Stop(context.WithoutCancel(ctx)))
	}
	cfg.Logger.Info("ovn is up", "hosts", cfg.Hosts, "after", time.Since(begin).Round(time.Millisecond))
	return n, nil
}

func (n *Network) add(name string, enter []string) *chassis {
	h := &chassis{name: name, address: fmt.Sprintf("198.51.100.%d", len(n.hosts)+1), enter: enter}
	n.hosts = append(n.hosts, h)
	return h
}

// AddHost starts one more chassis, whose switch runs in a network namespace that `ip netns` knows: guests there can
// be plugged into it, and reach those of the first (Config.Guests). It is stopped with the others.
func (n *Network) AddHost(ctx context.Context, name, netns string) error {
	h := n.add(name, []string{"nsenter", "--net=/run/netns/" + netns, "--"})
	if err := n.startHost(ctx, h); err != nil {
		return err
	}
	return n.join(ctx, h, netns)
}

// Northbound and Southbound are the addresses of the databases.
func (n *Network) Northbound() string { return Northbound(n.cfg.Dir) }

// Southbound is where chassis meet.
func (n *Network) Southbound() string { return Southbound(n.cfg.Dir) }

// Northbound is the address of the database of an OVN in a folder, whether it runs or not.
func Northbound(dir string) string { return "unix:" + filepath.Join(dir, "nb.sock") }

// Southbound is the address of the other one.
func Southbound(dir string) string { return "unix:" + filepath.Join(dir, "sb.sock") }

// Stop ends the chassis and then the databases. The state stays in the folder.
func (n *Network) Stop(ctx context.Context) error {
	var group errgroup.Group
	for _, h := range n.hosts {
		group.Go(func() error { return stop(ctx, h.processes) })
	}
	err := errors.Join(group.Wait(), stop(ctx, n.central))
	if n.cfg.Guests {
		left := []string{"br-int", underlay, outside, "ovs-netdev"}
		for number := 2; number <= len(n.hosts); number++ {
			left = append(left, n.link(number))
		}
		err = errors.Join(err, removeLinks(ctx, left...))
	}
	return err
}

// stop ends processes, the last one first.
func stop(ctx context.Context, processes []*process.Process) (err error) {
	for i := len(processes) - 1; i >= 0; i-- {
		err = errors.Join(err, processes[i].Stop(ctx))
	}
	return err
}

func (n *Network) start(ctx context.Context) error {
	for _, db := range []struct{ name, remotes string }{{"nb", "OVN_Northbound,NB_Global"}, {"sb", "OVN_Southbound,SB_Global"}} {
		p, err := n.database(ctx, "ovn-"+db.name, filepath.Join(n.cfg.Dir, db.name), "/usr/share/ovn/ovn-"+db.name+".ovsschema",
			"--remote=db:"+db.remotes+",connections")
		if p != nil {
			n.central = append(n.central, p)
		}
		if err != nil {
			return err
		}
	}
	p, err := n.launch(ctx, "ovn-northd", n.cfg.Dir, "ovn-northd", "--ovnnb-db="+n.Northbound(), "--ovnsb-db="+n.Southbound(),
		"--unixctl="+filepath.Join(n.cfg.Dir, "northd.ctl"), "-vconsole:warn")
	if err != nil {
		return err
	}
	n.central = append(n.central, p)
	group, ctx := errgroup.WithContext(ctx)
	for _, h := range n.hosts {
		group.Go(func() error { return n.startHost(ctx, h) })
	}
	return group.Wait()
}

// startHost starts a chassis.
func (n *Network) startHost(ctx context.Context, h *chassis) error {
	dir := Switch(n.cfg.Dir, h.name)
	add := func(p *process.Process, err error) error {
		if p != nil {
			h.processes = append(h.processes, p)
		}
		return err
	}
	if err := add(n.database(ctx, h.name+"-ovsdb", filepath.Join(dir, "db"), "/usr/share/openvswitch/vswitch.ovsschema")); err != nil {
		return err
	}
	db := "unix:" + filepath.Join(dir, "db.sock")
	// With TSO a guest's TCP, whose checksums virtio leaves to the host, passes the
	// datapath; it must be set before the switch starts.
	settings := []string{
		"--db=" + db, "--no-wait", "init", "--", "set", "Open_vSwitch", ".", "external-ids:system-id=" + h.name, "external-ids:hostname=" + h.name,
		"external-ids:ovn-remote=" + n.Southbound(), "external-ids:ovn-encap-type=geneve", "external-ids:ovn-encap-ip=" + h.address,
		"external-ids:ovn-bridge-datapath-type=netdev", "external-ids:ovn-monitor-all=true", "other_config:userspace-tso-enable=true",
		"--", "--may-exist", "add-br", "br-int", "--", "set", "Bridge", "br-int", "datapath_type=netdev", "fail_mode=secure",
	}
	if err := run(ctx, "ovs-vsctl", settings...); err != nil {
		return err
	}
	vswitchd := slices.Concat(h.enter, []string{"ovs-vswitchd", db, "--unixctl=" + filepath.Join(dir, "vswitchd.ctl"), "-vconsole:warn"})
	if err := add(n.launch(ctx, h.name+"-vswitchd", dir, vswitchd...)); err != nil {
		return err
	}
	return add(n.launch(ctx, h.name+"-controller", dir, "ovn-controller", db, "-vconsole:warn"))
}

// Switch is the folder in which a chassis of an OVN in a folder has its switch's socket, db.sock: for ovs-vsctl, and so for
// libvirt, that of the machine is /run/openvswitch.
func Switch(dir, host string) string { return filepath.Join(dir, host) }

// database serves FILE.db at the socket FILE.sock, which answers when this returns.
func (n *Network) database(ctx context.Context, name, file, schema string, arguments ...string) (*process.Process, error) {
	command := append([]string{"ovsdb-server", file + ".db", "--remote=punix:" + file + ".sock", "--unixctl=" + file + ".ctl", "-vconsole:warn"}, arguments...)
	p, err := process.Start(ctx, n.process(name, filepath.Dir(file), command, func(ctx context.Context) error {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return err
		}
		if _, err := os.Stat(file + ".db"); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return run(ctx, "ovsdb-tool", "create", file+".db", schema)
	}))
	if err != nil {
		return nil, err
	}
	return p, p.Until(ctx, func(ctx context.Context) error {
		return run(ctx, "ovsdb-client", "--timeout=5", "list-dbs", "unix:"+file+".sock")
	})
}

func (n *Network) launch(ctx context.Context, name, dir string, command ...string) (*process.Process, error) {
	return process.Start(ctx, n.process(name, dir, command, nil))
}

func (n *Network) process(name, dir string, command []string, before func(context.Context) error) process.Config {
	return process.Config{
		Name: name, Command: command, Dir: "/", Env: append(environment, "OVN_RUNDIR="+dir, "OVS_RUNDIR="+dir, "OVS_LOGDIR="+dir),
		LogFile: filepath.Join(n.cfg.LogDir, name+".log"), PIDFile: filepath.Join(n.cfg.RunDir, name+".pid"),
		OrphanSignal: syscall.SIGTERM, Patience: 5 * time.Second, Before: before,
	}
}

// environment is that of everything run here.
var environment = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "TZ=UTC"}

func run(ctx context.Context, program string, arguments ...string) error {
	cmd := exec.CommandContext(ctx, program, arguments...)
	cmd.Env = environment
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, strings.TrimSpace(string(said)))
	}
	return nil
}

// Installed reports whether the packages are.
func Installed() bool {
	for _, program := range []string{"ovsdb-server", "ovs-vswitchd", "ovn-northd", "ovn-controller"} {
		if _, err := exec.LookPath(program); err != nil {
			return false
		}
	}
	return true
}
