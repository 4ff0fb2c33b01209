package stack

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"strongroom/devcloud"
)

// machineLibvirt is the socket of the machine's own libvirtd.
const machineLibvirt = "/run/libvirt/libvirt-sock"

// raise starts the parts in the order in which they need each other.
func (s *Stack) raise(ctx context.Context) error {
	database := &postgresService{layout: s.cfg.Layout}
	if err := s.add(ctx, "postgres", database); err != nil {
		return err
	}
	if err := s.add(ctx, "temporal", &temporalService{layout: s.cfg.Layout, binary: s.cfg.Temporal}); err != nil {
		return err
	}
	socket, swtpm, err := s.libvirt(ctx)
	if err != nil {
		return err
	}
	if err := s.settle(database.url(), socket, swtpm); err != nil {
		return err
	}
	if err := s.migrate(ctx); err != nil {
		return err
	}
	for _, c := range []*child{
		s.child("devcloud", s.cfg.cloudAddr()),
		s.child("api", s.cfg.apiAddr()),
		s.child("control", ""),
		s.child("host", s.cfg.agentAddr()),
	} {
		if err := s.add(ctx, c.name, c); err != nil {
			return err
		}
	}
	return nil
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

// settle writes keys, users and configuration. What a first start made, later
// ones keep.
func (s *Stack) settle(databaseURL, socket, swtpm string) error {
	l := s.cfg.Layout
	if err := ensureKey(l.path("agent.key")); err != nil {
		return err
	}
	err := devcloud.EnsureUsers(l.path("users.yaml"), func(passwords map[string]string) error {
		service := []byte(passwords[devcloud.ServiceUser] + "\n")
		if err := os.WriteFile(l.path("service.password"), service, 0o600); err != nil {
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
	if s.cfg.CloudsYAML != "" && s.cfg.CloudsYAML != l.CloudsFile() {
		if err := mergeClouds(s.cfg.CloudsYAML, l.CloudsFile()); err != nil {
			return fmt.Errorf("%s: %w", s.cfg.CloudsYAML, err)
		}
	}
	return writeYAML(l.ConfigFile(), l.settings(databaseURL, socket, swtpm))
}

func (s *Stack) migrate(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, s.cfg.Binary, "--config", s.cfg.ConfigFile(), "migrate").CombinedOutput()
	if err != nil {
		return fmt.Errorf("migrate: %w: %s", err, out)
	}
	return nil
}

// child is one of strongroom's own processes; its log is followed.
func (s *Stack) child(name, address string) *child {
	if !s.cfg.Quiet {
		go s.follower.follow(s.ctx, name, s.cfg.LogFile(name))
	}
	return &child{layout: s.cfg.Layout, name: name, address: address, command: []string{s.cfg.Binary, "--config", s.cfg.ConfigFile(), name}}
}
