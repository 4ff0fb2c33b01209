package stack

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/dev/libvirtd"
)

// Who starts a stack is told whose servers have a network.
func TestNetworksHint(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	hint := func(projects, hosts int, cloud string) string {
		t.Helper()
		users := "projects:\n"
		for i := range projects {
			users += fmt.Sprintf("  - {id: p%d, name: project-%d}\n", i, i)
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, "users.yaml"), []byte(users), 0o600))
		return Config{Layout: Layout{State: dir}, Hosts: hosts, Cloud: cloud}.networksHint()
	}
	require.Equal(t, "one for each project; servers that name none are on it", hint(maxNetworks, 1, ""))
	require.Equal(t, "one for each of 8 projects; in the other 2 create servers with --nic none", hint(maxNetworks+2, 1, ""))
	require.Contains(t, hint(1, 2, ""), "none, for there are several hosts")
	require.Contains(t, hint(1, 1, "clouds.yaml"), "networks.backend")
}

// A project that is deleted moves no other project's network, for servers are on them.
func TestANetworkStaysWithItsProject(t *testing.T) {
	t.Parallel()
	l := Layout{State: t.TempDir(), PortBase: 20000}
	networks := func(projects ...string) map[string]string {
		t.Helper()
		require.NoError(t, os.WriteFile(l.path("users.yaml"), []byte("projects:\n"+strings.Join(projects, "")), 0o600))
		all, err := l.projectNetworks()
		require.NoError(t, err)
		out := map[string]string{}
		for _, n := range all {
			out[n.Name] = n.ID.String() + " " + n.Bridge + " " + n.Prefix.String()
		}
		return out
	}
	old := networks("  - {id: a, name: a}\n", "  - {id: b, name: b}\n", "  - {id: c, name: c}\n")
	require.Len(t, old, 3)
	require.Equal(t, old, networks("  - {id: a, name: a, network: 1}\n", "  - {id: b, name: b, network: 2}\n", "  - {id: c, name: c, network: 3}\n"))
	delete(old, "b")
	require.Equal(t, old, networks("  - {id: a, name: a, network: 1}\n", "  - {id: c, name: c, network: 3}\n"))
	require.Equal(t, old, networks("  - {id: a, name: a, network: 1}\n", "  - {id: c, name: c, network: 3}\n", "  - {id: d, name: d, network: 9}\n"))
}

// A cloud behind an authority of its own is reached by all parts as its clouds.yaml says.
func TestACloudIsReachedAsItsFileSays(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	identity := func(entry string) any {
		t.Helper()
		require.NoError(t, os.WriteFile(file, []byte("clouds:\n  strongroom: {auth: {auth_url: https://keystone/v3}"+entry+"}\n  other: {verify: false}\n"), 0o600))
		reached, err := connection(file)
		require.NoError(t, err)
		all := Layout{State: "/state"}.settings(surroundings{account: account{authURL: "https://keystone/v3", connection: reached}, openstack: true})
		return all["identity"]
	}
	here, err := os.Getwd()
	require.NoError(t, err)
	plain := map[string]any{
		"auth_url": "https://keystone/v3", "username": "", "password_file": Layout{State: "/state"}.passwordFile(), "project": "", "domain": "", "region": "",
	}
	require.Equal(t, plain, identity(""))
	require.Equal(t, plain, identity(", verify: true"))
	plain["cafile"], plain["certfile"], plain["keyfile"] = "/etc/ssl/cloud.pem", filepath.Join(here, "mine.pem"), filepath.Join(here, "mine.key")
	require.Equal(t, plain, identity(", cacert: /etc/ssl/cloud.pem, cert: mine.pem, key: mine.key"))
	plain["insecure"] = true
	require.Equal(t, plain, identity(", cacert: /etc/ssl/cloud.pem, cert: mine.pem, key: mine.key, verify: false"))
}

// A project that takes the number of one that is gone gets its bridge, also where the libvirtd goes on that had that one's network.
func TestANetworkReplacesThatOfAProjectThatIsGone(t *testing.T) {
	t.Parallel()
	if os.Getenv("CI") == "" && os.Getuid() != 0 {
		t.Skip("needs root and libvirtd")
	}
	space := fmt.Sprint("sr-networks-", os.Getpid())
	require.NoError(t, exec.Command("ip", "netns", "add", space).Run())
	t.Cleanup(func() { require.NoError(t, exec.Command("ip", "netns", "delete", space).Run()) })
	dir, err := os.MkdirTemp("/tmp", "sn")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	d, err := libvirtd.Start(t.Context(), libvirtd.Config{Dir: dir, CacheDir: libvirtd.DefaultCacheDir(), Netns: space})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.StopAll(context.WithoutCancel(t.Context()))) })

	l := Layout{State: t.TempDir(), PortBase: 20000}
	up := func(projects ...string) []string {
		t.Helper()
		require.NoError(t, os.WriteFile(l.path("users.yaml"), []byte("projects:\n"+strings.Join(projects, "")), 0o600))
		all, err := l.projectNetworks()
		require.NoError(t, err)
		p := &projectNetworks{socket: d.Socket(), networks: all}
		var found []string
		require.NoError(t, p.do(t.Context(), func(l *libvirt.Libvirt) error {
			for _, n := range all {
				if err := ensureNetwork(t.Context(), l, n); err != nil {
					return err
				}
			}
			there, _, err := l.ConnectListAllNetworks(1, libvirt.ConnectListNetworksActive)
			for _, n := range there {
				found = append(found, n.Name+" "+uuid.UUID(n.UUID).String())
			}
			slices.Sort(found)
			return err
		}))
		return found
	}
	const first, old, newer = "  - {id: a, name: a, network: 1}\n", "  - {id: b, name: b, network: 2}\n", "  - {id: c, name: c, network: 2}\n"
	before := up(first, old)
	require.Len(t, before, 2)
	require.Equal(t, before, up(first, old), "twice is once")
	after := up(first, newer)
	require.Len(t, after, 2)
	require.Equal(t, before[0], after[0])
	require.NotEqual(t, before[1], after[1])
	require.Equal(t, strings.Fields(before[1])[0], strings.Fields(after[1])[0], "the name and the bridge")
}
