package domain_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/domain"
	"strongroom/compute"
)

// plugTest is a host with a network service's bridge of its own.
type plugTest struct {
	*host
	server compute.Server
	bridge string // in the host's namespace, and in the machine's, where a host looks for it
}

func setupPlug(t *testing.T, image guestImage) plugTest {
	t.Helper()
	dir := newDir(t)
	netns, bridge := "sr-"+uuid.NewString()[:8], "br"+uuid.NewString()[:8]
	for _, args := range [][]string{
		{"netns", "add", netns}, {"-n", netns, "link", "set", "lo", "up"},
		{"-n", netns, "link", "add", bridge, "type", "bridge"}, {"-n", netns, "link", "set", bridge, "up"},
	} {
		out, err := exec.Command("ip", args...).CombinedOutput()
		require.NoError(t, err, "%v: %s", args, out)
	}
	t.Cleanup(func() {
		_ = exec.Command("ip", "netns", "del", netns).Run()
		_ = exec.Command("ip", "link", "del", bridge).Run()
	})
	h := setupOn(t, dir, netns, image)
	h.SparePorts, h.UnplugTimeout = 2, time.Minute
	s := h.server(t, false, nil)
	h.disksOf(t, s)
	return plugTest{h, s, bridge}
}

// port is an interface on a port of a network that is plugged into the bridge.
func (h plugTest) port(t *testing.T, mac string) domain.InterfaceInput {
	t.Helper()
	id := compute.PortID{UUID: uuid.New()}
	return domain.InterfaceInput{Server: h.server.ID, Network: compute.Network{
		UUID: uuid.NewString(), MAC: mac, Port: &compute.Port{ID: &id, Type: compute.VIFBridge, Bridge: h.bridge},
	}}
}

// document is the server's domain, as libvirt has it now or, inactive, from the next start on.
func (h plugTest) document(t *testing.T, view libvirt.DomainXMLFlags) (text string) {
	t.Helper()
	require.NoError(t, h.Client.Do(t.Context(), func(l *libvirt.Libvirt) (err error) {
		text, err = l.DomainGetXMLDesc(libvirt.Domain{UUID: libvirt.UUID(h.server.ID.UUID)}, view)
		return err
	}))
	return text
}

// taps counts the interfaces in a document.
func (h plugTest) taps(t *testing.T, view libvirt.DomainXMLFlags) int {
	t.Helper()
	return strings.Count(h.document(t, view), "<interface ")
}

func TestPlug(t *testing.T) {
	t.Parallel()
	h := setupPlug(t, tiny)
	one, two := h.port(t, "02:00:00:00:00:11"), h.port(t, "02:00:00:00:00:12")
	require.NoError(t, h.Plug(t.Context(), one), "there is no domain yet")
	require.NoError(t, h.Unplug(t.Context(), one))
	_, err := h.Start(t.Context(), domain.StartInput{Server: h.server})
	require.NoError(t, err)
	h.ask(t, h.server, "net", "TG net=")
	for range 2 {
		require.NoError(t, h.Plug(t.Context(), one))
		require.NoError(t, h.Plug(t.Context(), two))
	}
	require.Equal(t, []int{2, 2}, []int{h.taps(t, 0), h.taps(t, libvirt.DomainXMLInactive)})
	has := func(in domain.InterfaceInput) func() bool {
		return func() bool { return strings.Contains(h.ask(t, h.server, "net", "TG net="), in.Network.MAC) }
	}
	require.Eventually(t, has(one), time.Minute, time.Second)
	require.Eventually(t, has(two), time.Minute, time.Second)
	three := h.port(t, "02:00:00:00:00:13")
	err = h.Plug(t.Context(), three)
	require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "no PCI slot")

	for range 2 {
		require.NoError(t, h.Unplug(t.Context(), one))
	}
	require.False(t, has(one)())
	require.True(t, has(two)())
	require.Equal(t, []int{1, 1}, []int{h.taps(t, 0), h.taps(t, libvirt.DomainXMLInactive)})

	require.NoError(t, h.Pause(t.Context(), domain.PauseInput{Server: h.server.ID}))
	err = h.Unplug(t.Context(), two)
	require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "paused")
	require.NoError(t, h.Plug(t.Context(), one))
	require.NoError(t, h.Unpause(t.Context(), domain.PauseInput{Server: h.server.ID}))
	require.Eventually(t, has(one), time.Minute, time.Second)

	_, err = h.Stop(t.Context(), domain.StopInput{Server: h.server.ID})
	require.NoError(t, err)
	require.NoError(t, h.Unplug(t.Context(), one))
	require.NoError(t, h.Unplug(t.Context(), two))
	require.Zero(t, h.taps(t, libvirt.DomainXMLInactive))
	require.NoError(t, h.Plug(t.Context(), two))
	require.Equal(t, 1, h.taps(t, libvirt.DomainXMLInactive))
}

// A guest that does not answer keeps its device, and the caller is told.
func TestAGuestThatDoesNotAnswerToAnUnplug(t *testing.T) {
	t.Parallel()
	h := setupPlug(t, idle)
	h.UnplugTimeout = 3 * time.Second
	_, err := h.Start(t.Context(), domain.StartInput{Server: h.server})
	require.NoError(t, err)
	one := h.port(t, "02:00:00:00:00:11")
	require.NoError(t, h.Plug(t.Context(), one))
	err = h.Unplug(t.Context(), one)
	require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "did not give the device up within 3s")
	require.Equal(t, 1, h.taps(t, 0))

	require.NoError(t, h.Remove(t.Context(), ofPluggedPort(one)), "its port goes")
	require.Equal(t, 1, h.taps(t, 0))
	require.Contains(t, h.document(t, 0), "<link state='down'/>")
	require.NoError(t, h.Plug(t.Context(), one))
	require.NotContains(t, h.document(t, 0), "<link state='down'/>")

	_, err = h.Stop(t.Context(), domain.StopInput{Server: h.server.ID})
	require.NoError(t, err)
	require.NoError(t, h.Unplug(t.Context(), one))
}

// What waits to be taken from a domain is left to a guest that was booted since: that has what its server has.
func TestRemoveOfAPluggedPort(t *testing.T) {
	t.Parallel()
	h := setupPlug(t, idle)
	h.UnplugTimeout = 3 * time.Second
	one := h.port(t, "02:00:00:00:00:12")
	waits := ofPluggedPort(one)
	require.NoError(t, h.Remove(t.Context(), waits), "there is no domain")
	waits.Thing.State, waits.Thing.Since = compute.ThingWaiting, time.Now().Add(-time.Hour)
	began := waits.Thing.Since.Add(-time.Minute)
	_, err := h.Start(t.Context(), domain.StartInput{Server: h.server, Operation: "op-1", Began: began})
	require.NoError(t, err)
	require.NoError(t, h.Plug(t.Context(), one))
	require.NoError(t, h.Remove(t.Context(), waits))
	require.Contains(t, h.document(t, 0), "<link state='down'/>", "the guest does not answer")
	_, err = h.Stop(t.Context(), domain.StopInput{Server: h.server.ID})
	require.NoError(t, err)
	require.NoError(t, h.Remove(t.Context(), waits))
	require.Zero(t, h.taps(t, libvirt.DomainXMLInactive))

	// A suspended guest has it when it is resumed, and a resume is no boot.
	_, err = h.Start(t.Context(), domain.StartInput{Server: h.server, Operation: "op-2", Began: began})
	require.NoError(t, err)
	require.NoError(t, h.Plug(t.Context(), one))
	require.NoError(t, h.Suspend(t.Context(), domain.SuspendInput{Server: h.server.ID}))
	err = h.Remove(t.Context(), waits)
	require.Equal(t, compute.Unavailable, compute.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "is suspended")
	_, err = h.Start(t.Context(), domain.StartInput{Server: h.server, Operation: "op-3", Began: time.Now(), Suspended: true})
	require.NoError(t, err)
	require.Equal(t, 1, h.taps(t, 0))
	require.NoError(t, h.Remove(t.Context(), waits))
	require.Contains(t, h.document(t, 0), "<link state='down'/>")
	_, err = h.Stop(t.Context(), domain.StopInput{Server: h.server.ID})
	require.NoError(t, err)

	h.server.Networks = append(h.server.Networks, one.Network)
	_, err = h.Start(t.Context(), domain.StartInput{Server: h.server, Operation: "op-4", Began: time.Now()})
	require.NoError(t, err)
	require.NoError(t, h.Remove(t.Context(), waits))
	require.Equal(t, 1, h.taps(t, 0))
	require.NotContains(t, h.document(t, 0), "<link state='down'/>")
}

func ofPluggedPort(in domain.InterfaceInput) compute.Removal {
	return removal(in.Server, compute.ThingPluggedPort, compute.PortUse(*in.Network.Port.ID, in.Server))
}

// A guest goes on elsewhere with its devices where they were plugged: on the ports that it has, which are as many as the
// host that started it gave it, and in the order in which they came and went.
func TestLiveMigrationKeepsThePlacesOfDevices(t *testing.T) {
	t.Parallel()
	there := setupPlug(t, tiny) // where taps of the same names are no others'
	there.SparePorts = 0
	p := goingTo(t, there.host, nil, false)
	plug := func(mac string) compute.Network {
		id := compute.PortID{UUID: uuid.New()}
		n := compute.Network{UUID: uuid.NewString(), MAC: mac, Port: &compute.Port{ID: &id, Type: compute.VIFBridge, Bridge: there.bridge}}
		require.NoError(t, p.a.Plug(t.Context(), domain.InterfaceInput{Server: p.s.ID, Network: n}))
		return n
	}
	first, second := plug("02:00:00:00:00:21"), plug("02:00:00:00:00:22")
	require.Eventually(t, func() bool { return strings.Contains(p.a.ask(t, p.s, "net", "TG net="), second.MAC) }, time.Minute, time.Second)
	require.NoError(t, p.a.Unplug(t.Context(), domain.InterfaceInput{Server: p.s.ID, Network: first}))
	p.s.Networks = []compute.Network{second}
	p.goesOn(p.a, 0)
	was := p.tick(p.a)
	got, err := p.a.Migrate(t.Context(), p.expect())
	require.NoError(t, err)
	require.True(t, got.Arrived)
	require.True(t, p.arrived().Arrived)
	p.goesOn(p.b.host, was)
	require.Contains(t, p.b.ask(t, p.s, "net", "TG net="), second.MAC)
	require.NoError(t, p.b.Unplug(t.Context(), domain.InterfaceInput{Server: p.s.ID, Network: second}))
}
