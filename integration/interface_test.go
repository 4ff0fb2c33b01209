package integration_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/attachinterfaces"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/await"
)

// pluggable is a server without interfaces, and a network of its project's.
type pluggable struct {
	*testCloud
	compute, user, admin *gophercloud.ServiceClient
	lan                  string
	server               string
	line                 *serial
}

func setupPluggable(t *testing.T) pluggable {
	t.Helper()
	c := networkCloud(t)
	p := pluggable{testCloud: c, compute: c.compute(t, "-demo"), user: c.networking(t, "-demo"), admin: c.networking(t, "")}
	p.lan, p.server = newLAN(t, p.user).ID, c.create(t, encrypted)
	c.becomes(t, p.server, "ACTIVE")
	p.line = c.serial(t, p.server)
	p.line.expect("TG tick=")
	return p
}

func (p pluggable) bring(t *testing.T, name string) string {
	t.Helper()
	made, err := ports.Create(t.Context(), p.user, ports.CreateOpts{NetworkID: p.lan, Name: name}).Extract()
	require.NoError(t, err)
	return made.ID
}

func (p pluggable) attach(t *testing.T, opts attachinterfaces.CreateOpts) (*attachinterfaces.Interface, error) {
	t.Helper()
	return attachinterfaces.Create(t.Context(), p.compute, p.server, opts).Extract()
}

func (p pluggable) attached(t *testing.T) []attachinterfaces.Interface {
	t.Helper()
	pages, err := attachinterfaces.List(p.compute, p.server).AllPages(t.Context())
	require.NoError(t, err)
	all, err := attachinterfaces.ExtractInterfaces(pages)
	require.NoError(t, err)
	return all
}

func (p pluggable) detach(t *testing.T, port string) {
	t.Helper()
	require.NoError(t, attachinterfaces.Delete(t.Context(), p.compute, p.server, port).ExtractErr())
}

// port is a port, as Neutron's administrator sees it. ok is false where there is none.
func (p pluggable) port(t *testing.T, id string) (found boundPort, ok bool) {
	t.Helper()
	err := ports.Get(t.Context(), p.admin, id).ExtractInto(&found)
	if gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		return found, false
	}
	require.NoError(t, err)
	return found, true
}

// sees waits until the guest has an interface, or has it no longer.
func (p pluggable) sees(t *testing.T, mac string, has bool) {
	t.Helper()
	await.For(t, fmt.Sprintf("the guest has %s: %v", mac, has), func() bool { return has == strings.Contains(p.line.ask("net", "net="), mac) }, p.progress(p.server))
}

// TestInterfacesOfARunningServer: a guest gets interfaces on real Neutron and gives them up, while it runs and while
// it is off; security groups of its ports are changed.
func TestInterfacesOfARunningServer(t *testing.T) {
	backends(t, openStack)
	p := setupPluggable(t)
	own, err := p.attach(t, attachinterfaces.CreateOpts{NetworkID: p.lan, FixedIPs: []attachinterfaces.FixedIP{{IPAddress: "10.1.0.77"}}})
	require.NoError(t, err)
	require.Equal(t, "10.1.0.77", own.FixedIPs[0].IPAddress)
	p.sees(t, own.MACAddr, true)
	brought := p.bring(t, "mine")
	second, err := p.attach(t, attachinterfaces.CreateOpts{PortID: brought})
	require.NoError(t, err)
	p.sees(t, second.MACAddr, true)
	require.Len(t, p.becomes(t, p.server, "ACTIVE").Addresses["lan"], 2)
	for _, id := range []string{own.PortID, brought} {
		await.For(t, "port "+id+" is ACTIVE", func() bool { bound, _ := p.port(t, id); return bound.Status == "ACTIVE" }, p.progress(p.server))
		bound, _ := p.port(t, id)
		require.Equal(t, []string{p.server, "compute:nova", "ovs"}, []string{bound.DeviceID, bound.DeviceOwner, bound.VIFType})
	}
	p.line.ask("dhcp", "TG dhcp if=eth0 ip=10.1.0.77 ") // from Neutron, through the devices
	p.line.expect("TG dhcp if=eth1 ip=" + second.FixedIPs[0].IPAddress + " ")
	require.Empty(t, p.audit(t).Findings)

	// Who asks for what cannot be is told at once, or once Neutron has said it, and nothing is left.
	had := p.portsOf(t, p.user, p.lan)
	for _, bad := range []struct {
		opts attachinterfaces.CreateOpts
		code int
	}{
		{attachinterfaces.CreateOpts{PortID: brought}, 409},
		{attachinterfaces.CreateOpts{NetworkID: p.lan, FixedIPs: []attachinterfaces.FixedIP{{IPAddress: "10.1.0.77"}}}, 409},
		{attachinterfaces.CreateOpts{NetworkID: p.lan, FixedIPs: []attachinterfaces.FixedIP{{IPAddress: "10.9.0.77"}}}, 400},
		{attachinterfaces.CreateOpts{NetworkID: "00000000-0000-0000-0000-000000000001"}, 404},
	} {
		_, err := p.attach(t, bad.opts)
		require.True(t, gophercloud.ResponseCodeIs(err, bad.code), "%v: %v", bad, err)
		p.settled(t, p.server)
	}
	require.Equal(t, had, p.portsOf(t, p.user, p.lan))

	// The same request twice at once: one wins.
	twice := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := attachinterfaces.Create(t.Context(), p.compute, p.server, attachinterfaces.CreateOpts{NetworkID: p.lan}).Extract()
			twice <- err
		}()
	}
	answers := []error{<-twice, <-twice}
	lost := slices.IndexFunc(answers, func(err error) bool { return gophercloud.ResponseCodeIs(err, http.StatusConflict) })
	require.True(t, lost >= 0 && answers[1-lost] == nil, "%v", answers)
	require.Equal(t, had+1, p.portsOf(t, p.user, p.lan))

	// Security groups.
	web, err := groups.Create(t.Context(), p.user, groups.CreateOpts{Name: "web"}).Extract()
	require.NoError(t, err)
	for range 2 {
		p.group(t, "addSecurityGroup", 202)
	}
	for _, i := range p.attached(t) {
		bound, _ := p.port(t, i.PortID)
		require.Contains(t, bound.SecurityGroups, web.ID)
	}
	require.Len(t, p.becomes(t, p.server, "ACTIVE").SecurityGroups, 2)
	p.group(t, "removeSecurityGroup", 202)
	p.group(t, "removeSecurityGroup", 404)
	bound, _ := p.port(t, brought)
	require.NotContains(t, bound.SecurityGroups, web.ID)
	require.Equal(t, []map[string]any{{"name": "default"}}, p.becomes(t, p.server, "ACTIVE").SecurityGroups)

	// Unplugged: what strongroom made is gone, what its user made is free.
	p.detach(t, own.PortID)
	p.becomes(t, p.server, "ACTIVE")
	p.sees(t, own.MACAddr, false)
	_, there := p.port(t, own.PortID)
	require.False(t, there)
	p.detach(t, brought)
	p.becomes(t, p.server, "ACTIVE")
	p.sees(t, second.MACAddr, false)
	left, _ := p.port(t, brought)
	require.Equal(t, []string{"", "", "", "unbound"}, []string{left.DeviceID, left.DeviceOwner, left.HostID, left.VIFType})
	require.Empty(t, p.audit(t).Findings)

	// While it is off, and into its next start.
	require.NoError(t, servers.Stop(t.Context(), p.compute, p.server).ExtractErr())
	p.becomes(t, p.server, "SHUTOFF")
	require.Len(t, p.attached(t), 1)
	p.detach(t, p.attached(t)[0].PortID)
	p.becomes(t, p.server, "SHUTOFF")
	again, err := p.attach(t, attachinterfaces.CreateOpts{PortID: brought})
	require.NoError(t, err)
	require.NoError(t, servers.Start(t.Context(), p.compute, p.server).ExtractErr())
	p.becomes(t, p.server, "ACTIVE")
	p.line = p.serial(t, p.server)
	p.line.expect("TG tick=")
	p.sees(t, again.MACAddr, true)
	p.delete(t, p.server)
	left, _ = p.port(t, brought)
	require.Empty(t, left.DeviceID)
	require.Equal(t, 1, p.portsOf(t, p.user, p.lan))
	p.nothingIsLeft(t)
}

// group changes the security groups of the server.
func (p pluggable) group(t *testing.T, action string, code int) {
	t.Helper()
	response, err := p.compute.Post(t.Context(), p.compute.ServiceURL("servers", p.server, "action"), map[string]any{action: map[string]any{"name": "web"}}, nil,
		&gophercloud.RequestOpts{OkCodes: []int{code}})
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
}

// Workers die in the middle of an attachment and of its end: the server has one port more, or one less, and Neutron
// says the same.
func TestKillMatrixInterfaces(t *testing.T) {
	backends(t, openStack)
	p := setupPluggable(t)
	attaches, detaches := cutsOfAll("attach", cuts.interfaceAttach), cutsOfAll("detach", cuts.interfaceDetach)
	for i := range max(len(attaches), len(detaches)) {
		opts, brought := attachinterfaces.CreateOpts{NetworkID: p.lan}, ""
		if i%2 == 1 {
			brought = p.bring(t, "mine")
			opts = attachinterfaces.CreateOpts{PortID: brought}
		}
		attach, detach := attaches[i%len(attaches)], detaches[i%len(detaches)]
		ran := t.Run("attach/"+attach, func(t *testing.T) {
			p.arm(t, attach)
			if _, err := p.attach(t, opts); err != nil { // a worker may take longer to come back than a request waits
				require.True(t, gophercloud.ResponseCodeIs(err, http.StatusServiceUnavailable), "%v", err)
			}
			p.becomes(t, p.server, "ACTIVE")
			has := p.attached(t)
			require.Len(t, has, 1)
			bound, _ := p.port(t, has[0].PortID)
			require.Equal(t, []string{p.server, "ovs"}, []string{bound.DeviceID, bound.VIFType})
			require.Equal(t, 1, p.portsOf(t, p.user, p.lan))
			require.Empty(t, p.audit(t).Findings)
		})
		has := p.attached(t)
		if !ran || len(has) != 1 { // it is not this part's turn
			continue
		}
		t.Run("detach/"+detach, func(t *testing.T) {
			p.sees(t, has[0].MACAddr, true)
			p.arm(t, detach)
			p.detach(t, has[0].PortID)
			p.becomes(t, p.server, "ACTIVE")
			require.Empty(t, p.attached(t))
			p.sees(t, has[0].MACAddr, false)
			left, there := p.port(t, has[0].PortID)
			require.Equal(t, brought != "", there)
			require.Empty(t, left.DeviceID)
			require.Empty(t, p.audit(t).Findings)
		})
		if brought != "" {
			require.NoError(t, ports.Delete(t.Context(), p.user, brought).ExtractErr())
		}
	}
	brought := p.bring(t, "mine")
	for i, point := range cutsOfAll("attach that is undone", cuts.interfaceUndo) {
		opts := attachinterfaces.CreateOpts{NetworkID: p.lan}
		if i%2 == 1 {
			opts = attachinterfaces.CreateOpts{PortID: brought}
		}
		t.Run("attach that is undone/"+point, func(t *testing.T) { p.attachIsUndone(t, point, opts) })
	}
	require.NoError(t, ports.Delete(t.Context(), p.user, brought).ExtractErr())
	p.delete(t, p.server)
	p.nothingIsLeft(t)
}

// attachIsUndone cancels an attachment whose device the guest has, and has a worker die in its undo.
func (p pluggable) attachIsUndone(t *testing.T, point string, opts attachinterfaces.CreateOpts) {
	had := p.portsOf(t, p.user, p.lan)
	held := p.hold(t, "domain.Plug@after")
	answer := make(chan error, 1)
	go func() {
		_, err := p.attach(t, opts)
		answer <- err
	}()
	held.waits(t, p.progress(p.server))
	has := serverPorts(t, p.admin, p.server)
	require.Len(t, has, 1)
	p.sees(t, has[0].MACAddress, true)
	p.arm(t, point)
	p.cancelOperation(t, p.server)
	held.release()
	require.Error(t, <-answer)
	p.becomes(t, p.server, "ACTIVE")
	require.Empty(t, p.attached(t))
	p.sees(t, has[0].MACAddress, false)
	require.Equal(t, had, p.portsOf(t, p.user, p.lan))
	require.Empty(t, serverPorts(t, p.admin, p.server))
	require.Empty(t, p.audit(t).Findings)
}
