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
	layout Layout
	log    *slog.Logger
	daemon *libvirtd.Daemon
}

func (l *libvirtService) start(ctx context.Context) error {
	if err := l.launch(ctx); err != nil {
		return err
	}
	return process.WritePIDFile(l.layout.PIDFile("libvirtd"), l.daemon.PID())
}

func (l *libvirtService) launch(ctx context.Context) error {
	if l.daemon != nil {
		return l.daemon.Restart(ctx)
	}
	d, err := libvirtd.Start(ctx, libvirtd.Config{
		Dir: l.layout.path("libvirt"), CacheDir: libvirtd.DefaultCacheDir(), Mode: libvirtd.Lasting, Logger: l.log,
	})
	l.daemon = d
	return err
}

func (l *libvirtService) done() <-chan struct{} { return l.daemon.Done() }

func (l *libvirtService) stop(ctx context.Context) error { return l.daemon.StopAll(ctx) }

// HypervisorSecrets counts the secrets that the stack's libvirt knows of one server.
// Others may be starting at the same time, and theirs are not counted.
func HypervisorSecrets(ctx context.Context, layout Layout, server string) (int, error) {
	socket := layout.path("libvirt", "run", "libvirt-sock")
	conn, err := net.DialTimeout("unix", socket, time.Second)
	if err != nil {
		if conn, err = net.DialTimeout("unix", machineLibvirt, time.Second); err != nil {
			return 0, fmt.Errorf("libvirt does not answer: %w", err)
		}
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
