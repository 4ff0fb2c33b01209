package cloud

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/portsbinding"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"strongroom/deploy/cloud/ovn"
)

// Neutron is the service of networks, with OVN and a chassis for each of Hosts. Needs root.
const Neutron = "neutron"

// Hosts are the compute hosts that Neutron binds ports to.
var Hosts = []string{"host1", "host2"}

// hosts are those of this cloud.
func (c *Cloud) hosts() ([]string, error) {
	if !c.cfg.Guests {
		return Hosts, nil
	}
	name, err := os.Hostname()
	return append([]string{name}, c.added...), err
}

// SwitchFolder is where the switch of this machine's chassis answers (Config.Guests).
func (c *Cloud) SwitchFolder() (string, error) {
	hosts, err := c.hosts()
	if err != nil {
		return "", err
	}
	return ovn.Switch(c.file("ovn"), hosts[0]), nil
}

// MachineSwitch is where libvirt and the tools of Open vSwitch look for the machine's switch.
const MachineSwitch = "/run/openvswitch"

// ShowSwitch has libvirt find the switch of this machine's chassis (Config.Guests), until the cloud stops. It fails where the
// machine has an Open vSwitch of its own.
func (c *Cloud) ShowSwitch(ctx context.Context) error {
	folder, err := c.SwitchFolder()
	if err != nil {
		return err
	}
	if _, err := os.Readlink(MachineSwitch); err == nil && !listens(ctx, filepath.Join(MachineSwitch, "db.sock")) {
		if err := os.Remove(MachineSwitch); err != nil { // of a cloud that was killed
			return err
		}
	}
	if err := os.Symlink(folder, MachineSwitch); err != nil {
		return fmt.Errorf("the machine has an Open vSwitch of its own: %w", err)
	}
	return nil
}

// hideSwitch undoes ShowSwitch.
func (c *Cloud) hideSwitch() error {
	folder, err := c.SwitchFolder()
	if err != nil {
		return err
	}
	if shown, err := os.Readlink(MachineSwitch); err != nil || shown != folder {
		return nil //nolint:nilerr // it is none of this cloud's
	}
	return os.Remove(MachineSwitch)
}

// listens reports whether something listens at a unix socket.
func listens(ctx context.Context, socket string) bool {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

// AddHost lets Neutron have one more host, whose guests are in a network namespace that `ip netns` knows
// (Config.Guests), and gives the folder in which its switch answers.
func (c *Cloud) AddHost(ctx context.Context, name, netns string) (string, error) {
	if err := c.network.AddHost(ctx, name, netns); err != nil {
		return "", fmt.Errorf("cloud: %w", err)
	}
	c.added = append(c.added, name)
	return ovn.Switch(c.file("ovn"), name), c.awaitChassis(ctx)
}

// Outside is the physical network on which OpenOutside has external ones.
const Outside = "outside"

// OpenOutside lets Neutron have external networks that are flat on Outside, and gives this machine an address there
// (Config.Guests).
func (c *Cloud) OpenOutside(ctx context.Context, address netip.Prefix) error {
	if err := c.network.OpenOutside(ctx, Outside, address); err != nil {
		return fmt.Errorf("cloud: %w", err)
	}
	return nil
}

// startOVN starts what Neutron makes its networks with.
func (c *Cloud) startOVN(ctx context.Context) error {
	hosts, err := c.hosts()
	if err != nil {
		return err
	}
	c.network, err = ovn.Start(ctx, ovn.Config{
		Dir: c.file("ovn"), RunDir: c.file("run"), LogDir: c.file("log"), Hosts: hosts, Guests: c.cfg.Guests, Logger: c.cfg.Logger,
	})
	if err != nil {
		return err
	}
	return writeFile(c.file(networksMade), nil)
}

// awaitChassis waits until Neutron takes each host's chassis for alive and has bound a port to
// it: a worker that is not connected to OVN yet answers 500.
func (c *Cloud) awaitChassis(ctx context.Context) error {
	if !c.runs(Neutron) || c.runs(Broker) {
		return nil
	}
	client, err := c.networking(ctx)
	if err != nil {
		return err
	}
	return c.processes[Neutron].Until(ctx, func(ctx context.Context) error {
		alive, err := agents(ctx, client)
		if err != nil {
			return err
		}
		hosts, err := c.hosts()
		if err != nil {
			return err
		}
		for _, host := range hosts {
			if alive[host] == 0 {
				return fmt.Errorf("the chassis of %s is not alive", host)
			}
		}
		return bindPorts(ctx, client, hosts)
	})
}

// networking gives a client of Neutron's administrator.
func (c *Cloud) networking(ctx context.Context) (*gophercloud.ServiceClient, error) {
	provider, err := c.login(ctx, "admin")
	if err != nil {
		return nil, fmt.Errorf("log in as admin: %w", err)
	}
	return openstack.NewNetworkV2(provider, gophercloud.EndpointOpts{Region: Region})
}

// agents counts the agents that Neutron takes for alive, by host.
func agents(ctx context.Context, client *gophercloud.ServiceClient) (alive map[string]int, err error) {
	// gophercloud cannot read the times of OVN's agents.
	var said struct {
		Agents []struct {
			Host  string `json:"host"`
			Alive bool   `json:"alive"`
		} `json:"agents"`
	}
	response, err := client.Get(ctx, client.ServiceURL("agents"), &said, nil)
	if err != nil {
		return nil, err
	}
	response.Body.Close()
	alive = map[string]int{}
	for _, a := range said.Agents {
		if a.Alive {
			alive[a.Host]++
		}
	}
	return alive, nil
}

// bindPorts makes a network with a port on each host, and removes them.
func bindPorts(ctx context.Context, client *gophercloud.ServiceClient, hosts []string) (err error) {
	network, err := networks.Create(ctx, client, networks.CreateOpts{Name: "bind-ports"}).Extract()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, networks.Delete(ctx, client, network.ID).ExtractErr()) }()
	for _, host := range hosts {
		var made struct {
			ports.Port
			portsbinding.PortsBindingExt
		}
		err := ports.Create(ctx, client, portsbinding.CreateOptsExt{
			CreateOptsBuilder: ports.CreateOpts{NetworkID: network.ID}, HostID: host,
		}).ExtractInto(&made)
		if err == nil && made.VIFType != "ovs" {
			err = fmt.Errorf("Neutron bound a port to %s as %q", host, made.VIFType)
		}
		if made.ID != "" {
			err = errors.Join(err, ports.Delete(ctx, client, made.ID).ExtractErr())
		}
		if err != nil {
			return err
		}
	}
	return nil
}
