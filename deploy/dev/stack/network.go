package stack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"strongroom/deploy/dev/forward"
	"strongroom/deploy/dev/libvirtd"
)

// The network between the hosts of a stack that has several: a bridge, which is the first
// host's link, and of each other host a network namespace with a link to the bridge. Names
// derive from the state folder, so that the next start finds what a killed one left, and
// addresses from the row of ports: both differ between stacks on one machine.

// Network is the name of the bridge, with which those of links and namespaces begin. An
// interface's name has 15 bytes at most.
func (l Layout) Network() string {
	sum := sha256.Sum256([]byte(l.State))
	return "sr-" + hex.EncodeToString(sum[:3])
}

// netns is the name of the host's network namespace; "" of the first, which has the machine's.
func (h Host) netns() string {
	if h.first() {
		return ""
	}
	return h.link()
}

// link is the bridge's end of the host's link.
func (h Host) link() string { return fmt.Sprintf("%s-%d", h.Network(), h.Number) }

// inner is the link's other end, in the host's namespace.
const inner = "hosts"

// subnet is the stack's part of 198.18.0.0/15, which RFC 2544 keeps for tests: 16 addresses
// for each row of ports.
func (l Layout) subnet() netip.Prefix {
	n := uint32(198<<24|18<<16) + uint32(l.PortBase/netRow)*16
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}), 28)
}

// address is the host's on the network between the hosts.
func (h Host) address() netip.Addr {
	a := h.subnet().Addr()
	for range h.Number {
		a = a.Next()
	}
	return a
}

// agentAddr is where the host's agent listens.
func (h Host) agentAddr(hosts int) string {
	if hosts == 1 {
		return h.port(agentPort)
	}
	return net.JoinHostPort(h.address().String(), strconv.Itoa(h.PortBase+agentPort))
}

// SetLink cuts the link between the host and the others, or mends it. What is sent over a cut
// one is lost without a word, as over a cable that was pulled. The first host has no link of
// its own. What hosts say to Temporal and to the gateway goes another way.
func (h Host) SetLink(ctx context.Context, up bool) error {
	if h.first() {
		return errors.New("the first host has no link of its own: cut those of the others")
	}
	return ip(ctx, "link", "set", h.link(), upOrDown(up))
}

// SetControl cuts a host, which is not the first, from Temporal and the gateway, or mends it: the other
// way than SetLink's.
func (h Host) SetControl(ctx context.Context, up bool) error {
	if h.first() {
		return errors.New("the first host is where Temporal and the gateway are: cut others from them")
	}
	return ip(ctx, "-n", h.netns(), "link", "set", "lo", upOrDown(up))
}

func upOrDown(up bool) string {
	if up {
		return "up"
	}
	return "down"
}

// network is the part of the stack that joins its hosts.
type network struct {
	layout   Layout
	hosts    []Host // all but the first
	forwards []*forward.Forwarder
}

func (n *network) start(ctx context.Context) error {
	if err := n.raise(ctx); err != nil {
		return errors.Join(err, n.stop(context.WithoutCancel(ctx)))
	}
	return nil
}

func (n *network) raise(ctx context.Context) error {
	if err := n.isFree(); err != nil {
		return err
	}
	bridge, subnet := n.layout.Network(), n.layout.subnet()
	if !linkExists(bridge) {
		if err := ip(ctx, "link", "add", bridge, "type", "bridge"); err != nil {
			return err
		}
	}
	if err := setUp(ctx, bridge, "", n.layout.Host(1).address(), subnet); err != nil {
		return err
	}
	for _, h := range n.hosts {
		if err := n.join(ctx, h); err != nil {
			return err
		}
	}
	return nil
}

// isFree fails where another has the addresses.
func (n *network) isFree() error {
	interfaces, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, i := range interfaces {
		addresses, err := i.Addrs()
		if err != nil || i.Name == n.layout.Network() {
			continue // it is gone by now, or our own
		}
		for _, a := range addresses {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Overlaps(n.layout.subnet()) {
				return fmt.Errorf("the interface %s has the addresses %s of the network between the hosts: remove it, or choose other ports with --port-base", i.Name, p)
			}
		}
	}
	return nil
}

// join makes the host's namespace and link, what is missing of them, and hands on what it
// says to Temporal and to the gateway.
func (n *network) join(ctx context.Context, h Host) error {
	if !netnsExists(h.netns()) {
		if err := ip(ctx, "netns", "add", h.netns()); err != nil {
			return err
		}
	}
	if !linkExists(h.link()) {
		if err := ip(ctx, "link", "add", h.link(), "type", "veth", "peer", "name", inner, "netns", h.netns()); err != nil {
			return err
		}
	}
	for _, args := range [][]string{
		{"link", "set", h.link(), "master", h.Network()}, {"link", "set", h.link(), "up"},
		{"-n", h.netns(), "link", "set", "lo", "up"},
	} {
		if err := ip(ctx, args...); err != nil {
			return err
		}
	}
	if err := setUp(ctx, inner, h.netns(), h.address(), h.subnet()); err != nil {
		return err
	}
	for _, address := range []string{h.TemporalAddress(), h.gatewayAddr()} {
		f, err := forward.From(h.netns(), address)
		if err != nil {
			return err
		}
		n.forwards = append(n.forwards, f)
	}
	return nil
}

// setUp gives a link its one address.
func setUp(ctx context.Context, link, netns string, address netip.Addr, subnet netip.Prefix) error {
	for _, args := range [][]string{
		{"address", "flush", "dev", link},
		{"address", "add", netip.PrefixFrom(address, subnet.Bits()).String(), "dev", link},
		{"link", "set", link, "up"},
	} {
		if netns != "" {
			args = append([]string{"-n", netns}, args...)
		}
		if err := ip(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

func (n *network) done() <-chan struct{} { return nil } // it has no process that could end

func (n *network) stop(ctx context.Context) error {
	for _, f := range n.forwards {
		f.Close()
	}
	var problems []error
	for _, h := range n.hosts {
		problems = append(problems, h.leave(ctx))
	}
	return errors.Join(append(problems, removeLink(ctx, n.layout.Network()))...)
}

// leave removes the host's link and namespace.
func (h Host) leave(ctx context.Context) error {
	err := removeLink(ctx, h.link())
	if netnsExists(h.netns()) {
		err = errors.Join(err, ip(ctx, "netns", "delete", h.netns()))
	}
	return err
}

func removeLink(ctx context.Context, name string) error {
	if !linkExists(name) {
		return nil
	}
	return ip(ctx, "link", "delete", name)
}

// endOthers ends what a killed stack left running of hosts that this one does not have.
func (l Layout) endOthers(ctx context.Context, hosts int) error {
	for n := hosts + 1; n <= MaxHosts; n++ {
		h := l.Host(n)
		if _, err := os.Stat(h.dir()); err != nil {
			continue
		}
		if err := libvirtd.End(ctx, h.path("libvirt")); err != nil {
			return err
		}
		if err := h.leave(ctx); err != nil {
			return err
		}
	}
	if hosts > 1 {
		return nil
	}
	return removeLink(ctx, l.Network())
}

func netnsExists(name string) bool {
	_, err := os.Stat(filepath.Join(forward.Namespaces, name))
	return err == nil
}

func linkExists(name string) bool {
	_, err := net.InterfaceByName(name)
	return err == nil
}

func ip(ctx context.Context, args ...string) error {
	if out, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
