package main

import (
	"fmt"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/attachinterfaces"
)

type serverInterface struct {
	Attach serverInterfaceAttach `cmd:"" help:"Give a server a port more, also while it runs."`
	Detach serverInterfaceDetach `cmd:"" help:"Take a port from a server, once its guest has given the device up."`
	List   serverInterfaceList   `cmd:"" help:"List a server's ports."`
}

// interfaceVersion is the first that shows tags.
const interfaceVersion = "2.70"

// onInterfaces finds a server, for its interfaces.
func (c cloud) onInterfaces(r *run, name string) (*gophercloud.ServiceClient, string, error) {
	client, s, err := c.server(r, name)
	if err != nil {
		return nil, "", err
	}
	client.Microversion = interfaceVersion
	return client, s.ID, nil
}

// plugged is an interface with its tag, which gophercloud does not know.
type plugged struct {
	attachinterfaces.Interface
	Tag string `json:"tag"`
}

func (c cloud) printInterfaces(o output, all []plugged) error {
	return o.print(all, func(w *sheet) {
		w.header("PORT", "NETWORK", "MAC", "ADDRESSES", "STATE", "TAG")
		for _, i := range all {
			var addresses []string
			for _, ip := range i.FixedIPs {
				addresses = append(addresses, ip.IPAddress)
			}
			w.row(i.PortID, i.NetID, i.MACAddr, strings.Join(addresses, ","), i.PortState, i.Tag)
		}
	})
}

type serverInterfaceAttach struct {
	cloud
	output
	Server  string `arg:"" help:"Server, by id or name."`
	Network string `xor:"what" help:"Network to make a port on, by UUID; the only one there is by default."`
	Port    string `xor:"what" help:"Port that is there, by UUID."`
	FixedIP string `help:"Address on the network."`
	Tag     string `help:"Tag of the device, which the guest finds in its metadata."`
}

func (c serverInterfaceAttach) Run(r *run) error {
	client, id, err := c.onInterfaces(r, c.Server)
	if err != nil {
		return err
	}
	asked := map[string]any{}
	for key, value := range map[string]string{"net_id": c.Network, "port_id": c.Port, "tag": c.Tag} {
		if value != "" {
			asked[key] = value
		}
	}
	if c.FixedIP != "" {
		asked["fixed_ips"] = []map[string]string{{"ip_address": c.FixedIP}}
	}
	var answer struct {
		Attached plugged `json:"interfaceAttachment"`
	}
	response, err := client.Post(r, client.ServiceURL("servers", id, "os-interface"), map[string]any{"interfaceAttachment": asked}, &answer, &gophercloud.RequestOpts{OkCodes: []int{200}})
	if err != nil {
		return explain(err)
	}
	if err := response.Body.Close(); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return c.printInterfaces(c.output, []plugged{answer.Attached})
}

type serverInterfaceDetach struct {
	cloud
	Server string `arg:"" help:"Server, by id or name."`
	Port   string `arg:"" help:"Port, by UUID."`
}

func (c serverInterfaceDetach) Run(r *run) error {
	client, id, err := c.onInterfaces(r, c.Server)
	if err != nil {
		return err
	}
	return explain(attachinterfaces.Delete(r, client, id, c.Port).ExtractErr())
}

type serverInterfaceList struct {
	cloud
	output
	Server string `arg:"" help:"Server, by id or name."`
}

func (c serverInterfaceList) Run(r *run) error {
	client, id, err := c.onInterfaces(r, c.Server)
	if err != nil {
		return err
	}
	pages, err := attachinterfaces.List(client, id).AllPages(r)
	if err != nil {
		return explain(err)
	}
	var all []plugged
	if err := pages.(attachinterfaces.InterfacePage).ExtractIntoSlicePtr(&all, "interfaceAttachments"); err != nil {
		return fmt.Errorf("read the interfaces: %w", err)
	}
	return c.printInterfaces(c.output, all)
}
