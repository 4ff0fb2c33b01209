package integration_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shares"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/deploy/await"
	"strongroom/deploy/cloud"
	"strongroom/deploy/cloud/cloudtest"
	"strongroom/deploy/dev/postgres"
)

const nestedMounts = nestedState + "/mounts"

// nfsPort is where the kernel's NFS client finds a storage; in the machine that leads to the test's nfs-ganesha.
const nfsPort = 2049

// Flavors of the guest that counts its boots, with plain disks: one is on pages of 2 MiB.
var (
	countsOnPages = flavorSpec{"e2e-counts-pages", 64, 0, 0, 0, map[string]string{"hw:mem_page_size": "2MiB"}}
)

// nfsShare makes a share of Manila's back end of NFS.
func (h *nestedHost) nfsShare(t *testing.T) testShare {
	t.Helper()
	owner, err := h.session("-demo")
	require.NoError(t, err)
	s := testShare{id: cloudtest.NewShare(t, owner.provider, cloudtest.NFSShares, "NFS").ID}
	exports, err := shares.ListExportLocations(t.Context(), h.manila(t), s.id).Extract()
	require.NoError(t, err)
	s.location = exports[0].Path
	s.folder = filepath.Join(h.dir, "c", "nfs", "shares", strings.TrimPrefix(s.location, "127.0.0.1:/"))
	require.DirExists(t, s.folder)
	return s
}

// mounted gives the lines of the shares in the table of mounts of libvirt's daemon.
func (h *nestedHost) mounted(t *testing.T) string {
	t.Helper()
	return h.inside(t, "", "sh", "-c", "cat /proc/$(cat "+nestedLibvirtd.Dir+"/run/namespace.pid)/mounts | grep "+nestedMounts+" || true")
}

// atMount runs a shell command where a share is mounted, as libvirt's daemon sees it.
func (h *nestedHost) atMount(t *testing.T, s testShare, command string) string {
	t.Helper()
	return h.inside(t, "", "sh", "-c", "nsenter --target $(cat "+nestedLibvirtd.Dir+"/run/namespace.pid) --mount sh -c 'cd "+nestedMounts+"/"+s.id+"/mnt && "+command+"'")
}

// exportsAt has Manila say that a share is exported elsewhere, as after a migration of its own.
func (h *nestedHost) exportsAt(t *testing.T, s testShare, location string) {
	t.Helper()
	manila, err := pgx.Connect(t.Context(), "host="+filepath.Join(h.dir, "c", "postgres", "run")+" user="+postgres.Role+" dbname=manila")
	require.NoError(t, err)
	defer func() { _ = manila.Close(t.Context()) }()
	done, err := manila.Exec(t.Context(), "UPDATE share_instance_export_locations SET path = $2 WHERE share_instance_id IN (SELECT id FROM share_instances WHERE share_id = $1)", s.id, location)
	require.NoError(t, err)
	require.Equal(t, int64(1), done.RowsAffected())
}

// SH-08, SH-10, SH-17, SH-18, SH-30: shares of NFS are mounted by a stock kernel from a real nfs-ganesha, which lets in
// whom Manila's rules say: the host's address on the network of the shares. Two servers of the host have one rule and
// one mount; the rule is made anew that was taken away; a share that has moved is mounted where it is now, and so is it attached (SH-30); and nothing is left of either. SH-05: the one of
// pages of 2 MiB shares those. SH-37: neither guest is on any network, and the rule lets in the address that the
// operator has given the host on the network of the shares: by its other address, which the API shows, it would not be let in.
func TestSH18AShareOfNFS(t *testing.T) {
	backends(t, openStack)
	h := newNestedHostWith(t, "luksv2", nestedNeeds{
		name: "nfs", services: []string{manilaService, cloud.NFS}, modules: []string{"nfs", "nfsv4"}, forward: map[int]string{nfsPort: cloud.NFS},
		host: map[string]any{"shares": nestedMounts, "share_address": "127.0.0.1", "address": "192.0.2.7"},
	})
	if h == nil {
		return
	}
	h.inside(t, "", "sh", "-c", "echo 40 >/proc/sys/vm/nr_hugepages")
	db := h.database(t)
	await.For(t, "the host tells of its pages", func() (has bool) {
		return db.QueryRow(t.Context(), "SELECT $2 = ANY (traits) FROM hosts WHERE name = $1", h.name, compute.HugePagesTrait(2048)).Scan(&has) == nil && has
	})
	s := h.nfsShare(t)
	require.NoError(t, os.WriteFile(filepath.Join(s.folder, "letter"), []byte("from outside"), 0o644))
	ids := []string{h.createOf(t, countsOnPages, h.count), h.createOf(t, countsInClear, h.count)}
	for _, id := range ids {
		h.becomes(t, id, "ACTIVE")
		h.turnOff(t, id)
		require.NoError(t, h.attach(t, id, s, "data"))
		h.hasShare(t, id, s, "inactive")
	}
	rules := h.accessRules(t, s)
	require.Len(t, rules, 1)
	require.Equal(t, "127.0.0.1", rules[0].To)
	for _, id := range ids {
		require.Contains(t, rules[0].Metadata, "strongroom-server-"+id)
	}
	require.Empty(t, h.mounted(t))

	h.takeRuleAway(t, s, rules[0].ID)
	for _, id := range ids {
		h.turnOn(t, id)
		h.hasShare(t, id, s, "active")
	}
	again := h.accessRules(t, s)
	require.Len(t, again, 1)
	require.NotEqual(t, rules[0].ID, again[0].ID)
	line := h.mounted(t)
	require.Equal(t, 1, strings.Count(line, "\n"), line)
	for _, part := range []string{s.location + " " + nestedMounts + "/" + s.id + "/mnt nfs4 rw,nosuid,nodev,noexec,", "vers=4.2,", "softerr,"} {
		require.Contains(t, line, part)
	}
	require.Equal(t, "from outside", h.atMount(t, s, "cat letter"))
	h.atMount(t, s, "echo inside >note; chown 1000:1000 note")
	text, err := os.ReadFile(filepath.Join(s.folder, "note"))
	require.NoError(t, err)
	require.Equal(t, "inside\n", string(text))
	const virsh = "virsh -c 'qemu:///system?socket=/run/libvirtd-nested/run/libvirt-sock' "
	domains := h.inside(t, "", "sh", "-c", "for d in $("+virsh+"list --name); do "+virsh+"dumpxml $d; done")
	require.Equal(t, 2, strings.Count(domains, "<source dir='"+nestedMounts+"/"+s.id+"/mnt'/>"), "each guest has it")
	require.NotContains(t, domains, "<interface ")
	require.Equal(t, 1, strings.Count(domains, "<hugepages>"))
	require.Equal(t, 1, strings.Count(domains, "<source type='memfd'/>"))
	require.Equal(t, "8\n", h.inside(t, "", "awk", "/HugePages_Free/ {f = $2} /HugePages_Rsvd/ {r = $2} END {print f - r}", "/proc/meminfo"), "the one of 64 MiB has 32 of 40 pages")
	require.Empty(t, h.audit(t).Findings)

	shown, err := h.shares(t, "-admin", http.MethodGet, ids[0], s.id, nil)
	require.NoError(t, err)
	require.Equal(t, s.location, shown["share"].(map[string]any)["export_location"])

	h.turnOff(t, ids[0])
	h.hasShare(t, ids[0], s, "inactive")
	require.Equal(t, 1, strings.Count(h.mounted(t), "\n"))
	require.NoError(t, h.detach(t, ids[0], s))
	h.settled(t, ids[0])
	require.Equal(t, "inside\n", h.atMount(t, s, "cat note"), "the other one runs")
	rules = h.accessRules(t, s)
	require.Len(t, rules, 1)
	require.NotContains(t, rules[0].Metadata, "strongroom-server-"+ids[0])

	moved := strings.Replace(s.location, "127.0.0.1:", "localhost:", 1)
	h.exportsAt(t, s, moved)
	require.NoError(t, h.attach(t, ids[0], s, "data"))
	h.hasShare(t, ids[0], s, "inactive")
	shown, err = h.shares(t, "-admin", http.MethodGet, ids[0], s.id, nil)
	require.NoError(t, err)
	require.Equal(t, moved, shown["share"].(map[string]any)["export_location"])
	require.Contains(t, h.mounted(t), s.location+" ", "a guest runs with it where it was")

	require.NoError(t, servers.Reboot(t.Context(), h.compute(t, "-demo"), ids[1], servers.RebootOpts{Type: servers.HardReboot}).ExtractErr())
	h.becomes(t, ids[1], "ACTIVE")
	h.hasShare(t, ids[1], s, "active")
	require.Contains(t, h.mounted(t), moved+" ")
	require.Equal(t, "inside\n", h.atMount(t, s, "cat note"))
	h.turnOff(t, ids[1])
	require.Empty(t, h.mounted(t))
	require.Len(t, h.accessRules(t, s), 1)
	for _, id := range ids {
		h.delete(t, id)
	}
	require.Empty(t, h.accessRules(t, s))
	require.Empty(t, h.audit(t).Findings)
}
