package stack

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"strongroom/devcloud"
	"strongroom/worker/pki"
)

// machineLibvirt is the socket of the machine's own libvirtd.
const machineLibvirt = "/run/libvirt/libvirt-sock"

// raise starts the parts in the order in which they need each other.
func (s *Stack) raise(ctx context.Context) error {
	in := surroundings{account: s.cfg.devAccount(), openstack: s.cfg.Cloud != ""}
	if err := s.cfg.sameKeys(in.openstack); err != nil {
		return err
	}
	if in.openstack {
		var err error
		if in.account, err = s.cfg.cloudAccount(ctx, s.cfg.Cloud); err != nil {
			return err
		}
	}
	database := &postgresService{layout: s.cfg.Layout}
	if err := s.add(ctx, "postgres", database); err != nil {
		return err
	}
	if _, err := pki.Ensure(s.cfg.Authority()); err != nil {
		return err
	}
	if err := s.add(ctx, "temporal", &temporalService{layout: s.cfg.Layout, binary: s.cfg.Temporal}); err != nil {
		return err
	}
	in.database = database.url()
	if err := s.hypervisors(ctx, &in); err != nil {
		return err
	}
	if err := s.settle(&in); err != nil {
		return err
	}
	if len(in.networks) > 0 {
		if err := s.add(ctx, "networks", &projectNetworks{socket: in.hosts[0].socket, networks: in.networks, metadata: s.cfg.PortBase + metadataPort}); err != nil {
			return err
		}
	}
	if err := s.migrate(ctx); err != nil {
		return err
	}
	if err := s.issueConsoleProxy(ctx); err != nil {
		return err
	}
	children := []*child{
		s.service("gateway", s.cfg.gatewayAddr()), s.service("api", s.cfg.apiAddr()),
		s.service("metadata", s.cfg.MetadataAddr()), s.service("console-proxy", s.cfg.consoleAddr()), s.service("control", ""),
	}
	if !in.openstack {
		children = append([]*child{s.service("devcloud", s.cfg.cloudAddr())}, children...)
	}
	for _, c := range children {
		if err := s.add(ctx, c.name, c); err != nil {
			return err
		}
	}
	for _, h := range s.hosts() {
		if err := s.enroll(ctx, h); err != nil {
			return err
		}
		worker, err := s.worker(h)
		if err != nil {
			return err
		}
		if err := s.add(ctx, worker.name, worker); err != nil {
			return err
		}
	}
	if s.cfg.Hosts > 1 {
		s.watchSwitches()
	}
	return nil
}

func (s *Stack) hosts() (all []Host) {
	for n := range s.cfg.Hosts {
		all = append(all, s.cfg.Host(n+1))
	}
	return all
}

// enroll gets a host a certificate, at its first start.
func (s *Stack) enroll(ctx context.Context, h Host) error {
	if _, err := os.Stat(h.certificate()); err == nil {
		return nil
	}
	name, err := h.Name()
	if err != nil {
		return err
	}
	token, err := s.run(ctx, s.cfg.ConfigFile(), nil, "host", "token", name)
	if err != nil {
		return err
	}
	_, err = s.run(ctx, h.ConfigFile(), token, "host", "enroll")
	return err
}

// issueConsoleProxy gives the console proxy a certificate, another at each start.
func (s *Stack) issueConsoleProxy(ctx context.Context) error {
	pem, err := s.run(ctx, s.cfg.ConfigFile(), nil, "authority", "issue", "console-proxy", "--within", "8760h")
	if err != nil {
		return err
	}
	return os.WriteFile(s.cfg.consoleIdentity(), pem, 0o600)
}

// worker is the worker of a host. That of another than the first sees and reaches what the
// host's libvirtd does.
func (s *Stack) worker(h Host) (*child, error) {
	c := s.child(h.Part("host"), h.agentAddr(s.cfg.Hosts), "--config", h.ConfigFile(), "host")
	if h.first() {
		return c, nil
	}
	machine, err := h.libvirtd()
	if err != nil {
		return nil, err
	}
	c.command, c.netns = machine.Beside(c.command...), h.netns()
	return c, nil
}

// run runs one of strongroom's commands and gives what it printed.
func (s *Stack) run(ctx context.Context, config string, in []byte, command ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, s.cfg.Binary, append([]string{"--config", config}, command...)...)
	var problem bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), &problem
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("strongroom %s: %w: %s", strings.Join(command, " "), err, problem.Bytes())
	}
	return out, nil
}

// hypervisors finds the machine's libvirtd or runs one, or one for each of several hosts.
func (s *Stack) hypervisors(ctx context.Context, in *surroundings) error {
	if err := s.cfg.endOthers(ctx, s.cfg.Hosts); err != nil {
		return err
	}
	hosts := s.hosts()
	for _, h := range hosts {
		if err := h.make(); err != nil {
			return err
		}
	}
	if len(hosts) > 1 {
		if err := s.add(ctx, "network", &network{layout: s.cfg.Layout, hosts: hosts[1:]}); err != nil {
			return err
		}
	} else if conn, err := net.DialTimeout("unix", machineLibvirt, time.Second); err == nil && !s.cfg.OwnLibvirt {
		in.hosts = []hypervisor{{machineLibvirt, "/var/lib/libvirt/swtpm", "/var/lib/libvirt/qemu/save"}}
		return conn.Close()
	}
	for _, h := range hosts {
		if err := h.ensureFilters(); err != nil {
			return err
		}
		if err := s.add(ctx, h.Part("libvirtd"), &libvirtService{host: h, log: s.cfg.Logger}); err != nil {
			return err
		}
		in.hosts = append(in.hosts, hypervisor{h.LibvirtSocket(), h.SwtpmDir(), h.path("libvirt", "lib", "qemu", "save")})
	}
	return nil
}

// settle writes keys and configuration. What a first start made, later ones keep.
func (s *Stack) settle(in *surroundings) error {
	l := s.cfg.Layout
	for _, key := range []string{"credentials.key", "metadata.secret"} {
		if err := ensureKey(l.path(key)); err != nil {
			return err
		}
	}
	if !in.openstack {
		if err := s.settleDevcloud(); err != nil {
			return err
		}
		if len(in.hosts) == 1 { // a network that some hosts have not would be where half of the servers are
			var err error
			if in.networks, err = l.projectNetworks(); err != nil {
				return err
			}
		}
	}
	for _, h := range s.hosts() {
		settings, err := h.settings(*in)
		if err != nil {
			return err
		}
		if err := writeYAML(h.ConfigFile(), settings); err != nil {
			return err
		}
	}
	return writeYAML(l.ConfigFile(), l.settings(*in))
}

// settleDevcloud writes the users of the stack's own cloud, and what clients of
// it read.
func (s *Stack) settleDevcloud() error {
	l := s.cfg.Layout
	err := devcloud.EnsureUsers(l.path("users.yaml"), func(passwords map[string]string) error {
		if err := os.WriteFile(l.passwordFile(), []byte(passwords[devcloud.ServiceUser]+"\n"), 0o600); err != nil {
			return err
		}
		return writeYAML(l.CloudsFile(), l.clouds(passwords))
	})
	if err != nil {
		return err
	}
	if err := l.refreshClouds(); err != nil {
		return err
	}
	if s.cfg.CloudsYAML == "" || s.cfg.CloudsYAML == l.CloudsFile() {
		return nil
	}
	if err := mergeClouds(s.cfg.CloudsYAML, l.CloudsFile()); err != nil {
		return fmt.Errorf("%s: %w", s.cfg.CloudsYAML, err)
	}
	return nil
}

func (s *Stack) migrate(ctx context.Context) error {
	command := []string{"migrate"}
	if s.cfg.Cloud == "" { // one with an OpenStack has its types from Cinder
		command = append(command, "--first-volume-type")
	}
	_, err := s.run(ctx, s.cfg.ConfigFile(), nil, command...)
	return err
}

// service is one of strongroom's own processes that is no host's.
func (s *Stack) service(name, address string) *child {
	return s.child(name, address, "--config", s.cfg.ConfigFile(), name)
}

// child is one of strongroom's own processes; its log is followed.
func (s *Stack) child(name, address string, arguments ...string) *child {
	if !s.cfg.Quiet {
		go s.follower.follow(s.ctx, name, s.cfg.LogFile(name))
	}
	return &child{layout: s.cfg.Layout, name: name, address: address, command: append([]string{s.cfg.Binary}, arguments...)}
}
