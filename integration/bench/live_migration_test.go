package bench_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"
	"libvirt.org/go/libvirtxml"

	"strongroom/activities/domain"
	"strongroom/compute"
	"strongroom/deploy/await"
	"strongroom/deploy/dev/stack"
	"strongroom/worker/pki"
)

const (
	liveMiB    = 1024 // random data on the disk that goes along
	liveRounds = 10
)

// BenchmarkLiveMigration moves a running server with an encrypted disk full of random data from one
// host to another, from the POST until a client sees it ACTIVE there, and in turn a domain like its own
// with `virsh migrate`, whose streams go through a TLS connection as the server's do. The disk that virsh
// copies to is made before, and not counted. It prints each way's times, the ratio of the medians, and how long
// the guests stood still, as libvirt tells it.
func BenchmarkLiveMigration(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("needs root: libvirt, QEMU, PostgreSQL")
	}
	d := launchDev(b, "live", build(b), "--hosts", "2")
	m := newMigrating(d)
	for b.Loop() {
		var ours, virsh, oursDown, virshDown []time.Duration
		for range liveRounds {
			took, down := m.server()
			ours, oursDown = append(ours, took), append(oursDown, down)
			took, down = m.domain()
			virsh, virshDown = append(virsh, took), append(virshDown, down)
		}
		b.Log(liveTable(map[string][]time.Duration{"server": ours, "virsh": virsh, "server's downtime": oursDown, "virsh's downtime": virshDown}))
		mine, theirs := median(ours), median(virsh)
		b.ReportMetric(mine.Seconds(), "s/server")
		b.ReportMetric(theirs.Seconds(), "s/virsh")
		b.ReportMetric(mine.Seconds()/theirs.Seconds(), "x-virsh")
		b.ReportMetric((mine - theirs*11/10).Seconds(), "s-above-1.1-virsh")
		b.ReportMetric(float64(median(oursDown).Milliseconds()), "ms-downtime/server")
		b.ReportMetric(float64(median(virshDown).Milliseconds()), "ms-downtime/virsh")
	}
	b.ReportMetric(0, "ns/op")
}

func liveTable(rows map[string][]time.Duration) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, "\nms\tmedian\tmin\tmax\t")
	for _, name := range []string{"server", "virsh", "server's downtime", "virsh's downtime"} {
		all := rows[name]
		_, _ = fmt.Fprintf(w, "%s\t%d\t%d\t%d\t\n", name, median(all).Milliseconds(), slices.Min(all).Milliseconds(), slices.Max(all).Milliseconds())
	}
	_ = w.Flush()
	return text.String()
}

// migrating is a server and a domain that go to and fro between two hosts.
type migrating struct {
	*dev
	hosts    [2]stack.Host
	names    [2]string // of the hosts
	id       string    // of the server
	at       int       // where the server is, of hosts
	bare     bareDomain
	identity *pki.Identity
}

// bareDomain is the one that virsh moves.
type bareDomain struct {
	name, secret, passphrase string
	at                       int
}

// benchFolder is in libvirt's own folder, of which each host has one: what two hosts know by
// the same path is not the same file.
const benchFolder = "/run/libvirt/bench"

func (m *migrating) folder(host int) string {
	return filepath.Join(filepath.Dir(m.hosts[host].LibvirtSocket()), filepath.Base(benchFolder))
}

func newMigrating(d *dev) *migrating {
	d.Helper()
	m := &migrating{dev: d, hosts: [2]stack.Host{d.Host(1), d.Host(2)}}
	for i, h := range m.hosts {
		var err error
		m.names[i], err = h.Name()
		require.NoError(d, err)
		require.NoError(d, os.Mkdir(m.folder(i), 0o777))
		require.NoError(d, os.Chmod(m.folder(i), 0o777)) // QEMU's user makes its sockets there
	}
	authority, err := pki.Open(d.Authority())
	require.NoError(d, err)
	m.identity, err = authority.Process(pki.Operator)
	require.NoError(d, err)

	admin, endpoint := d.login(stack.CloudName)
	d.user = d.compute(admin, endpoint)
	raw := m.rawImage()
	file := filepath.Join(d.TempDir(), "full.qcow2")
	m.qemuImg("convert", "-f", "raw", "-O", "qcow2", raw, file)
	m.create(servers.CreateOpts{Name: "bench", Networks: "none", ImageRef: d.image(admin, endpoint, file),
		FlavorRef: d.flavor(admin, endpoint, flavors.ExtraSpecsOpts{"hw:ephemeral_encryption": "true"})})
	m.startDomain(raw)
	return m
}

// rawImage has the idle guest in its first MiB, and random data in the others.
func (m *migrating) rawImage() string {
	m.Helper()
	raw := filepath.Join(m.TempDir(), "full.raw")
	m.qemuImg("convert", "-f", "qcow2", "-O", "raw", idleImage(m.B), raw)
	f, err := os.OpenFile(raw, os.O_WRONLY, 0)
	require.NoError(m, err)
	begin, err := f.Seek(0, io.SeekEnd)
	require.NoError(m, err)
	_, err = io.CopyN(f, rand.Reader, liveMiB<<20-begin)
	require.NoError(m, err)
	require.NoError(m, f.Close())
	return raw
}

// create makes the server. It is shelved and unshelved, so that its disk has all of its data in itself:
// otherwise most of it would be its image's, which does not go along.
func (m *migrating) create(what servers.CreateOpts) {
	m.Helper()
	created, err := servers.Create(m.Context(), m.user, what, nil).Extract()
	require.NoError(m, err)
	m.id = created.ID
	m.becomes(m.id, "ACTIVE")
	require.NoError(m, servers.Shelve(m.Context(), m.user, m.id).ExtractErr())
	m.becomes(m.id, "SHELVED_OFFLOADED")
	require.NoError(m, servers.Unshelve(m.Context(), m.user, m.id, servers.UnshelveOpts{}).ExtractErr())
	now := m.becomes(m.id, "ACTIVE")
	m.at = slices.Index(m.names[:], now.Host)
	require.GreaterOrEqual(m, m.at, 0, now.Host)
}

// server moves the server to the other host.
func (m *migrating) server() (took, down time.Duration) {
	m.Helper()
	yes := true
	to := 1 - m.at
	begin := time.Now()
	require.NoError(m, servers.LiveMigrate(m.Context(), m.user, m.id, servers.LiveMigrateOpts{Host: &m.names[to], BlockMigration: &yes}).ExtractErr())
	now := m.becomes(m.id, "ACTIVE")
	took = time.Since(begin)
	require.Equal(m, m.names[to], now.Host)
	m.at = to
	return took, m.downtime(to, compute.InstanceName(compute.ServerID{UUID: uuid.MustParse(m.id)}))
}

// startDomain starts a domain like the server's on the first host, with a disk like the server's and no vTPM,
// console or config drive.
func (m *migrating) startDomain(raw string) {
	m.Helper()
	var text [32]byte
	_, err := rand.Read(text[:])
	require.NoError(m, err)
	m.bare = bareDomain{name: "bare", secret: uuid.NewString(), passphrase: filepath.Join(m.TempDir(), "passphrase")}
	require.NoError(m, os.WriteFile(m.bare.passphrase, []byte(hex.EncodeToString(text[:])), 0o600))
	m.qemuImg("convert", "-f", "raw", "-O", "qcow2", "--object", "secret,id=key,file="+m.bare.passphrase,
		"-o", "encrypt.format=luks,encrypt.key-secret=key", raw, m.disk(0))
	require.NoError(m, os.Chmod(m.disk(0), 0o666))
	for host := range m.hosts {
		define := filepath.Join(m.TempDir(), "secret.xml")
		require.NoError(m, os.WriteFile(define, []byte("<secret ephemeral='yes' private='yes'><uuid>"+m.bare.secret+"</uuid></secret>"), 0o600))
		m.virsh(host, "secret-define", define)
		m.virsh(host, "secret-set-value", m.bare.secret, "--plain", "--file", m.bare.passphrase)
	}
	like := m.virsh(m.at, "dumpxml", compute.InstanceName(compute.ServerID{UUID: uuid.MustParse(m.id)}), "--inactive", "--migratable")
	file := filepath.Join(m.TempDir(), "bare.xml")
	require.NoError(m, os.WriteFile(file, []byte(m.bareXML(like)), 0o600))
	m.virsh(0, "create", file)
}

func (m *migrating) bareXML(like string) string {
	m.Helper()
	var doc libvirtxml.Domain
	require.NoError(m, doc.Unmarshal(like))
	doc.Name, doc.UUID, doc.Metadata, doc.SysInfo = m.bare.name, uuid.NewString(), nil, nil
	if doc.OS != nil {
		doc.OS.SMBios = nil
	}
	root := doc.Devices.Disks[0]
	root.Source = &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: filepath.Join(benchFolder, "disk")},
		Encryption: &libvirtxml.DomainDiskEncryption{Format: "luks", Secrets: []libvirtxml.DomainDiskSecret{{Type: "passphrase", UUID: m.bare.secret}}}}
	root.BackingStore, root.Alias, root.Address = nil, nil, nil
	doc.Devices.Disks = []libvirtxml.DomainDisk{root}
	doc.Devices.Serials, doc.Devices.Consoles, doc.Devices.TPMs, doc.Devices.Interfaces = nil, nil, nil, nil
	for i := range doc.Devices.Graphics { // in a folder that is there on both hosts
		doc.Devices.Graphics[i] = libvirtxml.DomainGraphic{VNC: &libvirtxml.DomainGraphicVNC{Socket: filepath.Join(benchFolder, "vnc")}}
	}
	text, err := doc.Marshal()
	require.NoError(m, err)
	return text
}

func (m *migrating) disk(host int) string { return filepath.Join(m.folder(host), "disk") }

// domain moves the bare domain to the other host with virsh.
func (m *migrating) domain() (took, down time.Duration) {
	m.Helper()
	from, to := m.bare.at, 1-m.bare.at
	m.qemuImg("create", "-q", "-f", "qcow2", "--object", "secret,id=key,file="+m.bare.passphrase,
		"-o", "encrypt.format=luks,encrypt.key-secret=key", m.disk(to), strconv.Itoa(liveMiB)+"M")
	require.NoError(m, os.Chmod(m.disk(to), 0o666))
	for _, name := range []string{"state", "disks"} {
		defer m.carry(name, from, to)()
	}
	begin := time.Now()
	m.virsh(from, "migrate", "--live", "--copy-storage-all", m.bare.name, uri(m.hosts[to]),
		"--migrateuri", "unix://"+filepath.Join(benchFolder, "state"), "--disks-uri", "unix://"+filepath.Join(benchFolder, "disks"))
	took = time.Since(begin)
	m.bare.at = to
	return took, m.downtime(to, m.bare.name)
}

// carry takes what QEMU sends to a socket of one host to that of the same name of another one, through a
// TLS connection with certificates of both ends, as hosts do.
func (m *migrating) carry(name string, from, to int) (stop func()) {
	m.Helper()
	ctx, cancel := context.WithCancel(m.Context())
	_ = os.Remove(filepath.Join(m.folder(from), name))
	_ = os.Remove(filepath.Join(m.folder(to), name))
	inner, err := net.Listen("unix", filepath.Join(m.folder(from), name))
	require.NoError(m, err)
	require.NoError(m, os.Chmod(filepath.Join(m.folder(from), name), 0o666))
	tcp, err := tls.Listen("tcp", "127.0.0.1:0", m.identity.Server())
	require.NoError(m, err)
	go each(inner, func(conn net.Conn) {
		other, err := (&tls.Dialer{Config: m.identity.Client(pki.Operator)}).DialContext(ctx, "tcp", tcp.Addr().String())
		if err == nil {
			_ = domain.Join(ctx, conn.(*net.UnixConn), other.(*tls.Conn))
		}
		_ = conn.Close()
	})
	go each(tcp, func(conn net.Conn) {
		other, err := net.Dial("unix", filepath.Join(m.folder(to), name))
		if err == nil {
			_ = domain.Join(ctx, conn.(*tls.Conn), other.(*net.UnixConn))
		}
		_ = conn.Close()
	})
	return func() {
		cancel()
		_ = inner.Close()
		_ = tcp.Close()
	}
}

func each(l net.Listener, do func(net.Conn)) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go do(conn)
	}
}

var totalDowntime = regexp.MustCompile(`(?m)^Total downtime:\s+(\d+)\s+ms`)

// downtime is how long the guest stood still, as the host tells it that it came to.
func (m *migrating) downtime(host int, domain string) time.Duration {
	m.Helper()
	said := m.virsh(host, "domjobinfo", domain, "--completed", "--keep-completed")
	found := totalDowntime.FindStringSubmatch(said)
	require.NotNil(m, found, said)
	ms, err := strconv.Atoi(found[1])
	require.NoError(m, err)
	return time.Duration(ms) * time.Millisecond
}

// qemuImg makes a disk. QEMU measures how fast it derives keys by a coarse clock of CPU time, and gives up where that stood
// still, as it does now and then on a busy machine.
func (m *migrating) qemuImg(args ...string) {
	m.Helper()
	var said []byte
	await.For(m, "qemu-img "+strings.Join(args, " "), func() (ok bool) {
		var err error
		said, err = exec.CommandContext(m.Context(), "qemu-img", args...).CombinedOutput()
		return err == nil
	}, await.Witness{Name: "what it said", Look: func() string { return string(said) }})
}

func uri(h stack.Host) string { return "qemu+unix:///system?socket=" + h.LibvirtSocket() }

func (m *migrating) virsh(host int, args ...string) string {
	m.Helper()
	return m.run("virsh", append([]string{"-q", "-c", uri(m.hosts[host])}, args...)...)
}

func (m *migrating) run(name string, args ...string) string {
	m.Helper()
	out, err := exec.CommandContext(m.Context(), name, args...).CombinedOutput()
	require.NoError(m, err, "%s %s: %s", name, strings.Join(args, " "), out)
	return string(out)
}
