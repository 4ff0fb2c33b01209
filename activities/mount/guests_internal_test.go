package mount

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/deploy/dev/forward"
)

// S6: what a guest sends to the storage of a share is not forwarded by its host, before and after; the host itself, and who goes elsewhere, get through.
func TestS6GuestsDoNotReachTheStorage(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root: namespaces of the network")
	}
	name := "sr-" + uuid.NewString()[:8]
	host, guest, storage := name+"-h", name+"-g", name+"-s"
	run := func(words string) {
		args := strings.Fields(words)
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		require.NoError(t, err, "%s: %s", words, out)
	}
	for _, netns := range []string{host, guest, storage} {
		run("ip netns add " + netns)
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", netns).Run() })
		run("ip -n " + netns + " link set lo up")
	}
	for netns, subnet := range map[string]string{guest: "10.77.1.", storage: "10.77.2."} {
		run("ip -n " + host + " link add to" + netns[len(netns)-2:] + " type veth peer name out netns " + netns)
		run("ip -n " + host + " addr add " + subnet + "1/24 dev to" + netns[len(netns)-2:])
		run("ip -n " + host + " link set to" + netns[len(netns)-2:] + " up")
		run("ip -n " + netns + " addr add " + subnet + "2/24 dev out")
		run("ip -n " + netns + " link set out up")
		run("ip -n " + netns + " route add default via " + subnet + "1")
	}
	run("ip -n " + storage + " addr add 10.77.2.3/24 dev out") // another's
	require.NoError(t, forward.Within(host, func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0) }))
	require.NoError(t, forward.Within(host, func() error {
		return exec.Command("iptables", "-t", "nat", "-A", "POSTROUTING", "-s", "10.77.1.0/24", "-j", "MASQUERADE").Run()
	}))
	var from []string
	require.NoError(t, forward.Within(storage, func() error {
		listener, err := net.Listen("tcp4", "0.0.0.0:2049")
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = listener.Close() })
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Write([]byte(conn.RemoteAddr().(*net.TCPAddr).IP.String()))
				_ = conn.Close()
			}
		}()
		return nil
	}))
	reaches := func(netns, address string) (err error) {
		return forward.Within(netns, func() error {
			conn, err := net.DialTimeout("tcp4", address+":2049", 2*time.Second)
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close() }()
			seen := make([]byte, 64)
			n, err := conn.Read(seen)
			from = append(from, string(seen[:n]))
			return err
		})
	}
	require.NoError(t, reaches(guest, "10.77.2.2"))
	require.Equal(t, []string{"10.77.2.1"}, from, "with the host's address")
	for range 2 { // once and for all
		require.NoError(t, forward.Within(host, func() error { return keepGuestsFrom(t.Context(), "10.77.2.2") }))
	}
	require.Error(t, reaches(guest, "10.77.2.2"), "INVARIANT: a guest reaches the storage as its host")
	require.NoError(t, reaches(guest, "10.77.2.3"))
	require.NoError(t, reaches(host, "10.77.2.2"))
	var rules []byte
	require.NoError(t, forward.Within(host, func() (err error) {
		rules, err = exec.Command("iptables", "-t", "mangle", "-S", "FORWARD").Output()
		return err
	}))
	require.Equal(t, 1, strings.Count(string(rules), "10.77.2.2/32"), "%s", rules)

	// Each mount looks for the rule before the kernel is asked, here for a place that there is not.
	require.NoError(t, forward.Within(host, func() error { return exec.Command("iptables", "-t", "mangle", "-F", "FORWARD").Run() }))
	require.NoError(t, reaches(guest, "10.77.2.2"))
	require.Error(t, forward.Within(host, func() error {
		return nfs{}.mount(t.Context(), compute.ShareID{UUID: uuid.New()}, filepath.Join(t.TempDir(), "nowhere"), Export{Path: "10.77.2.2:/secret"})
	}))
	require.Error(t, reaches(guest, "10.77.2.2"), "INVARIANT: a guest reaches the storage as its host")
}
