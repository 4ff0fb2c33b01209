package main

import (
	"fmt"
	"os"
	"path/filepath"

	"strongroom/deploy/dev/stack"
)

// devFlags say where the one-machine mode lives.
type devFlags struct {
	State      string `type:"path" default:"/var/lib/strongroom-dev" help:"Folder of everything that it keeps."`
	PortBase   int    `default:"8770" help:"First of nine ports on 127.0.0.1."`
	OwnLibvirt bool   `help:"Run a libvirtd of its own even where the machine's answers."`
	CloudsYAML string `name:"clouds-yaml" type:"path" default:"~/.config/openstack/clouds.yaml" help:"Where clients look for clouds; the stack's clouds are added there."`
}

func (d devFlags) stackConfig(r *run) (stack.Config, error) {
	self, err := os.Executable()
	if err != nil {
		return stack.Config{}, err
	}
	return stack.Config{
		Layout: stack.Layout{State: filepath.Clean(d.State), PortBase: d.PortBase},
		Binary: self, OwnLibvirt: d.OwnLibvirt, CloudsYAML: d.CloudsYAML, Logger: r.log, Output: os.Stdout,
	}, nil
}

type devCommand struct {
	devFlags
	Hosts int    `default:"1" placeholder:"N" help:"How many compute hosts to run, up to 9: each has a libvirtd and a host worker of its own."`
	Cloud string `type:"existingfile" placeholder:"FILE" help:"Use the OpenStack of this clouds.yaml, as strongroom's own user of the entry 'strongroom', and run no identity and image service. Its catalog names the compute API: see --port-base."`
}

// Help is shown by --help.
func (devCommand) Help() string {
	return `Needs root, and the Debian packages that ./task installs. Ctrl-C stops everything
that it started; the next start goes on with the same servers, which are then off.

When it says that it is ready:

  openstack --os-cloud strongroom-dev server list
  strongroom server list

With --hosts 2 there are two compute hosts. The second has its files below h2 in the state
folder, namespaces of its own for libvirtd, guests and worker, and a network link to the
first; its name ends in -2. A later start may have more hosts or fewer: those that are left
out are down, with what is on them. docs/development.md has how to cut links and power.

On a real OpenStack, for example the one that ./task cloud:up runs, as its clouds.yaml says
(auth, region_name, cacert, cert, key, verify of the entry "strongroom"):

  strongroom dev --cloud /var/lib/strongroom-cloud/clouds.yaml
  OS_CLIENT_CONFIG_FILE=/var/lib/strongroom-cloud/clouds.yaml openstack --os-cloud demo server list`
}

// Validate is called by kong.
func (d devCommand) Validate() error {
	if d.Hosts < 1 || d.Hosts > stack.MaxHosts {
		return fmt.Errorf("--hosts %d: there can be 1 to %d", d.Hosts, stack.MaxHosts)
	}
	return nil
}

func (d devCommand) Run(r *run) error {
	cfg, err := d.stackConfig(r)
	if err != nil {
		return err
	}
	cfg.Cloud, cfg.Hosts = d.Cloud, d.Hosts
	s, err := stack.Up(r, cfg)
	if err != nil {
		return err
	}
	defer s.Down()
	return s.Wait(r)
}
