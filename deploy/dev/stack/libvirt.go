package stack

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"

	"strongroom/deploy/dev/libvirtd"
	"strongroom/deploy/dev/process"
)

// libvirtService is a libvirtd of the stack's own. Servers outlive its restart
// and go off when the stack goes down.
type libvirtService struct {
	host   Host
	log    *slog.Logger
	daemon *libvirtd.Daemon
}

func (l *libvirtService) start(ctx context.Context) error {
	if err := l.launch(ctx); err != nil {
		return err
	}
	return process.WritePIDFile(l.host.PIDFile(l.host.Part("libvirtd")), l.daemon.PID())
}

func (l *libvirtService) launch(ctx context.Context) error {
	if l.daemon != nil {
		return l.daemon.Restart(ctx)
	}
	cfg, err := l.host.libvirtd()
	if err != nil {
		return err
	}
	cfg.Logger = l.log
	l.daemon, err = libvirtd.Start(ctx, cfg)
	return err
}

func (l *libvirtService) done() <-chan struct{} { return l.daemon.Done() }

func (l *libvirtService) stop(ctx context.Context) error { return l.daemon.StopAll(ctx) }

func (l *libvirtService) kill(ctx context.Context) error { return l.daemon.PowerOff(ctx) }

// HypervisorSecrets counts the secrets that the first host's libvirt knows of one server.
// Others may be starting at the same time, and theirs are not counted.
func HypervisorSecrets(ctx context.Context, layout Layout, server string) (int, error) {
	return layout.Host(1).HypervisorSecrets(ctx, server)
}

// HypervisorSecrets counts the secrets that the host's libvirt knows of one server.
func (h Host) HypervisorSecrets(ctx context.Context, server string) (int, error) {
	conn, err := net.DialTimeout("unix", h.LibvirtSocket(), time.Second)
	if err != nil && h.first() {
		conn, err = net.DialTimeout("unix", machineLibvirt, time.Second)
	}
	if err != nil {
		return 0, fmt.Errorf("libvirt does not answer: %w", err)
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	l := libvirt.NewWithDialer(dialed{conn})
	if err := l.Connect(); err != nil {
		return 0, err
	}
	secrets, _, err := l.ConnectListAllSecrets(1, 0)
	if err != nil {
		return 0, err
	}
	count := 0
	for _, s := range secrets {
		if strings.Contains(s.UsageID, server) { // which all names of uses hold
			count++
		}
	}
	return count, nil
}

type dialed struct{ net.Conn }

func (d dialed) Dial() (net.Conn, error) { return d.Conn, nil }
