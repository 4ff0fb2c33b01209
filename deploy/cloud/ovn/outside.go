package ovn

import (
	"context"
	"errors"
	"net/netip"
)

// outside is the bridge of the first host's switch on which external networks are, where there are some.
const outside = "br-ex"

// OpenOutside has the first host be the gateway of routers, whose external networks are flat on what physical names,
// and gives this machine an address there (Config.Guests).
func (n *Network) OpenOutside(ctx context.Context, physical string, address netip.Prefix) error {
	h := n.hosts[0]
	return errors.Join(
		n.configure(ctx, h, "--may-exist", "add-br", outside, "--", "set", "Bridge", outside, "datapath_type=netdev", "--", "set", "Open_vSwitch", ".",
			"external-ids:ovn-bridge-mappings="+physical+":"+outside, "external-ids:ovn-cms-options=enable-chassis-as-gw"),
		h.run(ctx, "ip", "address", "replace", address.String(), "dev", outside),
		h.run(ctx, "ip", "link", "set", outside, "up"),
	)
}
