package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"golang.org/x/term"

	"strongroom/deploy/dev/stack"
)

type demoCommand struct {
	devFlags
	Image   string        `type:"existingfile" placeholder:"FILE" help:"A bootable qcow2 image of your own instead of the tiny guest."`
	SSH     string        `name:"ssh" placeholder:"USER" help:"Then log in to it over ssh as this user of it, with a key that it finds in its metadata: for a cloud image (--image)."`
	Share   bool          `help:"Then attach a share, and have the guest write a file into it that is read on the host."`
	Timeout time.Duration `default:"5m" help:"How long the server may take."`
	Once    bool          `help:"Stop everything after the proof. That is also what happens when this is no terminal."`
}

// Help is shown by --help.
func (demoCommand) Help() string {
	return `Starts what 'strongroom dev' starts, unless it runs already, then boots a server
with an encrypted root, ephemeral and swap disk and a TPM 2.0, and prints the proof:
the status, what qemu-img says of each disk, the guest's own words about its TPM,
that libvirt has forgotten the secrets, and what the guest answers at its address. With --image and --ssh it is a cloud
image that boots, and answers over ssh. With --share it then attaches a folder of
this machine as a share, which the guest mounts by virtiofs. Run it as often as you like.`
}

func (d demoCommand) Run(r *run) error {
	if d.Share && d.Image != "" {
		return errors.New("--share is for the tiny guest, which can be told what to write: leave out --image")
	}
	if d.SSH != "" && d.Image == "" {
		return errors.New("--ssh is for a cloud image: name one with --image")
	}
	ctx, stop := context.WithCancel(r)
	defer stop()
	own, layout, err := d.bringUp(ctx, r)
	if err != nil {
		return err
	}
	defer own.Down()
	if err := os.Setenv("OS_CLIENT_CONFIG_FILE", layout.CloudsFile()); err != nil {
		return err
	}
	s, err := d.boot(ctx, layout)
	if err != nil {
		return err
	}
	if err := d.prove(ctx, layout, s); err != nil {
		return err
	}
	if err := d.reach(ctx, layout, s); err != nil {
		return err
	}
	if d.Share {
		if err := d.proveShare(ctx, layout, s); err != nil {
			return err
		}
	}
	d.farewell(layout, s)
	if own == nil || d.Once || !term.IsTerminal(int(os.Stdin.Fd())) {
		return nil
	}
	fmt.Println("\nEverything keeps running. Ctrl-C stops it; `strongroom dev` goes on from there.")
	return own.Wait(ctx)
}

// bringUp starts the stack, or finds the one that runs. The log goes to files.
func (d demoCommand) bringUp(ctx context.Context, r *run) (*stack.Stack, stack.Layout, error) {
	cfg, err := d.stackConfig(r)
	if err != nil {
		return nil, cfg.Layout, err
	}
	if stack.Running(cfg.Layout) {
		say("strongroom runs already (%s)", cfg.Layout.State)
		return nil, cfg.Layout, nil
	}
	say("starting PostgreSQL, Temporal, libvirt, identity, images, api and workers in %s", cfg.Layout.State)
	cfg.Quiet, cfg.Logger = true, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	own, err := stack.Up(ctx, cfg)
	return own, cfg.Layout, err
}

func (d demoCommand) farewell(layout stack.Layout, s *servers.Server) {
	fmt.Printf(`
Temporal UI   %s   (one row per operation)
the client    openstack --os-cloud %s server show %s
the console   openstack --os-cloud %s console log show %s
the audit     %s --config %s audit
to delete     openstack --os-cloud %s server delete --wait %s
`, layout.TemporalUI(), stack.CloudName, s.Name, stack.CloudName, s.Name, self(), layout.ConfigFile(), stack.CloudName, s.Name)
	if d.SSH != "" {
		fmt.Printf("to log in     ssh -i %s %s@%s\n", keyFile(layout), d.SSH, addressOf(s))
	}
}

// self is this program as the reader can call it.
func self() string {
	if path, err := os.Executable(); err == nil {
		return path
	}
	return "strongroom"
}

func say(format string, args ...any) { fmt.Printf("· "+format+"\n", args...) }
