package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"strongroom/devcloud"
)

// Config says what to run.
type Config struct {
	Layout
	Binary     string // strongroom itself
	Temporal   string // strongroom-temporal; "" looks for it
	OwnLibvirt bool   // run a libvirtd even where the machine's answers
	Hosts      int    // compute hosts: 1 to MaxHosts; 0 is 1. Several have a libvirtd of their own each
	CloudsYAML string // the clients' file to which the stack's clouds are added; "" for none
	Cloud      string // clouds.yaml of the OpenStack to use, with ServiceEntry; "" runs devcloud
	Quiet      bool   // keep the parts' logs in their files
	Logger     *slog.Logger
	Output     io.Writer // where the parts' logs and the welcome go
}

// Stack is everything that runs.
type Stack struct {
	cfg      Config
	parts    []*part
	lock     *os.File
	follower follower
	switches switches
	ctx      context.Context // of the followers
	stop     context.CancelFunc
}

// Up starts everything, in order, and returns when all of it answers. What was
// started is stopped again when something does not come up.
func Up(ctx context.Context, cfg Config) (*Stack, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("this needs root: it starts libvirt, QEMU and PostgreSQL")
	}
	cfg.Hosts = max(cfg.Hosts, 1)
	if cfg.Hosts > MaxHosts {
		return nil, fmt.Errorf("%d hosts: there can be 1 to %d", cfg.Hosts, MaxHosts)
	}
	if err := cfg.make(); err != nil {
		return nil, err
	}
	s := &Stack{cfg: cfg, follower: follower{out: cfg.Output}}
	s.ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	if err := s.claim(); err != nil {
		return nil, err
	}
	if err := cfg.PortsAreFree(); err != nil {
		s.Down()
		return nil, err
	}
	if err := s.raise(ctx); err != nil {
		s.Down()
		return nil, err
	}
	if err := writeFile(cfg.ReadyFile(), time.Now().Format(time.RFC3339)+"\n"); err != nil {
		s.Down()
		return nil, err
	}
	s.welcome()
	return s, nil
}

// claim makes sure that one stack at a time uses the state folder.
func (s *Stack) claim() error {
	f, err := os.OpenFile(s.cfg.path("lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return fmt.Errorf("strongroom runs already in %s", s.cfg.State)
	}
	s.lock = f
	_ = os.Remove(s.cfg.ReadyFile())
	return nil
}

// Running reports whether a stack is up in the layout's folder.
func Running(l Layout) bool {
	f, err := os.Open(l.path("lock"))
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	if unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil {
		return false
	}
	_, err = os.Stat(l.ReadyFile())
	return err == nil
}

// Wait returns when ctx ends.
func (s *Stack) Wait(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Down stops everything that Up started, last first. Servers go off with their
// libvirtd. A nil Stack has nothing to stop.
func (s *Stack) Down() {
	if s == nil {
		return
	}
	_ = os.Remove(s.cfg.ReadyFile())
	s.switches.end()
	for i := len(s.parts) - 1; i >= 0; i-- {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		if err := s.parts[i].down(ctx); err != nil {
			s.cfg.Logger.Error("did not stop cleanly", "part", s.parts[i].name, "error", err)
		}
		cancel()
	}
	s.stop()
	_ = s.lock.Close()
}

func (s *Stack) add(ctx context.Context, name string, service service) error {
	p := &part{name: name, service: service, log: s.cfg.Logger}
	if err := p.up(ctx); err != nil {
		return err
	}
	s.parts = append(s.parts, p)
	return nil
}

func (s *Stack) welcome() {
	if s.cfg.Quiet {
		return
	}
	client := "openstack --os-cloud " + CloudName + " server list"
	if s.cfg.Cloud != "" {
		client = "OS_CLIENT_CONFIG_FILE=" + s.cfg.Cloud + " openstack --os-cloud NAME server list"
	}
	_, _ = fmt.Fprintf(s.cfg.Output, `
strongroom is ready.
  the client     %s
  compute API    %s/v2.1
  Temporal UI    %s
  networks       %s
  logs, state    %s
Ctrl-C stops everything.

`, client, s.cfg.APIURL(), s.cfg.TemporalUI(), s.cfg.networksHint(), s.cfg.State)
}

// networksHint says which networks servers can be on.
func (c Config) networksHint() string {
	switch {
	case c.Cloud != "":
		return "those of networks.backend; where that is none: create servers with --nic none"
	case c.Hosts > 1:
		return "none, for there are several hosts: create servers with --nic none"
	}
	projects, err := devcloud.Projects(c.path("users.yaml"))
	if err != nil {
		return "unknown: " + err.Error()
	}
	without := 0
	for _, p := range projects {
		if p.Network > maxNetworks {
			without++
		}
	}
	if without > 0 {
		return fmt.Sprintf("one for each of %d projects; in the other %d create servers with --nic none", len(projects)-without, without)
	}
	return "one for each project; servers that name none are on it"
}
