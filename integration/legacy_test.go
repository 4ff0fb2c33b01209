package integration_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/secrets"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/deploy/cloud/cloudtest"
	"strongroom/deploy/guest"
)

// EE-35, EE-48: a server whose disks Nova encrypted ([ephemeral_storage_encryption]: cryptsetup in
// plain mode on logical volumes, made here by the tools as it made them), with a key that is in
// Barbican, is taken over where it is. With anything wrong of what opens its disks its start is refused and
// nothing written; opened right, each by its own cipher, key size and hash, its guest goes on with the count that it
// wrote when Nova ran it. Volumes, mappings and key go with it.
func TestEE48LegacyServers(t *testing.T) {
	backends(t, openStack) // the key is Barbican's
	h := newNestedHost(t, "luks")
	if h == nil {
		return
	}
	root := compute.DMCrypt{Cipher: "aes-xts-plain64", KeySize: 512, Hash: "ripemd160"}
	swap := compute.DMCrypt{Cipher: "aes-cbc-essiv:sha256", KeySize: 256, Hash: "sha256"}
	n := h.nova(t)
	n.makes(t, "disk", root, h.countedByNova(t, 3))
	n.makes(t, "disk.swap", swap, nil)
	written := n.written(t)

	t.Run("wrong", func(t *testing.T) {
		right := n.Key
		for what, wrong := range map[string]func(*compute.DMCrypt){
			"cipher":   func(l *compute.DMCrypt) { l.Cipher = "aes-cbc-essiv:sha256"; l.KeySize = 256 },
			"key size": func(l *compute.DMCrypt) { l.KeySize = 256 },
			"hash":     func(l *compute.DMCrypt) { l.Hash = "sha256" },
			"key":      func(*compute.DMCrypt) { n.Key, _ = h.novaKey(t) },
		} {
			how := root
			wrong(&how)
			n.imported(t, false, how, swap)
			n.startRefused(t, how.String())
			require.Equal(t, written, n.written(t), "nothing was written: %s", what)
			n.Key = right
		}
	})

	t.Run("nothing in it", func(t *testing.T) { h.forces(t, root) })

	n.imported(t, false, root, swap)
	config := func(args ...string) (string, error) {
		return h.strongroom(append([]string{"--config", h.ConfigFile()}, args...)...)
	}
	said, err := config("legacy", "status")
	require.Error(t, err, "a key is left")
	for _, line := range []string{"1 servers have a legacy key", n.ID + "   not moved yet", "deprecated: servers.ephemeral_key_uuid", "until release 2.0"} {
		require.Contains(t, said, line)
	}
	said, err = config("legacy", "migrate")
	require.NoError(t, err, said)
	require.Contains(t, said, "1 servers moved, 0 left")
	said, err = config("legacy", "status")
	require.NoError(t, err, said)
	require.Contains(t, said, "2 disks have the legacy encryption")
	require.Equal(t, written, n.written(t), "an import and a move of the key write nothing")

	client := h.compute(t, "-demo")
	require.NoError(t, servers.Start(t.Context(), client, n.ID).ExtractErr())
	h.becomes(t, n.ID, "ACTIVE")
	h.boots(t, n.ID, 4)
	n.opensAs(t, root, swap)
	require.Empty(t, h.audit(t).Findings)
	said, err = n.tryImport(t, false, root, swap)
	require.ErrorContains(t, err, "exit status 1")
	require.Contains(t, said, "cannot be imported again")

	require.NoError(t, servers.Stop(t.Context(), client, n.ID).ExtractErr())
	h.becomes(t, n.ID, "SHUTOFF")
	require.Empty(t, h.opened(t), "it is off")
	require.NoError(t, servers.Start(t.Context(), client, n.ID).ExtractErr())
	h.becomes(t, n.ID, "ACTIVE")
	h.boots(t, n.ID, 5)
	kept, err := os.ReadFile(h.machine.Disk)
	require.NoError(t, err)
	require.False(t, bytes.Contains(kept, []byte(guest.CountingText)), "what is on the volumes is encrypted")

	h.delete(t, n.ID)
	require.Empty(t, h.volumes(t))
	require.Empty(t, h.opened(t))
	_, err = secrets.Get(t.Context(), h.service(t, "-demo", openstack.NewKeyManagerV1), n.Key).Extract()
	require.ErrorContains(t, err, "404", "the key went with the server")
	require.Len(t, h.secrets(t, "-demo"), 1, "a key that was named by mistake stays where it is")
	require.Empty(t, h.audit(t).Findings)
}

// forces: a volume in which there is nothing that is known is used when an administrator says so.
func (h *nestedHost) forces(t *testing.T, how compute.DMCrypt) {
	t.Helper()
	n := h.nova(t)
	n.makes(t, "disk", how, []byte{})
	n.imported(t, false, how)
	n.startRefused(t, "it holds no file system")
	n.imported(t, true, how)
	require.NoError(t, servers.Start(t.Context(), h.compute(t, "-demo"), n.ID).ExtractErr())
	h.becomes(t, n.ID, "ACTIVE")
	n.opensAs(t, how)
	h.delete(t, n.ID)
}

// novaServer is a server that Nova ran on a nested host.
type novaServer struct {
	*nestedHost
	ID    string
	Key   string // in Barbican
	bytes []byte // of the key
}

// nova gives a server of the user demo, with a key and without disks yet.
func (h *nestedHost) nova(t *testing.T) *novaServer {
	t.Helper()
	n := &novaServer{nestedHost: h, ID: uuid.NewString()}
	n.Key, n.bytes = h.novaKey(t)
	return n
}

// novaKey has Barbican keep a key as Nova made it, and gives its id and bytes.
func (h *nestedHost) novaKey(t *testing.T) (id string, value []byte) {
	t.Helper()
	value = make([]byte, 64)
	_, _ = rand.Read(value)
	s, err := secrets.Create(t.Context(), h.service(t, "-demo", openstack.NewKeyManagerV1), secrets.CreateOpts{
		Name: novaSecret, SecretType: secrets.SymmetricSecret, Algorithm: "aes", BitLength: 8 * len(value),
		Payload: base64.StdEncoding.EncodeToString(value), PayloadContentType: "application/octet-stream", PayloadContentEncoding: "base64",
	}).Extract()
	require.NoError(t, err)
	return filepath.Base(s.SecretRef), value
}

const novaMiB = 4 // an extent

// makes makes a disk as Nova's driver did (nova/virt/libvirt/storage/dmcrypt.py), and writes to it what the guest of
// an earlier boot left there; nil: swap.
func (n *novaServer) makes(t *testing.T, disk string, how compute.DMCrypt, content []byte) {
	t.Helper()
	volume := n.ID + "_" + disk
	target := volume + "-dmcrypt"
	n.inside(t, "", "lvm", "lvcreate", "--quiet", "--yes", "--size", fmt.Sprintf("%dm", novaMiB), "--name", volume, nestedGroup)
	create := []string{"cryptsetup", "create", target, "/dev/" + nestedGroup + "/" + volume, "--cipher=" + how.Cipher, fmt.Sprintf("--key-size=%d", how.KeySize), "--key-file=-"}
	if how.Hash != compute.DefaultLegacyEncryption.Hash { // cryptsetup's own by default, here
		create = append(create, "--hash="+how.Hash)
	}
	n.inside(t, hex.EncodeToString(n.bytes), create...)
	if content == nil {
		n.inside(t, "", "mkswap", "/dev/mapper/"+target)
	} else {
		n.inside(t, base64.StdEncoding.EncodeToString(content), "sh", "-c", "base64 -d | dd conv=fsync status=none of=/dev/mapper/"+target)
	}
	n.inside(t, "", "cryptsetup", "remove", target)
}

// countedByNova is the disk of the counting guest, after some boots.
func (h *nestedHost) countedByNova(t *testing.T, boots byte) []byte {
	t.Helper()
	raw := filepath.Join(t.TempDir(), "raw")
	out, err := exec.CommandContext(t.Context(), "qemu-img", "convert", "-O", "raw", h.dir+"/counting.qcow2", raw).CombinedOutput()
	require.NoError(t, err, "%s", out)
	content, err := os.ReadFile(raw)
	require.NoError(t, err)
	content[512] = boots
	return content
}

// written says by hashes what the server's volumes hold, as it is stored.
func (n *novaServer) written(t *testing.T) string {
	t.Helper()
	return n.inside(t, "", "sh", "-c", "sha256sum /dev/"+nestedGroup+"/"+n.ID+"_*")
}

// tryImport runs the command as an operator does, for a root disk and perhaps swap, and gives what it prints.
func (n *novaServer) tryImport(t *testing.T, force bool, how ...compute.DMCrypt) (string, error) {
	t.Helper()
	user, project := cloudtest.Who(t, n.service(t, "-demo", openstack.NewKeyManagerV1).ProviderClient)
	var disks []any
	for i, l := range how {
		disks = append(disks, map[string]any{
			"role": []string{"root", "swap"}[i], "size_mb": novaMiB,
			"encryption": map[string]any{"cipher": l.Cipher, "key_size": l.KeySize, "hash": l.Hash},
		})
	}
	text, err := json.Marshal(map[string]any{"servers": []any{map[string]any{
		"id": n.ID, "host": n.name, "project_id": project, "user_id": user, "name": "db1", "key": n.Key, "disks": disks,
		"flavor": map[string]any{"name": "m1.tiny", "vcpus": 1, "memory_mb": 64, "swap_mb": (len(how) - 1) * novaMiB},
	}}})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "servers.json")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	return n.strongroom("--config", n.ConfigFile(), "legacy", "import", file, fmt.Sprintf("--force=%t", force))
}

// imported requires that the import succeeds: the server is off.
func (n *novaServer) imported(t *testing.T, force bool, how ...compute.DMCrypt) {
	t.Helper()
	said, err := n.tryImport(t, force, how...)
	require.NoError(t, err, said)
	n.becomes(t, n.ID, "SHUTOFF")
}

// startRefused requires that a start of the server fails, and tells its owner why.
func (n *novaServer) startRefused(t *testing.T, why string) {
	t.Helper()
	require.NoError(t, servers.Start(t.Context(), n.compute(t, "-demo"), n.ID).ExtractErr())
	n.becomes(t, n.ID, "SHUTOFF")
	told := n.toldWhy(t, n.ID, "-demo")
	require.Equal(t, "failed", told.State)
	require.Contains(t, told.Message, why)
	require.Empty(t, n.opened(t), "its volumes are not open")
}

// opensAs requires that the kernel has the server's disks open as they are to be, and that their
// owner reads so.
func (n *novaServer) opensAs(t *testing.T, want ...compute.DMCrypt) {
	t.Helper()
	disks := n.disks(t, n.ID)
	require.Len(t, disks, len(want))
	require.Len(t, n.opened(t), len(want))
	for i, how := range want {
		require.Equal(t, "plain", disks[i].Format)
		options, err := how.Options()
		require.NoError(t, err)
		require.Equal(t, options, disks[i].Options)
		status := n.inside(t, "", "cryptsetup", "status", n.ID+"_"+[]string{"disk", "disk.swap"}[i]+"-dmcrypt")
		require.Contains(t, status, how.Cipher)
		require.Contains(t, status, fmt.Sprintf("%d bits", how.KeySize))
	}
}
