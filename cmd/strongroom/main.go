// Command strongroom is the control plane for encrypted virtual machines: its
// services, its one-machine mode, and its client, in one binary.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
	kongcompletion "github.com/jotaen/kong-completion"

	"strongroom/activities/secret"
	"strongroom/securepv/initializer/command"
)

type cli struct {
	Config   string `type:"path" placeholder:"FILE" env:"STRONGROOM_CONFIG" help:"Configuration file of the services."`
	LogLevel string `enum:"debug,info,warn,error" default:"info" help:"How much to log: debug, info, warn or error."`
	LogJSON  bool   `name:"log-json" help:"Log JSON lines, for machines."`

	Dev  devCommand  `cmd:"" group:"try" help:"Run everything on this machine, in this terminal: databases, libvirt, identity, images, api and workers."`
	Demo demoCommand `cmd:"" group:"try" help:"Boot an encrypted server with a vTPM on this machine and prove it."`

	Server     serverCommand     `cmd:"" group:"use" help:"Create, list, show, start, stop and delete servers; make images of them."`
	Operation  operationCommand  `cmd:"" group:"use" help:"List, show, watch and cancel the operations of servers."`
	VolumeType volumeTypeCommand `cmd:"" group:"use" help:"List, make, change and import volume types."`
	Generate   generateCommand   `cmd:"" group:"use" help:"Put the initializer, which opens encrypted volumes, into the YAML of Kubernetes workloads."`

	Initializer command.Initializer `cmd:"" group:"use" help:"Fetch a workload's secret and open its encrypted volumes: the program of the container that generate puts into pods."`

	Audit  auditCommand  `cmd:"" group:"operate" help:"Compare the ledger with what hosts and cloud services really have."`
	Repair repairCommand `cmd:"" group:"operate" help:"Mend what a restored, older database does not know."`

	API          apiCommand          `cmd:"" name:"api" group:"operate" help:"Run the compute API."`
	Metadata     metadataCommand     `cmd:"" group:"operate" help:"Run the metadata service, which tells guests who they are."`
	ConsoleProxy consoleProxyCommand `cmd:"" group:"operate" help:"Run the console proxy, through which consoles of servers are reached."`
	Gateway      gatewayCommand      `cmd:"" group:"operate" help:"Run the gateway, of which compute hosts get passphrases and images."`
	Control      controlCommand      `cmd:"" group:"operate" help:"Run a control worker: workflows and calls of cloud services."`
	Host         hostCommand         `cmd:"" group:"operate" help:"List and show hosts; run the host worker of this one; drain a host; forget one that never comes back."`
	Project      projectCommand      `cmd:"" group:"operate" help:"Forget what is left in a project that was deleted in Keystone."`
	Authority    authorityCommand    `cmd:"" group:"operate" help:"Make the certificate authority of strongroom's processes; issue certificates of it for Temporal and console proxies."`
	Share        shareCommand        `cmd:"" group:"operate" help:"Make, list and delete the shares of a machine that has no Manila."`
	ImageKey     imageKeyCommand     `cmd:"" group:"operate" help:"List the keys of images that are gone with too many others at once; say that the images are gone."`
	Legacy       legacyCommand       `cmd:"" group:"operate" help:"Move keys of the legacy disk encryption to the disks that they open."`
	Database     databaseCommand     `cmd:"" group:"operate" help:"Give a role of PostgreSQL the rights that a service needs."`
	Migrate      migrateCommand      `cmd:"" group:"operate" help:"Bring the database and Temporal's namespace up to this release."`

	Version    versionCommand            `cmd:"" group:"program" help:"Print the version of this binary."`
	Completion kongcompletion.Completion `cmd:"" group:"program" help:"Print what has a shell complete commands and flags."`
	Man        manCommand                `cmd:"" group:"program" help:"Write the manual pages into a folder."`

	Devcloud devcloudCommand `cmd:"" hidden:"" help:"Run the identity, image and network service of the one-machine mode."`
}

const description = `strongroom runs encrypted virtual machines behind an OpenStack-compatible API.

Try it on one machine (root, Debian 12 or newer):

  strongroom demo                      boots an encrypted server with a vTPM, and proves it
  strongroom dev                       runs everything until Ctrl-C
  openstack --os-cloud strongroom-dev server list

Use a cloud with the credentials that the openstack client takes: --os-cloud or OS_CLOUD names one of
clouds.yaml; OS_AUTH_URL and the other OS_ variables say all of it.

  strongroom server create vault --flavor safe --image debian --wait
  strongroom server list -c name -c status
  strongroom server image create vault copy --key new --wait
  strongroom operation watch vault

Exit codes: 0: done; 1: it failed or was refused, of several things at least one; 2: the command line was not
understood; 3: waiting ended first, and the operation goes on.`

// parser reads command lines.
func parser(c *cli) (*kong.Kong, error) {
	k, err := kong.New(c, kong.Name("strongroom"), kong.Description(description), command.Vars,
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true}),
		kong.ExplicitGroups([]kong.Group{
			{Key: "try", Title: "Try it on one machine:"},
			{Key: "use", Title: "Use a cloud:"},
			{Key: "operate", Title: "Operate a cloud:"},
			{Key: "program", Title: "This program:"},
		}))
	if err == nil {
		kongcompletion.Register(k)
	}
	return k, err
}

func main() {
	if err := secret.KeepOutOfDumps(); err != nil {
		fmt.Fprintln(os.Stderr, "strongroom: "+err.Error())
		os.Exit(1)
	}
	var c cli
	k, err := parser(&c)
	if err != nil {
		panic(err) // of the tags of cli
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	parsed, err := k.Parse(os.Args[1:])
	if err != nil {
		err = misread(err)
	} else {
		log := logger(c)
		parsed.BindTo(ctx, (*context.Context)(nil))
		err = parsed.Run(&run{Context: ctx, cli: &c, log: log}, log)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "strongroom: "+err.Error())
		stop()
		os.Exit(exitCode(err)) //nolint:gocritic // stop was called
	}
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
