package bench_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/cloud"
)

// ported is how many servers are created with a port, and as many without.
const ported = 10

// BenchmarkPort creates servers without a port and with one of a real Neutron, in turn: from the POST until a client
// sees them ACTIVE. Beside them it says for how long Neutron had a request of strongroom's meanwhile; what else a port
// takes is strongroom's, and what it waits for: Neutron tells once the port is plugged. Needs root and the packages of
// the group network.
func BenchmarkPort(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("needs root: libvirt, QEMU, PostgreSQL")
	}
	d, neutron := newPorted(b)
	without, with := d.server, d.server
	with.Networks = []servers.Network{{UUID: newLAN(d)}}
	spawn := func(opts servers.CreateOpts) (took, there time.Duration) {
		d.server = opts
		before := neutron.busy()
		d.active = func() { there = neutron.busy() - before } // what the delete asks of it does not count
		return d.spawn().took, there
	}
	spawn(without) // the host has the image now
	spawn(with)
	for b.Loop() {
		var alone, one, theirs []time.Duration
		for range ported {
			took, _ := spawn(without)
			alone = append(alone, took)
			took, there := spawn(with)
			one, theirs = append(one, took), append(theirs, there)
		}
		b.Log(portTable(map[string][]time.Duration{"without": alone, "with a port": one, "of it in Neutron": theirs}))
		b.ReportMetric(float64(median(alone).Milliseconds()), "ms-without")
		b.ReportMetric(float64(median(one).Milliseconds()), "ms-with")
		b.ReportMetric(float64(median(theirs).Milliseconds()), "ms-neutron")
		b.ReportMetric(float64(median(one))/float64(median(alone)), "with/without")
	}
	b.ReportMetric(0, "ns/op")
}

func portTable(rows map[string][]time.Duration) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, "\nms\tmedian\tmin\tmax\t")
	for _, name := range []string{"without", "with a port", "of it in Neutron"} {
		all := rows[name]
		_, _ = fmt.Fprintf(w, "%s\t%d\t%d\t%d\t\n", name, median(all).Milliseconds(), slices.Min(all).Milliseconds(), slices.Max(all).Milliseconds())
	}
	_ = w.Flush()
	return text.String()
}

// clocked stands before Neutron and adds up how long it has a request, two at once as one.
type clocked struct {
	neutron http.Handler
	mu      sync.Mutex
	open    int
	since   time.Time
	sum     time.Duration
}

// ServeHTTP implements http.Handler.
func (c *clocked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.count(1)
	defer c.count(-1)
	c.neutron.ServeHTTP(w, r)
}

func (c *clocked) count(by int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.open > 0 {
		c.sum += now.Sub(c.since)
	}
	c.since, c.open = now, c.open+by
}

func (c *clocked) busy() time.Duration {
	c.count(0)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sum
}

// newPorted runs a cloud with Neutron, and strongroom on it.
func newPorted(b *testing.B) (*dev, *clocked) {
	b.Helper()
	d, dir := newDev(b, "ports")
	state, err := os.MkdirTemp("/tmp", "src") // short, too, and there until the cloud has stopped
	require.NoError(b, err)
	real, err := cloud.Start(b.Context(), cloud.Config{
		Dir: state, Services: []string{"keystone", "barbican", "glance", "swift", cloud.Neutron},
		Strongroom: d.APIURL(), Guests: true, TokenCache: time.Minute,
	})
	require.NoError(b, err)
	b.Cleanup(func() {
		require.NoError(b, real.Stop(context.WithoutCancel(b.Context())))
		require.NoError(b, os.RemoveAll(state))
	})
	require.NoError(b, real.ShowSwitch(b.Context()))

	neutron := &clocked{neutron: httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", real.Port(cloud.Neutron))})}
	door := httptest.NewServer(neutron)
	b.Cleanup(door.Close)
	d.env = []string{"STRONGROOM_NETWORKS__BACKEND=neutron", "STRONGROOM_NETWORKS__ENDPOINT=" + door.URL}
	d.clouds = real.CloudsFile()
	d.start(build(b), dir, "--cloud", d.clouds)

	admin, endpoint := d.login("admin-demo")
	d.server = servers.CreateOpts{Name: "bench", Networks: "none",
		FlavorRef: d.flavor(admin, endpoint, flavors.ExtraSpecsOpts{"hw:ephemeral_encryption": "true", "hw:tpm_version": "2.0"}),
		ImageRef:  d.image(admin, endpoint, idleImage(b))}
	provider, endpoint := d.login("demo")
	d.user = d.compute(provider, endpoint)
	return d, neutron
}

// newLAN makes a network with a subnet, and gives its id.
func newLAN(d *dev) string {
	d.Helper()
	provider, endpoint := d.login("demo")
	client, err := openstack.NewNetworkV2(provider, endpoint)
	require.NoError(d, err)
	lan, err := networks.Create(d.Context(), client, networks.CreateOpts{Name: "lan"}).Extract()
	require.NoError(d, err)
	_, err = subnets.Create(d.Context(), client, subnets.CreateOpts{NetworkID: lan.ID, IPVersion: 4, CIDR: "10.1.0.0/24"}).Extract()
	require.NoError(d, err)
	return lan.ID
}
