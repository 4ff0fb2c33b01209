package bench_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"

	"strongroom/activities/share"
	"strongroom/activities/share/local"
	"strongroom/compute"
	"strongroom/deploy/await"
	"strongroom/deploy/dev/stack"
	"strongroom/deploy/guest"
)

const (
	shareMiB    = 512 // more than the guest has memory: it reads what the host has
	shareRounds = 5
)

// BenchmarkShare writes a file of zeros into a share, with an fsync at its end, and reads it: in a guest, by
// virtiofs, and in turn on the host, in the folder that the share is. The host reads from its page cache either way,
// and the guest is an emulated one. Times are the host's: from the command on the guest's serial line until its
// answer. It prints MiB/s and the ratios of the medians.
func BenchmarkShare(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("needs root: libvirt, QEMU, PostgreSQL")
	}
	d := launchDev(b, "share", build(b))
	s := newSharing(d)
	for b.Loop() {
		took := map[string][]time.Duration{}
		measure := func(name string, do func()) {
			begin := time.Now()
			do()
			took[name] = append(took[name], time.Since(begin))
		}
		for range shareRounds {
			measure("guest writes", func() { s.tell(fmt.Sprintf("zero /share/guest %d", shareMiB)) })
			measure("host writes", s.hostWrites)
			measure("guest reads", func() { s.tell("read /share/host") })
			measure("host reads", s.hostReads)
		}
		for _, name := range []string{"guest writes", "host writes", "guest reads", "host reads"} {
			all := took[name]
			b.Logf("%s: median %.0f MiB/s, from %.0f to %.0f", name, speed(median(all)), speed(slices.Max(all)), speed(slices.Min(all)))
			b.ReportMetric(speed(median(all)), "MiB/s-"+strings.ReplaceAll(name, " ", "-"))
		}
		b.ReportMetric(speed(median(took["guest writes"]))/speed(median(took["host writes"])), "x-host-writes")
		b.ReportMetric(speed(median(took["guest reads"]))/speed(median(took["host reads"])), "x-host-reads")
	}
	b.ReportMetric(0, "ns/op")
}

func speed(took time.Duration) float64 { return shareMiB / took.Seconds() }

// sharing is a server whose guest has mounted a share, and the folder that the share is.
type sharing struct {
	*dev
	line   net.Conn
	said   *bufio.Scanner
	folder string
}

func newSharing(d *dev) *sharing {
	d.Helper()
	admin, endpoint := d.login(stack.CloudName)
	d.user = d.compute(admin, endpoint)
	d.user.Microversion = "2.97"
	file := filepath.Join(d.TempDir(), "guest.qcow2")
	require.NoError(d, guest.Build(d.Context(), file, guest.Options{}))
	created, err := servers.Create(d.Context(), d.user, servers.CreateOpts{Name: "bench", Networks: "none",
		ImageRef: d.image(admin, endpoint, file), FlavorRef: d.flavor(admin, endpoint, flavors.ExtraSpecsOpts{"hw:tpm_version": "2.0"})}, nil).Extract()
	require.NoError(d, err)
	project := d.becomes(created.ID, "ACTIVE").TenantID
	require.NoError(d, servers.Stop(d.Context(), d.user, created.ID).ExtractErr())
	d.becomes(created.ID, "SHUTOFF")
	folders, err := local.Open(filepath.Join(d.State, "shares"))
	require.NoError(d, err)
	made, err := folders.Create(d.Context(), compute.Credential{ProjectID: project}, "bench", 1)
	require.NoError(d, err)
	d.attach(created.ID, made)
	require.NoError(d, servers.Start(d.Context(), d.user, created.ID).ExtractErr())
	d.becomes(created.ID, "ACTIVE")

	s := &sharing{dev: d, folder: filepath.Join(d.State, "shares", made.ID.String(), "data")}
	require.DirExists(d, s.folder)
	s.line, err = net.Dial("unix", d.ConsoleSocket(created.ID))
	require.NoError(d, err)
	d.Cleanup(func() { _ = s.line.Close() })
	s.said = bufio.NewScanner(s.line)
	s.hears("TG tick=")
	s.tell("share data")
	return s
}

func (d *dev) becomes(id, status string) (out *servers.Server) {
	d.Helper()
	d.until(id, func(now *servers.Server, err error) bool {
		require.NoError(d, err)
		require.NotEqual(d, "ERROR", now.Status, now.Fault.Message)
		out = now
		return now.Status == status && now.TaskState == ""
	})
	return out
}

// attach attaches a share with the tag data.
func (d *dev) attach(server string, what share.Share) {
	d.Helper()
	address := d.user.ServiceURL("servers", server, "shares")
	ask := func(method, address string, opts *gophercloud.RequestOpts) {
		response, err := d.user.Request(d.Context(), method, address, opts)
		require.NoError(d, err)
		require.NoError(d, response.Body.Close())
	}
	ask("POST", address, &gophercloud.RequestOpts{OkCodes: []int{201}, JSONBody: map[string]any{"share": map[string]any{"share_id": what.ID, "tag": "data"}}})
	await.For(d, "the share is attached", func() bool {
		var got struct{ Share struct{ Status string } }
		ask("GET", address+"/"+what.ID.String(), &gophercloud.RequestOpts{JSONResponse: &got})
		return got.Share.Status == "inactive"
	})
}

// tell types a command on the guest's serial line and waits until it is done.
func (s *sharing) tell(command string) {
	s.Helper()
	_, err := fmt.Fprintln(s.line, command)
	require.NoError(s, err)
	verb, _, _ := strings.Cut(command, " ")
	require.Contains(s, s.hears("TG "+verb+" "), "err=<nil>")
}

func (s *sharing) hears(prefix string) string {
	s.Helper()
	require.NoError(s, s.line.SetReadDeadline(time.Now().Add(settleTimeout)))
	for s.said.Scan() {
		if _, after, ok := strings.Cut(s.said.Text(), prefix); ok {
			return after
		}
	}
	require.Fail(s, "the guest did not answer", "%q: %v", prefix, s.said.Err())
	return ""
}

func (s *sharing) hostWrites() {
	s.Helper()
	f, err := os.Create(filepath.Join(s.folder, "host"))
	require.NoError(s, err)
	block := make([]byte, 1<<20)
	for range shareMiB {
		_, err := f.Write(block)
		require.NoError(s, err)
	}
	require.NoError(s, f.Sync())
	require.NoError(s, f.Close())
}

func (s *sharing) hostReads() {
	s.Helper()
	f, err := os.Open(filepath.Join(s.folder, "host"))
	require.NoError(s, err)
	defer func() { _ = f.Close() }()
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, f, make([]byte, 1<<20))
	require.NoError(s, err)
	require.EqualValues(s, shareMiB<<20, n)
}
