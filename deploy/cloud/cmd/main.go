// Command cmd runs the cloud of package cloud in the background:
//
//	go run ./deploy/cloud/cmd up --network
//	OS_CLIENT_CONFIG_FILE=/var/lib/strongroom-cloud/clouds.yaml openstack --os-cloud demo secret list
//	go run ./deploy/cloud/cmd down
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"strongroom/deploy/cloud"
	"strongroom/deploy/dev/process"
)

// command is the command line.
type command struct {
	Up    up    `cmd:"" help:"Start the cloud, or go on with the one in the folder, and leave it running."`
	Serve serve `cmd:"" help:"Run the cloud in this terminal until Ctrl-C."`
	Down  down  `cmd:"" help:"Stop the cloud and remove its folder."`
}

// place is where a cloud lives.
type place struct {
	Dir string `default:"/var/lib/strongroom-cloud" help:"The folder that holds all its state."`
}

func (p place) file(name string) string { return filepath.Join(p.Dir, name) }

// pidFile names the process that runs the cloud, up the file it writes once all
// services answer.
func (p place) pidFile() string { return p.file(cloud.Supervisor + ".pid") }
func (p place) up() string      { return p.file(cloud.Supervisor + ".up") }

type settings struct {
	place
	Services          []string      `help:"Only these of ${all}; keystone always runs." placeholder:"NAME,…"`
	Network           bool          `help:"Neutron too, with OVN, which guests of this machine can be plugged into. Needs root."`
	MetadataPort      int           `default:"8776" help:"Where strongroom's metadata service listens on loopback: Neutron's metadata agent brings guests' questions there."`
	Strongroom        string        `default:"http://127.0.0.1:8774" help:"Base URL of strongroom's own API, for the catalog."`
	TokenExpiry       time.Duration `default:"1h" help:"How long a token lives."`
	ExpiredWindow     time.Duration `default:"48h" help:"How long after that it is good beside a service token."`
	TokenCache        time.Duration `default:"0s" help:"How long a service trusts a token without asking Keystone again."`
	PrivateFromAdmins bool          `help:"Barbican keeps a project's administrators from reading secrets that users keep to themselves."`
	ManilaRoot        string        `help:"Run Manila from this folder, which deploy/cloud/manila-root made." placeholder:"DIR"`
	ImageHash         string        `default:"sha512" enum:"sha256,sha512" help:"Algorithm of an image's os_hash_value."`
}

type serve struct{ settings }

// Run runs the cloud until a signal comes.
func (s serve) Run(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	starting, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	var policy map[string]string
	if s.PrivateFromAdmins {
		policy = cloud.NoAdminReads
	}
	services := s.Services
	if s.Network {
		if services == nil {
			services = cloud.Default()
		}
		services = append(services, cloud.Neutron)
	}
	c, err := cloud.Start(starting, cloud.Config{
		Dir: s.Dir, Services: services, Guests: s.Network, Strongroom: s.Strongroom, TokenExpiry: s.TokenExpiry,
		ExpiredWindow: s.ExpiredWindow, TokenCache: s.TokenCache, ImageHash: s.ImageHash, BarbicanPolicy: policy, ManilaRoot: s.ManilaRoot,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	defer os.Remove(s.place.up())
	if err := s.ready(ctx, c); err != nil {
		return errors.Join(err, c.Stop(context.WithoutCancel(ctx)))
	}
	<-ctx.Done()
	return c.Stop(context.WithoutCancel(ctx))
}

// ready opens the cloud to the guests of this machine, and says that it is up: with what clients and strongroom need for it.
func (s serve) ready(ctx context.Context, c *cloud.Cloud) error {
	said := fmt.Sprintf("export OS_CLIENT_CONFIG_FILE=%s OS_CLOUD=demo\n", c.CloudsFile())
	if s.Network {
		file, err := c.MetadataSecret()
		if err != nil {
			return err
		}
		if err := c.ShowSwitch(ctx); err != nil {
			return err
		}
		if err := c.ServeMetadata(ctx, s.MetadataPort, file); err != nil {
			return err
		}
		said += fmt.Sprintf("export STRONGROOM_NETWORKS__BACKEND=neutron STRONGROOM_METADATA__PROXY_SHARED_SECRET=%s\n", file)
	}
	return os.WriteFile(s.place.up(), []byte(said), 0o600)
}

type up struct{ settings }

// Run starts this program again, in the background, and waits until it is up.
func (u up) Run(ctx context.Context) error {
	if pid, running := process.Named(u.pidFile()); running {
		return fmt.Errorf("a cloud runs in %s already, as process %d", u.Dir, pid)
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.Remove(u.place.up()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	arguments := append([]string{program, "serve"}, os.Args[2:]...)
	p, err := process.Start(ctx, process.Config{
		Name: "cloud", Command: arguments, Dir: "/",
		LogFile: u.file(cloud.Supervisor + ".log"), PIDFile: u.pidFile(),
	})
	if err != nil {
		return err
	}
	ready := func(context.Context) error {
		_, err := os.Stat(u.place.up())
		return err
	}
	if err := p.Until(ctx, ready); err != nil {
		return errors.Join(err, p.Stop(context.WithoutCancel(ctx)))
	}
	said, err := os.ReadFile(u.place.up())
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(said)
	return err
}

type down struct{ place }

// Run ends the process that runs the cloud, which stops the services, and removes
// the folder. A folder that holds no cloud is not touched.
func (d down) Run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		pid, running := process.Named(d.pidFile())
		if !running {
			break
		}
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("process %d does not end: %w", pid, ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
	return cloud.Remove(d.Dir)
}

func main() {
	parsed := kong.Parse(&command{}, kong.Name("cloud"), kong.UsageOnError(),
		kong.Description("Real OpenStack services on this machine, for tests and trials."),
		kong.Vars{"all": fmt.Sprint(cloud.All)}, kong.BindTo(context.Background(), (*context.Context)(nil)))
	parsed.FatalIfErrorf(parsed.Run())
}
