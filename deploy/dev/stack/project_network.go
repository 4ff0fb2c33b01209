package stack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"

	"strongroom/activities/port"
	"strongroom/activities/port/local"
	"strongroom/devcloud"
)

// The networks of the projects of a stack with one host: each project has one, which is libvirt's, behind
// network address translation. Names, uuids and addresses differ between stacks on one machine.

// maxNetworks is how many projects get a network: a row of ports has so many ranges of 256 addresses in
// 10.0.0.0/8.
const maxNetworks = 8

// projectNetworks gives the networks of the projects in the users' file, in its order; those with a number above maxNetworks have none.
func (l Layout) projectNetworks() ([]local.Network, error) {
	projects, err := devcloud.Projects(l.path("users.yaml"))
	if err != nil {
		return nil, err
	}
	host, err := l.Host(1).Name()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(l.State))
	var all []local.Network
	for _, p := range projects {
		i := p.Network - 1
		if i >= maxNetworks {
			continue
		}
		n := uint32(10<<24) + uint32(l.PortBase/netRow)*maxNetworks*256 + uint32(i)*256
		prefix := netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), 0}), 24)
		gateway := prefix.Addr().Next()
		all = append(all, local.Network{
			ID:   port.NetworkID{UUID: uuid.NewSHA1(uuid.NameSpaceOID, []byte("strongroom network "+l.State+" "+p.ID))},
			Name: p.Name, Projects: []string{p.ID}, Hosts: []string{host}, Bridge: fmt.Sprintf("sn-%s-%d", hex.EncodeToString(sum[:3]), i),
			MTU: 1500, Prefix: prefix, Gateway: gateway, DNS: []netip.Addr{gateway},
		})
	}
	return all, local.CheckAll(all)
}

// networkSettings is networks in strongroom.yaml.
func networkSettings(all []local.Network) map[string]any {
	if len(all) == 0 {
		return map[string]any{"backend": "none"}
	}
	entries := []map[string]any{}
	for _, n := range all {
		entries = append(entries, map[string]any{
			"uuid": n.ID.String(), "name": n.Name, "projects": n.Projects, "hosts": n.Hosts, "bridge": n.Bridge,
			"cidr": n.Prefix.String(), "gateway": n.Gateway.String(), "dns": []string{n.Gateway.String()},
		})
	}
	return map[string]any{"backend": "local", "local": entries}
}

// projectNetworks is the part of the stack that has libvirt's networks up. They outlive a libvirtd.
type projectNetworks struct {
	socket   string // libvirtd's
	networks []local.Network
	metadata int // the port at which guests are answered at their gateways
}

func (p *projectNetworks) done() <-chan struct{} { return nil } // it has no process that could end

func (p *projectNetworks) start(ctx context.Context) error {
	return p.do(ctx, func(l *libvirt.Libvirt) error {
		for _, n := range p.networks {
			if err := ensureNetwork(ctx, l, n); err != nil {
				return fmt.Errorf("network %s (%s): %w", n.Name, n.Prefix, err)
			}
			if err := p.redirect(ctx, n); err != nil {
				return fmt.Errorf("network %s: %w", n.Name, err)
			}
		}
		return nil
	})
}

// stop takes the networks down with all that libvirt made of them.
func (p *projectNetworks) stop(ctx context.Context) error {
	return p.do(ctx, func(l *libvirt.Libvirt) error {
		var problems []error
		for _, n := range p.networks {
			problems = append(problems, p.unredirect(ctx, n))
			if found, err := l.NetworkLookupByUUID(libvirt.UUID(n.ID.UUID)); err == nil {
				problems = append(problems, l.NetworkDestroy(found))
			}
		}
		return errors.Join(problems...)
	})
}

// redirect has what guests of a network ask of 169.254.169.254 come to their gateway: the machine itself may have a
// metadata service of its own there.
func (p *projectNetworks) redirect(ctx context.Context, n local.Network) error {
	if p.redirects(ctx, n) {
		return nil
	}
	return iptables(ctx, "-I", p.rule(n))
}

func (p *projectNetworks) redirects(ctx context.Context, n local.Network) bool {
	return iptables(ctx, "-C", p.rule(n)) == nil
}

func (p *projectNetworks) unredirect(ctx context.Context, n local.Network) error {
	if !p.redirects(ctx, n) {
		return nil
	}
	return iptables(ctx, "-D", p.rule(n))
}

func (p *projectNetworks) rule(n local.Network) []string {
	return []string{
		"PREROUTING", "-i", n.Bridge, "-d", "169.254.169.254/32", "-p", "tcp", "--dport", "80",
		"-j", "REDIRECT", "--to-ports", strconv.Itoa(p.metadata),
	}
}

// iptables does something with a rule of the table nat. libvirt's networks need the program, too.
func iptables(ctx context.Context, do string, rule []string) error {
	out, err := exec.CommandContext(ctx, "iptables", append([]string{"-w", "10", "-t", "nat", do}, rule...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("iptables %s: %w: %s", do, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// ensureNetwork has a network up. One that is up has guests on it and stays as it is. One of a project that is gone, which had the
// same number, goes.
func ensureNetwork(ctx context.Context, l *libvirt.Libvirt, n local.Network) error {
	_, err := l.NetworkLookupByUUID(libvirt.UUID(n.ID.UUID))
	var refused libvirt.Error
	if err == nil || !errors.As(err, &refused) || refused.Code != uint32(libvirt.ErrNoNetwork) {
		return err
	}
	name := "strongroom-" + n.Bridge
	if old, err := l.NetworkLookupByName(name); err == nil {
		if err := l.NetworkDestroy(old); err != nil {
			return err
		}
	}
	if err := removeLink(ctx, n.Bridge); err != nil { // of a libvirtd that was cut off
		return err
	}
	document, err := n.LibvirtXML(name)
	if err == nil {
		_, err = l.NetworkCreateXML(document)
	}
	return err
}

// do calls libvirt.
func (p *projectNetworks) do(ctx context.Context, call func(l *libvirt.Libvirt) error) error {
	conn, err := net.DialTimeout("unix", p.socket, time.Second)
	if err != nil {
		return fmt.Errorf("libvirt does not answer: %w", err)
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	l := libvirt.NewWithDialer(dialed{conn})
	if err := l.Connect(); err != nil {
		return err
	}
	return call(l)
}

// machineFilters is where Debian has libvirt's network filters.
const machineFilters = "/etc/libvirt/nwfilter"

// ensureFilters gives a libvirtd of the stack's own the network filters that the machine's has.
func (h Host) ensureFilters() error {
	own := h.path("libvirt", "etc", "nwfilter")
	files, err := os.ReadDir(machineFilters)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(own, 0o755); err != nil {
		return err
	}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(machineFilters, f.Name()))
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(own, f.Name()), string(text)); err != nil {
			return err
		}
	}
	return nil
}
