package mount

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"strongroom/compute"
	"strongroom/deploy/dev/forward"
)

const reached = "INVARIANT: a guest reaches the storage as its host"

// S6: what a guest sends to the storage of a share is not forwarded by its host, before and after; the host itself, and who goes elsewhere, get through.
func TestS6GuestsDoNotReachTheStorage(t *testing.T) {
	t.Parallel()
	n := behindNAT(t)
	require.NoError(t, n.reaches(n.guest, "10.77.2.2"))
	require.Equal(t, []string{"10.77.2.1"}, n.from, "with the host's address")
	for range 2 { // once and for all
		require.NoError(t, forward.Within(n.host, func() error { return keepGuestsFrom(t.Context(), netip.MustParseAddr("10.77.2.2")) }))
	}
	require.Error(t, n.reaches(n.guest, "10.77.2.2"), reached)
	require.NoError(t, n.reaches(n.guest, "10.77.2.3"))
	require.NoError(t, n.reaches(n.host, "10.77.2.2"))
	require.Equal(t, 1, strings.Count(n.rules(), "10.77.2.2/32"), "%s", n.rules())

	// Each mount looks for the rule before the kernel is asked.
	n.flush()
	require.NoError(t, n.reaches(n.guest, "10.77.2.2"))
	n.mountNowhere(newNFS(t, t.TempDir()))
	require.Error(t, n.reaches(n.guest, "10.77.2.2"), reached)
}

// S6: a host that has restarted, or whose firewall was loaded anew, keeps guests from the storages that it had mounted from before.
func TestS6AHostRemembersItsStorages(t *testing.T) {
	t.Parallel()
	n, dir := behindNAT(t), t.TempDir()
	n.mountNowhere(newNFS(t, dir))
	info, err := os.Stat(filepath.Join(dir, storagesName))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	n.flush()
	require.NoError(t, n.reaches(n.guest, "10.77.2.2"))

	started := newNFS(t, dir)
	for range 2 {
		require.NoError(t, forward.Within(n.host, func() error { return started.ShieldShares(t.Context()) }))
	}
	require.Error(t, n.reaches(n.guest, "10.77.2.2"), reached)
	require.NoError(t, n.reaches(n.guest, "10.77.2.3"))
	require.Equal(t, 1, strings.Count(n.rules(), "DROP"), "%s", n.rules())
}

// S6: of a share that is mounted already, by an earlier release say, the storage is the one that the kernel names, and guests are kept from it, too.
// For a mount of NFS the kernel would need such a storage: here are a file system in memory, and the line of a mount.
func TestS6AMountThatIsThere(t *testing.T) {
	t.Parallel()
	n, share := behindNAT(t), newNFS(t, t.TempDir())
	id, from := compute.ShareID{UUID: uuid.New()}, Export{Path: "storage:/secret"}
	point := share.Path(id)
	require.NoError(t, os.MkdirAll(point, 0o700))
	require.NoError(t, unix.Mount(from.Path, point, "tmpfs", 0, "size=64k"))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(point, unix.MNT_DETACH)) })
	table := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(table, "mountinfo"), fmt.Appendf(nil, "36 35 0:50 / %s rw,nosuid,nodev,noexec - nfs4 %s "+
		"rw,vers=4.2,rsize=1048576,wsize=1048576,namlen=255,softerr,proto=tcp,timeo=150,retrans=3,sec=sys,clientaddr=10.77.2.1,local_lock=none,addr=10.77.2.2\n", point, from.Path), 0o600))
	of, err := os.Open(table)
	require.NoError(t, err)
	t.Cleanup(func() { _ = of.Close() })
	share.place = place{of: of}

	require.NoError(t, n.reaches(n.guest, "10.77.2.2"))
	require.NoError(t, forward.Within(n.host, func() error { return share.ensure(t.Context(), share.place, id, share, from, 0) }))
	require.Error(t, n.reaches(n.guest, "10.77.2.2"), reached)
	known, err := share.storages()
	require.NoError(t, err)
	require.Equal(t, []netip.Addr{netip.MustParseAddr("10.77.2.2")}, known)
}

// S6: what a host remembers has an end, and each storage is in it once: the one that was not mounted from for the longest time goes first.
func TestS6SoManyStoragesAreRemembered(t *testing.T) {
	t.Parallel()
	a := newNFS(t, t.TempDir())
	all := []netip.Addr{netip.MustParseAddr("10.0.0.1")}
	for range maxStorages - 1 {
		all = append(all, all[len(all)-1].Next())
	}
	text := "no address\n"
	for _, address := range all {
		text += address.String() + "\n"
	}
	require.NoError(t, os.WriteFile(filepath.Join(a.Dir, storagesName), []byte(text), 0o600))
	first, second, next := all[0], all[1], netip.MustParseAddr("fd00::1")
	for range 2 {
		require.NoError(t, a.remember(t.Context(), first)) // now it is the last one
	}
	require.NoError(t, a.remember(t.Context(), next))
	known, err := a.storages()
	require.NoError(t, err)
	require.NotContains(t, known, second)
	require.Equal(t, append(all[2:], first, next), known)
}

func newNFS(t *testing.T, dir string) nfs {
	t.Helper()
	a, err := New(Config{Dir: dir})
	require.NoError(t, err)
	return nfs{Activities: a}
}

// nat is a host that forwards what its guest sends, with its own address, to a storage and to one beside that.
type nat struct {
	t           *testing.T
	host, guest string   // their namespaces of the network
	from        []string // the addresses that the storage has seen
}

func behindNAT(t *testing.T) *nat {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: namespaces of the network")
	}
	name := "sr-" + uuid.NewString()[:8]
	n, storage := &nat{t: t, host: name + "-h", guest: name + "-g"}, name+"-s"
	run := func(words string) {
		args := strings.Fields(words)
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		require.NoError(t, err, "%s: %s", words, out)
	}
	for _, netns := range []string{n.host, n.guest, storage} {
		run("ip netns add " + netns)
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", netns).Run() })
		run("ip -n " + netns + " link set lo up")
	}
	for netns, subnet := range map[string]string{n.guest: "10.77.1.", storage: "10.77.2."} {
		run("ip -n " + n.host + " link add to" + netns[len(netns)-2:] + " type veth peer name out netns " + netns)
		run("ip -n " + n.host + " addr add " + subnet + "1/24 dev to" + netns[len(netns)-2:])
		run("ip -n " + n.host + " link set to" + netns[len(netns)-2:] + " up")
		run("ip -n " + netns + " addr add " + subnet + "2/24 dev out")
		run("ip -n " + netns + " link set out up")
		run("ip -n " + netns + " route add default via " + subnet + "1")
	}
	run("ip -n " + storage + " addr add 10.77.2.3/24 dev out") // another's
	require.NoError(t, forward.Within(n.host, func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0) }))
	n.iptables("-t", "nat", "-A", "POSTROUTING", "-s", "10.77.1.0/24", "-j", "MASQUERADE")
	require.NoError(t, forward.Within(storage, func() error {
		listener, err := net.Listen("tcp4", "0.0.0.0:"+nfsPort)
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = listener.Close() })
		go tellAddresses(listener)
		return nil
	}))
	return n
}

// tellAddresses tells who connects from where.
func tellAddresses(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		_, _ = conn.Write([]byte(conn.RemoteAddr().(*net.TCPAddr).IP.String()))
		_ = conn.Close()
	}
}

func (n *nat) reaches(netns, address string) error {
	return forward.Within(netns, func() error {
		conn, err := net.DialTimeout("tcp4", net.JoinHostPort(address, nfsPort), 2*time.Second)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		seen := make([]byte, 64)
		got, err := conn.Read(seen)
		n.from = append(n.from, string(seen[:got]))
		return err
	})
}

// mountNowhere mounts from the storage at a place that there is not.
func (n *nat) mountNowhere(share nfs) {
	n.t.Helper()
	require.Error(n.t, forward.Within(n.host, func() error {
		return share.mount(n.t.Context(), compute.ShareID{UUID: uuid.New()}, filepath.Join(n.t.TempDir(), "nowhere"), Export{Path: "10.77.2.2:/secret"})
	}))
}

// flush is what a restart of the host, or of its firewall, does to the rules.
func (n *nat) flush() { n.iptables("-t", "mangle", "-F", "FORWARD") }

func (n *nat) rules() string { return n.iptables("-t", "mangle", "-S", "FORWARD") }

func (n *nat) iptables(args ...string) string {
	n.t.Helper()
	var out []byte
	require.NoError(n.t, forward.Within(n.host, func() (err error) {
		out, err = exec.Command("iptables", args...).CombinedOutput()
		return err
	}), "%s", out)
	return string(out)
}
