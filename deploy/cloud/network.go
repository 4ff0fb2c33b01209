package cloud

import (
	"context"
	"fmt"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"

	"strongroom/deploy/cloud/ovn"
)

// Neutron is the service of networks, with OVN and a chassis for each of Hosts. Needs root.
const Neutron = "neutron"

// Hosts are the compute hosts that Neutron binds ports to.
var Hosts = []string{"host1", "host2"}

// startOVN starts what Neutron makes its networks with.
func (c *Cloud) startOVN(ctx context.Context) error {
	var err error
	c.network, err = ovn.Start(ctx, ovn.Config{
		Dir: c.file("ovn"), RunDir: c.file("run"), LogDir: c.file("log"), Hosts: Hosts, Logger: c.cfg.Logger,
	})
	if err != nil {
		return err
	}
	return writeFile(c.file(ovnMade), nil)
}

// awaitChassis waits until Neutron takes each host's chassis for alive: it binds no port to
// another.
func (c *Cloud) awaitChassis(ctx context.Context) error {
	if !c.runs(Neutron) {
		return nil
	}
	client, err := c.login(ctx, "admin")
	if err != nil {
		return fmt.Errorf("log in as admin: %w", err)
	}
	networks, err := openstack.NewNetworkV2(client, gophercloud.EndpointOpts{Region: Region})
	if err != nil {
		return err
	}
	return c.processes[Neutron].Until(ctx, func(ctx context.Context) error {
		// gophercloud cannot read the times of OVN's agents.
		var said struct {
			Agents []struct {
				Host  string `json:"host"`
				Alive bool   `json:"alive"`
			} `json:"agents"`
		}
		response, err := networks.Get(ctx, networks.ServiceURL("agents"), &said, nil)
		if err != nil {
			return err
		}
		response.Body.Close()
		alive := map[string]bool{}
		for _, a := range said.Agents {
			alive[a.Host] = alive[a.Host] || a.Alive
		}
		for _, host := range Hosts {
			if !alive[host] {
				return fmt.Errorf("the chassis of %s is not alive", host)
			}
		}
		return nil
	})
}
