// Command strongroom is the control plane for encrypted virtual machines: its
// services, its one-machine mode, and its client, in one binary.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"strongroom/securepv/initializer/command"
)

type cli struct {
	Config   string `short:"c" type:"path" placeholder:"FILE" env:"STRONGROOM_CONFIG" help:"Configuration file of the services."`
	LogLevel string `enum:"debug,info,warn,error" default:"info" help:"How much to log: debug, info, warn or error."`
	LogJSON  bool   `name:"log-json" help:"Log JSON lines, for machines."`

	Dev  devCommand  `cmd:"" group:"try" help:"Run everything on this machine, in this terminal: databases, libvirt, identity, images, api and workers."`
	Demo demoCommand `cmd:"" group:"try" help:"Boot an encrypted server with a vTPM on this machine and prove it."`

	Server     serverCommand     `cmd:"" group:"use" help:"Create, list, show, start, stop and delete servers."`
	VolumeType volumeTypeCommand `cmd:"" group:"use" help:"List, make, change and import volume types."`
	Generate   generateCommand   `cmd:"" group:"use" help:"Put the initializer, which opens encrypted volumes, into the YAML of Kubernetes workloads."`

	Initializer command.Initializer `cmd:"" group:"use" help:"Fetch a workload's secret and open its encrypted volumes: the program of the container that generate puts into pods."`

	Audit  auditCommand  `cmd:"" group:"operate" help:"Compare the ledger with what hosts and cloud services really have."`
	Repair repairCommand `cmd:"" group:"operate" help:"Mend what a restored, older database does not know."`

	API       apiCommand       `cmd:"" name:"api" group:"operate" help:"Run the compute API."`
	Metadata  metadataCommand  `cmd:"" group:"operate" help:"Run the metadata service, which tells guests who they are."`
	Gateway   gatewayCommand   `cmd:"" group:"operate" help:"Run the gateway, of which compute hosts get passphrases and images."`
	Control   controlCommand   `cmd:"" group:"operate" help:"Run a control worker: workflows and calls of cloud services."`
	Host      hostCommand      `cmd:"" group:"operate" help:"Run the host worker of this compute host; drain a host; forget one that never comes back."`
	Project   projectCommand   `cmd:"" group:"operate" help:"Forget what is left in a project that was deleted in Keystone."`
	Authority authorityCommand `cmd:"" group:"operate" help:"Make the certificate authority of strongroom's processes; issue certificates of it for Temporal."`
	Share     shareCommand     `cmd:"" group:"operate" help:"Make, list and delete the shares of a machine that has no Manila."`
	ImageKey  imageKeyCommand  `cmd:"" group:"operate" help:"List the keys of images that are gone with too many others at once; say that the images are gone."`
	Legacy    legacyCommand    `cmd:"" group:"operate" help:"Move keys of the legacy disk encryption to the disks that they open."`
	Database  databaseCommand  `cmd:"" group:"operate" help:"Give a role of PostgreSQL the rights that a service needs."`
	Migrate   migrateCommand   `cmd:"" group:"operate" help:"Bring the database and Temporal's namespace up to this release."`
	Version   versionCommand   `cmd:"" group:"operate" help:"Print the version of this binary."`
	Devcloud  devcloudCommand  `cmd:"" hidden:"" help:"Run the identity and image service of the one-machine mode."`
}

const description = `strongroom runs encrypted virtual machines behind an OpenStack-compatible API.

Try it on one machine (root, Debian 12 or newer):

  strongroom demo                      boots an encrypted server with a vTPM, and proves it
  strongroom dev                       runs everything until Ctrl-C
  openstack --os-cloud strongroom-dev server list

Client commands take their cloud from clouds.yaml (--os-cloud, OS_CLOUD), like openstack does.`

func main() {
	var c cli
	k := kong.Parse(&c, kong.Name("strongroom"), kong.Description(description), kong.UsageOnError(), command.Vars,
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true}),
		kong.ExplicitGroups([]kong.Group{
			{Key: "try", Title: "Try it on one machine:"},
			{Key: "use", Title: "Use a cloud:"},
			{Key: "operate", Title: "Operate a cloud:"},
		}))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := logger(c)
	k.BindTo(ctx, (*context.Context)(nil))
	err := k.Run(&run{Context: ctx, cli: &c, log: log}, log)
	if err != nil {
		fmt.Fprintln(os.Stderr, "strongroom: "+err.Error())
		stop()
		os.Exit(exitCode(err)) //nolint:gocritic // stop was called
	}
}

// exitCode is 1 for an error that does not ask for another one.
func exitCode(err error) int {
	var asks kong.ExitCoder
	if errors.As(err, &asks) {
		return asks.ExitCode()
	}
	return 1
}

// run is what a command gets: the context that ends with Ctrl-C, and the flags
// that all share.
type run struct {
	context.Context
	cli *cli
	log *slog.Logger
}

func (r *run) config() (*Config, error) { return loadConfig(r.cli.Config) }

func logger(c cli) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.LogLevel))
	options := &slog.HandlerOptions{Level: level}
	if c.LogJSON {
		return slog.New(slog.NewJSONHandler(os.Stderr, options))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, options))
}
