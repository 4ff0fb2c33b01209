package domain

import (
	"context"
	"net"
	"os/exec"
	"strconv"
	"strings"

	"strongroom/compute"
)

// bridge sees that a port's bridge is there. Open vSwitch's is the network service's; those of Linux are made
// by whoever plugs first, and the agent joins its network to them. One whose traffic hosts filter has no agent: it is
// there with its network. Conflict: the port is not bound, or in a way that no host plugs; Unavailable: there is
// no such bridge.
func (a *Activities) bridge(ctx context.Context, n compute.Network) error {
	switch {
	case n.Port.ID == nil || n.Port.Bridge == "":
		return compute.Errorf(compute.Conflict, "its port is not bound")
	case n.Port.Type == compute.VIFOpenVSwitch:
		return nil
	case n.Port.Type == compute.VIFBridge && n.Port.HostFilter:
		if _, err := net.InterfaceByName(n.Port.Bridge); err != nil {
			return compute.Errorf(compute.Unavailable, "its bridge %s is not there: %w", n.Port.Bridge, err)
		}
		return nil
	case n.Port.Type == compute.VIFBridge:
		return ensureBridge(ctx, n.Port.Bridge, n.Port.MTU)
	}
	return compute.Errorf(compute.Conflict, "port %s is of the type %q, which is not plugged here", n.Port.ID, n.Port.Type)
}

// ensureBridge ensures that a Linux bridge is there and up, as os-vif makes it.
func ensureBridge(ctx context.Context, name string, mtu int) error {
	found, err := net.InterfaceByName(name)
	if err == nil && found.Flags&net.FlagUp != 0 {
		return nil
	}
	if err != nil {
		err = ip(ctx, "link", "add", name, "type", "bridge", "forward_delay", "0", "stp_state", "0", "mcast_snooping", "0")
		if _, missing := net.InterfaceByName(name); missing != nil { // else another server's start was first
			return err
		}
	}
	set := []string{"link", "set", name, "up"}
	if mtu > 0 {
		set = append(set, "mtu", strconv.Itoa(mtu))
	}
	return ip(ctx, set...)
}

func ip(ctx context.Context, arguments ...string) error {
	if said, err := exec.CommandContext(ctx, "ip", arguments...).CombinedOutput(); err != nil {
		return compute.Errorf(compute.Unavailable, "ip %s: %w: %s", strings.Join(arguments, " "), err, strings.TrimSpace(string(said)))
	}
	return nil
}
