package ovn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
)

// The network between the chassis is a bridge of each switch, which has the address of its end of the tunnels: the
// datapath in userspace sends what is tunnelled out over a bridge of its own alone. Those of further hosts have a
// link each to the first one's.

// underlay is the name of that bridge.
const underlay = "br-under"

// link is the first host's end of a further host's link.
func (n *Network) link(of int) string { return fmt.Sprintf("sr-under-%d", of) }

// join joins a host to the first one: their guests reach each other.
func (n *Network) join(ctx context.Context, h *chassis, netns string) error {
	if err := n.openUnderlay(ctx, n.hosts[0]); err != nil {
		return err
	}
	if err := n.openUnderlay(ctx, h); err != nil {
		return err
	}
	outer, inner := n.link(len(n.hosts)), "sr-under"
	if err := removeLinks(ctx, outer); err != nil { // of one that was killed
		return err
	}
	if err := run(ctx, "ip", "link", "add", outer, "type", "veth", "peer", "name", inner, "netns", netns); err != nil {
		return err
	}
	for _, end := range []struct {
		of   *chassis
		name string
	}{{n.hosts[0], outer}, {h, inner}} {
		if err := end.of.run(ctx, "ip", "link", "set", end.name, "up"); err != nil {
			return err
		}
		if err := n.configure(ctx, end.of, "--may-exist", "add-port", underlay, end.name); err != nil {
			return err
		}
	}
	return nil
}

func (n *Network) openUnderlay(ctx context.Context, h *chassis) error {
	if err := n.configure(ctx, h, "--may-exist", "add-br", underlay, "--", "set", "Bridge", underlay, "datapath_type=netdev"); err != nil {
		return err
	}
	return errors.Join(h.run(ctx, "ip", "address", "replace", h.address+"/24", "dev", underlay), h.run(ctx, "ip", "link", "set", underlay, "up"))
}

// configure has a host's switch be so, and waits until it is.
func (n *Network) configure(ctx context.Context, h *chassis, settings ...string) error {
	db := "unix:" + filepath.Join(Switch(n.cfg.Dir, h.name), "db.sock")
	return run(ctx, "ovs-vsctl", append([]string{"--timeout=30", "--db=" + db}, settings...)...)
}

// run runs a command where the host's switch is.
func (h *chassis) run(ctx context.Context, command ...string) error {
	command = append(append([]string{}, h.enter...), command...)
	return run(ctx, command[0], command[1:]...)
}

// removeLinks removes those of this network namespace that are there.
func removeLinks(ctx context.Context, names ...string) (err error) {
	for _, name := range names {
		if _, missing := net.InterfaceByName(name); missing == nil {
			err = errors.Join(err, run(ctx, "ip", "link", "delete", name))
		}
	}
	return err
}
