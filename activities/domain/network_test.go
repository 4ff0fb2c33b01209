package domain_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"strongroom/activities/domain"
	"strongroom/compute"
)

// TestH8OnlyConfiguredNetworksAreOffered: libvirt's own networks are the operator's, unless the
// configuration names none.
func TestH8OnlyConfiguredNetworksAreOffered(t *testing.T) {
	t.Parallel()
	h := setup(t, idle)
	own := uuid.New()
	require.NoError(t, h.Client.Do(t.Context(), func(l *libvirt.Libvirt) error {
		n, err := l.NetworkDefineXML("<network><name>own</name><uuid>" + own.String() + "</uuid><forward mode='bridge'/><bridge name='br-own'/></network>")
		if err != nil {
			return err
		}
		return l.NetworkCreate(n)
	}))
	got, err := h.Describe(t.Context(), false)
	require.NoError(t, err)
	require.Equal(t, []string{own.String()}, got.Networks)
	named := uuid.NewString()
	h.Networks = map[string]domain.Network{named: {Bridge: "br-named"}}
	got, err = h.Describe(t.Context(), false)
	require.NoError(t, err)
	require.Equal(t, []string{named}, got.Networks)
}

// TestH8GuestsSendWithTheirOwnMACAddress starts a guest behind libvirt's filter, and looks at
// the rules that the kernel has then.
func TestH8GuestsSendWithTheirOwnMACAddress(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	netns := "sr-" + uuid.NewString()[:8]
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		require.NoError(t, err, "%v: %s", args, out)
		return string(out)
	}
	run("ip", "netns", "add", netns)
	t.Cleanup(func() { run("ip", "netns", "del", netns) })
	run("ip", "-n", netns, "link", "set", "lo", "up")
	run("ip", "-n", netns, "link", "add", "br-guests", "type", "bridge")
	run("ip", "-n", netns, "link", "set", "br-guests", "up")

	h := setupOn(t, dir, netns, idle)
	err := h.Client.CheckFilter(t.Context(), domain.NoMACSpoofing)
	require.True(t, compute.Is(err, compute.NotFound), "%v: this libvirtd has no filters yet", err)
	require.ErrorContains(t, err, "libvirt-daemon-config-nwfilter")
	filters, err := filepath.Glob("/etc/libvirt/nwfilter/*.xml")
	require.NoError(t, err)
	require.NotEmpty(t, filters, "libvirt-daemon-config-nwfilter is not installed")
	require.NoError(t, h.daemon.Stop(t.Context()))
	require.NoError(t, os.CopyFS(filepath.Join(dir, "lv", "etc", "nwfilter"), os.DirFS("/etc/libvirt/nwfilter")))
	require.NoError(t, h.daemon.Restart(t.Context()))
	require.NoError(t, h.Client.CheckFilter(t.Context(), domain.NoMACSpoofing))

	h.Filter = domain.NoMACSpoofing
	network := uuid.NewString()
	h.Networks = map[string]domain.Network{network: {Bridge: "br-guests"}}
	s := h.server(t, false, nil)
	s.Networks = []compute.Network{{UUID: network, MAC: "02:00:00:00:00:07"}}
	h.disksOf(t, s)
	_, err = h.Start(t.Context(), domain.StartInput{Server: s})
	require.NoError(t, err)
	require.EventuallyWithT(t, func(t *assert.CollectT) { // libvirt sets them up beside the start
		rules, err := exec.Command("ip", "netns", "exec", netns, "ebtables", "-t", "nat", "-L", "--Lmac2").CombinedOutput()
		require.NoError(t, err)
		require.Regexp(t, `(?is)-s 02:00:00:00:00:07 -j RETURN\s+-j DROP`, string(rules))
	}, time.Minute, 200*time.Millisecond)
}
