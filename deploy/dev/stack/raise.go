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
	if err := s.add(ctx, "temporal", &temporalService{layout: s.cfg.Layout, binary: s.cfg.Temporal}); err != nil {
		return err
	}
	in.database = database.url()
	var err error
	if in.libvirt, in.swtpm, err = s.libvirt(ctx); err != nil {
		return err
	}
	if err := s.settle(in); err != nil {
		return err
	}
	if err := s.migrate(ctx); err != nil {
		return err
	}
	config := s.cfg.ConfigFile()
	children := []*child{
		s.child("gateway", config, s.cfg.gatewayAddr()), s.child("api", config, s.cfg.apiAddr()),
		s.child("metadata", config, s.cfg.MetadataAddr()), s.child("control", config, ""),
	}
	if !in.openstack {
		children = append([]*child{s.child("devcloud", config, s.cfg.cloudAddr())}, children...)
	}
	for _, c := range children {
		if err := s.add(ctx, c.name, c); err != nil {
			return err
		}
	}
	if err := s.enroll(ctx); err != nil {
		return err
	}
	host := s.child("host", s.cfg.HostConfigFile(), s.cfg.agentAddr())
	return s.add(ctx, host.name, host)
}

// enroll gets the host a certificate, at the first start.
func (s *Stack) enroll(ctx context.Context) error {
	if _, err := os.Stat(s.cfg.certificate()); err == nil {
		return nil
	}
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	token, err := s.run(ctx, s.cfg.ConfigFile(), nil, "host", "token", name)
	if err != nil {
		return err
	}
	_, err = s.run(ctx, s.cfg.HostConfigFile(), token, "host", "enroll")
	return err
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

// libvirt finds the machine's libvirtd or runs one.
func (s *Stack) libvirt(ctx context.Context) (socket, swtpm string, err error) {
	if conn, err := net.DialTimeout("unix", machineLibvirt, time.Second); err == nil && !s.cfg.OwnLibvirt {
		return machineLibvirt, "/var/lib/libvirt/swtpm", conn.Close()
	}
	own := &libvirtService{layout: s.cfg.Layout, log: s.cfg.Logger}
	if err := s.add(ctx, "libvirtd", own); err != nil {
		return "", "", err
	}
	return own.daemon.Socket(), own.daemon.SwtpmDir(), nil
}

// settle writes keys and configuration. What a first start made, later ones keep.
func (s *Stack) settle(in surroundings) error {
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
	}
	if err := writeYAML(l.HostConfigFile(), l.hostSettings(in)); err != nil {
		return err
	}
	return writeYAML(l.ConfigFile(), l.settings(in))
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
	_, err := s.run(ctx, s.cfg.ConfigFile(), nil, "migrate")
	return err
}

// child is one of strongroom's own processes; its log is followed.
func (s *Stack) child(name, config, address string) *child {
	if !s.cfg.Quiet {
		go s.follower.follow(s.ctx, name, s.cfg.LogFile(name))
	}
	return &child{layout: s.cfg.Layout, name: name, address: address, command: []string{s.cfg.Binary, "--config", config, name}}
}
