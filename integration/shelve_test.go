package integration_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/objectstorage/v1/objects"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"strongroom/activities/object"
	"strongroom/activities/object/swift"
	"strongroom/compute"
	"strongroom/deploy/dev/stack"
)

func (c *testCloud) shelve(t *testing.T, id string) {
	t.Helper()
	require.NoError(t, servers.Shelve(t.Context(), c.compute(t, "-demo"), id).ExtractErr())
	c.becomes(t, id, "SHELVED_OFFLOADED")
}

func (c *testCloud) unshelve(t *testing.T, id string) {
	t.Helper()
	require.NoError(t, c.tryUnshelve(t, id))
	c.becomes(t, id, "ACTIVE")
}

func (c *testCloud) tryUnshelve(t *testing.T, id string) error {
	t.Helper()
	return servers.Unshelve(t.Context(), c.compute(t, "-demo"), id, servers.UnshelveOpts{}).ExtractErr()
}

// keptAs are the images of a shelved server's disks.
func (c *testCloud) keptAs(t *testing.T, id string) (kept []images.Image) {
	t.Helper()
	pages, err := images.List(c.imageService(t, "-demo"), images.ListOpts{}).AllPages(t.Context())
	require.NoError(t, err)
	all, err := images.ExtractImages(pages)
	require.NoError(t, err)
	for _, img := range all {
		if img.Properties["instance_uuid"] == id {
			kept = append(kept, img)
		}
	}
	return kept
}

// keysOf are the names of a server's keys.
func (c *testCloud) keysOf(t *testing.T, id string) (names []string) {
	t.Helper()
	var all []string
	if c.real != nil {
		for _, s := range c.secrets(t, "-demo") {
			all = append(all, s.Name)
		}
	} else {
		all = slices.Collect(maps.Keys(c.passphrases(t)))
	}
	for _, name := range all {
		if strings.Contains(name, id) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// systemMetadata is what strongroom notes of a server.
func (c *testCloud) systemMetadata(t *testing.T, id, key string) (value string) {
	t.Helper()
	db, err := pgx.Connect(t.Context(), databaseURL(t, c))
	require.NoError(t, err)
	defer func() { _ = db.Close(t.Context()) }()
	require.NoError(t, db.QueryRow(t.Context(),
		"SELECT coalesce((SELECT value FROM server_system_metadata WHERE server_id = $1 AND key = $2), '')", id, key).Scan(&value))
	return value
}

// tpmFolder is the state folder of a server's vTPM.
func (c *testCloud) tpmFolder(id string) string {
	if own := filepath.Join(c.State, "libvirt", "lib", "swtpm"); exists(own) {
		return filepath.Join(own, id)
	}
	return filepath.Join("/var/lib/libvirt/swtpm", id)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// EE-25, TPM-02, TPM-21, TPM-22, TPM-23, TPM-25, TPM-38: a server with encrypted disks and a
// vTPM leaves its host and comes back with its disks, its keys and the state of its TPM. The
// standard client does it.
func TestShelveAndUnshelve(t *testing.T) {
	backends(t, openStack, local)
	c := sharedCloud(t)
	id := c.create(t, encryptedTPM)
	c.becomes(t, id, "ACTIVE")
	c.console(t, id, "nvcount=1", 1)
	line := c.serial(t, id)
	line.expect("TG tick=")
	require.Contains(t, line.ask("write note kept", "TG write "), "err=<nil>")
	require.Contains(t, line.ask("write /dev/vdb beside", "TG write "), "err=<nil>")
	require.NoError(t, line.conn.Close())
	keys, disks := c.keysOf(t, id), c.disks(t, id)
	require.Len(t, keys, 4)
	laid := filesOf(t, c.tpmFolder(id)).state()

	python := c.python(t, "-demo")
	python.run("server", "shelve", id)
	s := c.becomes(t, id, "SHELVED_OFFLOADED")
	require.Empty(t, s.HostID)
	require.Empty(t, c.audit(t).Findings)
	require.Equal(t, keys, c.keysOf(t, id), "no key is made, none goes")
	require.False(t, exists(filepath.Join(c.Instances(), id)))
	require.False(t, exists(c.tpmFolder(id)))
	kept := c.keptAs(t, id)
	require.Len(t, kept, 3)
	for _, img := range kept {
		require.True(t, strings.HasPrefix(img.Name, s.Name+"-shelved"), img.Name)
		require.Equal(t, s.TenantID, img.Owner)
		require.Equal(t, "2.0", img.Properties["hw_tpm_version"])
		require.Equal(t, "tpm-crb", img.Properties["hw_tpm_model"])
		require.Equal(t, "False", img.Properties["os_encrypt_key_deletion_policy"])
		require.NotContains(t, img.Properties, "tpm_object_id")
		require.NotContains(t, img.Properties, "tpm_object_sha256")
	}
	require.NotEmpty(t, c.systemMetadata(t, id, "tpm_object_id"))
	require.Len(t, c.systemMetadata(t, id, "tpm_object_sha256"), 64)
	objects := strings.Join(c.objectsOf(t, s), "\n") // the one that was noted, and its one part
	require.Contains(t, objects, c.systemMetadata(t, id, "tpm_object_id")+"\n")
	require.Contains(t, objects, "-"+c.systemMetadata(t, id, "tpm_object_sha256"))

	demo := c.compute(t, "-demo")
	for action, err := range map[string]error{
		"start": servers.Start(t.Context(), demo, id).ExtractErr(), "shelve": servers.Shelve(t.Context(), demo, id).ExtractErr(),
	} {
		require.True(t, gophercloud.ResponseCodeIs(err, http.StatusConflict), "%s: %v", action, err)
		require.ErrorContains(t, err, fmt.Sprintf("Cannot '%s' instance %s while it is in vm_state shelved_offloaded", action, id))
	}

	python.run("server", "unshelve", id)
	s = c.becomes(t, id, "ACTIVE")
	require.NotEmpty(t, s.HostID)
	log := c.console(t, id, "TG ready", 1)
	require.Contains(t, log, "rootdisk boots=2")
	require.Contains(t, log, "nvcount=2")
	line = c.serial(t, id)
	require.Contains(t, line.ask("cat /root/note", "TG cat "), "kept")
	require.Contains(t, line.ask("cat /dev/vdb", "TG cat "), "beside")
	require.NoError(t, line.conn.Close())
	c.requireCertified(t, id, true)
	disks[0].Image = "" // it has all of its data in itself
	require.Equal(t, disks, c.disks(t, id))
	require.Empty(t, c.keptAs(t, id))
	require.Empty(t, c.systemMetadata(t, id, "tpm_object_id")+c.systemMetadata(t, id, "tpm_object_sha256"))
	require.Equal(t, keys, c.keysOf(t, id))
	require.Empty(t, c.objectsOf(t, s))
	swtpm, err := user.Lookup("tss")
	require.NoError(t, err)
	back := filesOf(t, c.tpmFolder(id)).state()
	require.Len(t, back, len(laid))
	for name, f := range back {
		require.Equal(t, []string{swtpm.Uid, swtpm.Gid}, []string{fmt.Sprint(f.UID), fmt.Sprint(f.GID)}, name)
		require.Equal(t, laid[name].Mode, f.Mode, name)
	}
	require.Empty(t, c.audit(t).Findings)

	// What came back goes on like any other: it starts again, has images made of it, and
	// is shelved once more.
	c.shutOff(t, id)
	c.startAgain(t, id)
	c.console(t, id, "TG ready", 2) // it has counted
	c.deleteImage(t, c.createImage(t, id, "of-unshelved", nil))
	c.shelve(t, id)
	c.unshelve(t, id)
	log = c.console(t, id, "TG ready", 1)
	require.Contains(t, log, "rootdisk boots=4")
	require.Contains(t, log, "nvcount=4")
	c.delete(t, id)
	c.nothingIsLeft(t)
}

// objectsOf are the names of what the object store has of a server.
func (c *testCloud) objectsOf(t *testing.T, s *servers.Server) (names []string) {
	t.Helper()
	var all []string
	if c.real != nil {
		all = c.containers(t, "-demo")
	} else {
		entries, err := os.ReadDir(filepath.Join(c.State, "objects", s.TenantID))
		if !os.IsNotExist(err) { // nothing was ever stored
			require.NoError(t, err)
		}
		for _, e := range entries {
			all = append(all, strings.ReplaceAll(e.Name(), "%2F", "/"))
		}
	}
	for _, name := range all {
		if strings.Contains(name, s.ID) {
			names = append(names, name)
		}
	}
	return names
}

// blob is one of what the object store has for a project: an object's manifest or a segment of it.
type blob struct {
	*testCloud
	project, name string
}

func (b blob) file() string {
	return filepath.Join(b.State, "objects", b.project, strings.ReplaceAll(b.name, "/", "%2F"))
}

func (b blob) read(t *testing.T) []byte {
	t.Helper()
	if b.real == nil {
		data, err := os.ReadFile(b.file())
		require.NoError(t, err)
		return data
	}
	got := objects.Download(t.Context(), b.service(t, "-demo", openstack.NewObjectStorageV1), swift.Container, b.name, nil)
	data, err := got.ExtractContent()
	require.NoError(t, err)
	return data
}

func (b blob) write(t *testing.T, data []byte) {
	t.Helper()
	if b.real == nil {
		require.NoError(t, os.WriteFile(b.file(), data, 0o600))
		return
	}
	require.NoError(t, objects.Create(t.Context(), b.service(t, "-demo", openstack.NewObjectStorageV1), swift.Container, b.name,
		objects.CreateOpts{Content: bytes.NewReader(data)}).Err)
}

func (b blob) remove(t *testing.T) {
	t.Helper()
	if b.real == nil {
		require.NoError(t, os.Remove(b.file()))
		return
	}
	require.NoError(t, objects.Delete(t.Context(), b.service(t, "-demo", openstack.NewObjectStorageV1), swift.Container, b.name, nil).Err)
}

// TPM-21, TPM-26, TPM-37: an object has the state as it was on the host, bit for bit and as swtpm encrypted it. One that is another one,
// damaged or missing, and images that ask for another vTPM, are
// refused, which says why, and lose nothing: once that is repaired, disk and TPM come back as they were.
func TestUnshelveOfWhatIsNotWhatWasKept(t *testing.T) {
	backends(t, openStack, local)
	c := ownCloud(t)
	id := c.create(t, encryptedTPM)
	s := c.becomes(t, id, "ACTIVE")
	c.counts(t, id, 1, 1, 1)
	c.shutOff(t, id)
	laid := c.remainsOnDisk(t, c.Host(1), id).TPM.state()
	c.shelve(t, id)
	manifest := blob{c, s.TenantID, c.systemMetadata(t, id, compute.SystemTPMObject)}
	described := manifest.read(t)
	var has object.Manifest
	require.NoError(t, json.Unmarshal(described, &has))
	require.Len(t, has.Segments, 1)
	part := ""
	for _, name := range c.objectsOf(t, s) {
		if strings.HasSuffix(name, has.SHA256) {
			part = strings.TrimPrefix(name, swift.Container+"/")
		}
	}
	segment := blob{c, s.TenantID, part}
	data := segment.read(t)
	requireEncryptedState(t, data, laid)
	// It ends with zeros that no tar is read to: what has another last byte is whole, and lays down the same state.
	another := append(slices.Clone(data[:len(data)-1]), 'x')
	sum := sha256.Sum256(another)
	other := blob{c, s.TenantID, strings.Replace(part, has.SHA256, hex.EncodeToString(sum[:]), 1)}
	for name, spoil := range map[string]struct {
		how  func(*testing.T)
		says string
	}{
		"another": {func(t *testing.T) {
			other.write(t, another)
			manifest.write(t, bytes.ReplaceAll(described, []byte(has.SHA256), []byte(hex.EncodeToString(sum[:]))))
		}, "its sha256 is another one than " + has.SHA256},
		"damaged": {func(t *testing.T) { segment.write(t, another) }, "does not match its sha256"},
		"missing": {func(t *testing.T) { manifest.remove(t) }, "which keeps the state of the server's TPM, is not there"},
	} {
		t.Run(name, func(t *testing.T) {
			spoil.how(t)
			require.NoError(t, c.tryUnshelve(t, id))
			why := c.refusedBecause(t, id)
			require.Contains(t, why, "restore_tpm: ")
			require.Contains(t, why, spoil.says)
			c.becomes(t, id, "SHELVED_OFFLOADED")
			require.Empty(t, c.audit(t).Findings)
			require.Len(t, c.keptAs(t, id), 3)
			require.Equal(t, manifest.name, c.systemMetadata(t, id, compute.SystemTPMObject))
			require.Contains(t, strings.Join(c.objectsOf(t, s), "\n"), part, "what is kept of it stays")
			if name == "another" {
				other.remove(t)
			}
			segment.write(t, data)
			manifest.write(t, described)
		})
	}

	img := c.keptAs(t, id)[0]
	set := func(version, model string) {
		_, err := images.Update(t.Context(), c.imageService(t, "-demo"), img.ID, images.UpdateOpts{
			images.UpdateImageProperty{Op: images.ReplaceOp, Name: "hw_tpm_version", Value: version},
			images.UpdateImageProperty{Op: images.ReplaceOp, Name: "hw_tpm_model", Value: model},
		}).Extract()
		require.NoError(t, err)
	}
	set("1.2", "tpm-tis")
	err := c.tryUnshelve(t, id)
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusConflict), "%v", err)
	require.ErrorContains(t, err, "asks for a vTPM 1.2 (tpm-tis), and the state that is kept is that of a vTPM 2.0 (tpm-crb)")
	c.becomes(t, id, "SHELVED_OFFLOADED")
	set("2.0", "tpm-crb")
	c.unshelve(t, id)
	c.counts(t, id, 1, 2, 2)
	c.delete(t, id)
	c.nothingIsLeft(t)
}

// requireEncryptedState requires that a tar has the files of a vTPM's state, each of which swtpm encrypted.
func requireEncryptedState(t *testing.T, data []byte, laid files) {
	t.Helper()
	found := 0
	archive := tar.NewReader(bytes.NewReader(data))
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		name := strings.TrimSuffix(header.Name, "/")
		was, ok := laid[name]
		require.True(t, ok, name)
		require.Equal(t, was.Mode.Perm(), header.FileInfo().Mode().Perm(), name)
		found++
		if header.Typeflag != tar.TypeReg {
			continue
		}
		text, err := io.ReadAll(archive)
		require.NoError(t, err)
		sum := sha256.Sum256(text)
		require.Equal(t, was.SHA256, hex.EncodeToString(sum[:]), name)
		// swtpm's blobheader: two versions, the header's size, flags, of which the first says that it is encrypted.
		require.NotZero(t, binary.BigEndian.Uint16(text[4:])&1, name)
	}
	require.Len(t, laid, found)
}

// TPM-12, TPM-38: a server that is made of a shelved one's image has a TPM of its own, also
// where the image names the object that has the other's, and goes on when the shelved one is
// deleted.
func TestServerOfAShelvedOnesImage(t *testing.T) {
	backends(t, local, openStack)
	c := sharedCloud(t)
	id := c.create(t, encryptedTPM)
	c.becomes(t, id, "ACTIVE")
	c.console(t, id, "nvcount=1", 1)
	c.shelve(t, id)
	var root string
	for _, img := range c.keptAs(t, id) {
		if strings.HasSuffix(img.Name, "-shelved") {
			root = img.ID
		}
	}
	_, err := images.Update(t.Context(), c.imageService(t, "-demo"), root, images.UpdateOpts{
		images.UpdateImageProperty{Op: images.AddOp, Name: "tpm_object_id", Value: c.systemMetadata(t, id, "tpm_object_id")},
		images.UpdateImageProperty{Op: images.AddOp, Name: "tpm_object_sha256", Value: c.systemMetadata(t, id, "tpm_object_sha256")},
	}).Extract()
	require.NoError(t, err)
	other := c.createOf(t, encryptedTPM, root)
	c.becomes(t, other, "ACTIVE")
	require.Empty(t, c.systemMetadata(t, other, "tpm_object_id")+c.systemMetadata(t, other, "tpm_object_sha256"))
	log := c.console(t, other, "TG ready", 1)
	require.Contains(t, log, "rootdisk boots=2")
	require.Contains(t, log, "nvcount=1")
	c.delete(t, id)
	c.shutOff(t, other)
	c.startAgain(t, other)
	c.delete(t, other)
	c.nothingIsLeft(t)
}

// keepsShelvedServers starts the api again with a configuration by which shelved servers stay
// on their hosts, until the test ends.
func (c *testCloud) keepsShelvedServers(t *testing.T) {
	t.Helper()
	c.configured(t, "api", "api", map[string]any{"shelved_offload_time": -1})
}

// TPM-24, TPM-32: one that stays on its host until it is offloaded is just started; deleted
// in any of these states it leaves nothing.
func TestShelvedServerThatStays(t *testing.T) {
	backends(t, openStack, local)
	c := ownCloud(t)
	c.keepsShelvedServers(t)
	stays := func(t *testing.T, id string) {
		t.Helper()
		require.NoError(t, servers.Shelve(t.Context(), c.compute(t, "-demo"), id).ExtractErr())
		s := c.becomes(t, id, "SHELVED")
		require.NotEmpty(t, s.HostID)
		require.Empty(t, c.audit(t).Findings)
	}
	id := c.create(t, encryptedTPM)
	c.becomes(t, id, "ACTIVE")
	c.console(t, id, "nvcount=1", 1)
	stays(t, id)
	c.unshelve(t, id)
	log := c.console(t, id, "TG ready", 2)
	require.Contains(t, log, "nvcount=2")
	require.Empty(t, c.keptAs(t, id))
	require.Empty(t, c.systemMetadata(t, id, "tpm_object_id")+c.systemMetadata(t, id, "tpm_object_sha256"))
	require.Empty(t, c.objectsOf(t, c.settled(t, id)))
	c.nothingIsLeft(t)

	stays(t, id)
	c.delete(t, id)
	c.nothingIsLeft(t)

	id = c.createIdle(t, encryptedTPM)
	c.becomes(t, id, "ACTIVE")
	stays(t, id)
	err := servers.ShelveOffload(t.Context(), c.compute(t, "-demo"), id).ExtractErr()
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusForbidden), "%v", err)
	require.NoError(t, servers.ShelveOffload(t.Context(), c.compute(t, ""), id).ExtractErr())
	c.becomes(t, id, "SHELVED_OFFLOADED")
	require.Empty(t, c.audit(t).Findings)
	require.NoError(t, servers.ResetState(t.Context(), c.compute(t, ""), id, servers.StateError).ExtractErr())
	c.delete(t, id)
	c.nothingIsLeft(t)
}

// Workers die in the middle of shelves and unshelves of one server.
func TestKillMatrixShelve(t *testing.T) {
	backends(t, local, openStack)
	c := ownCloud(t)
	id := c.create(t, encryptedTPM)
	c.becomes(t, id, "ACTIVE")
	c.console(t, id, "TG ready", 1)
	boots := 1
	shelves, unshelves := cutsOf("shelve", cuts.shelve), cutsOf("unshelve", cuts.unshelve)
	for i := range max(len(shelves), len(unshelves)) {
		shelve, unshelve := shelves[i%len(shelves)], unshelves[i%len(unshelves)]
		t.Run(shelve+" and "+unshelve, func(t *testing.T) {
			t.Run("shelve", func(t *testing.T) {
				c.arm(t, shelve)
				c.shelve(t, id)
			})
			require.Empty(t, c.audit(t).Findings)
			t.Run("unshelve", func(t *testing.T) {
				c.arm(t, unshelve)
				c.unshelve(t, id)
			})
			require.Empty(t, c.audit(t).Findings)
			boots++
			log := c.console(t, id, "TG ready", 1)
			require.Contains(t, log, fmt.Sprintf("nvcount=%d", boots))
			require.Contains(t, log, fmt.Sprintf("rootdisk boots=%d", boots))
		})
	}
	c.delete(t, id)
	c.nothingIsLeft(t)
}

// Parts of a shelve, or of an unshelve on another host, die in the middle of it, or the hosts' network is cut. It
// settles: the server is shelved, or runs once, with its disk and its TPM as they were, and no other host has
// anything of it.
func TestKillMatrixShelveBetweenHosts(t *testing.T) {
	backends(t, local, openStack)
	c := twoHosts(t)
	m := &mover{testCloud: c, from: c.Host(1), to: c.Host(2)}
	m.id = c.on(t, m.from, func() string { return c.create(t, delegated) })
	oneCopyAtMost(t, m.id)
	shelves := troublesOf("parts of a shelve", nil, []string{control, "temporal", gateway, network, sourceWorker, sourceLibvirt},
		[]string{"domain.Stop", "disk.Export", "image.Upload"}, 2)
	unshelves := troublesOf("parts of an unshelve", nil, []string{control, "temporal", gateway, network, destinationWorker, destinationLibvirt},
		[]string{"disk.Restore", "tpm.Restore", "domain.Start"}, 2)
	for i := range max(len(shelves), len(unshelves)) {
		shelve, unshelve := shelves[i%len(shelves)], unshelves[i%len(unshelves)]
		t.Run(shelve+", "+unshelve, func(t *testing.T) {
			m.writes(t)
			m.isShelved(t, shelve)
			m.isUnshelved(t, unshelve)
		})
	}
	c.delete(t, m.id)
	for _, h := range []stack.Host{m.from, m.to} {
		c.hasNothing(t, h, m.id)
	}
	c.nothingIsLeft(t)
}

// isShelved shelves the server, which meets trouble. Where that is undone, it is asked for once more.
func (m *mover) isShelved(t *testing.T, point string) {
	t.Helper()
	ask := func() error { return servers.Shelve(t.Context(), m.compute(t, "-demo"), m.id).ExtractErr() }
	strike := m.meets(t, point, m.from, m.to, m.progress(m.id))
	require.NoError(t, ask())
	strike()
	if m.settles(t, point, "SHELVED_OFFLOADED", "ACTIVE") == "ACTIVE" {
		m.isBack(t, m.note, m.counted)
		require.NoError(t, ask())
		m.becomes(t, m.id, "SHELVED_OFFLOADED")
	}
	m.hasNothingSoon(t, m.from, m.id)
	m.nothingIsLeftInTime(t)
}

// isUnshelved unshelves the server on the other host, as isShelved shelves it.
func (m *mover) isUnshelved(t *testing.T, point string) {
	t.Helper()
	strike := m.meets(t, point, m.from, m.to, m.progress(m.id))
	m.unshelveTo(t, m.to, m.id)
	strike()
	if m.settles(t, point, "ACTIVE", "SHELVED_OFFLOADED") == "SHELVED_OFFLOADED" {
		m.hasNothingSoon(t, m.to, m.id)
		m.unshelveTo(t, m.to, m.id)
		m.becomes(t, m.id, "ACTIVE")
	}
	m.from, m.to = m.to, m.from
	m.isBack(t, m.note, m.counted)
	require.Empty(t, m.keptAs(t, m.id))
}

// The gateway, through which disks, the state of the TPM and passphrases go, is killed when a host is
// about to use it, while it does, and before anybody knows that it has: it comes back, and shelve and
// unshelve are completed.
func TestKillMatrixShelveThroughTheGateway(t *testing.T) {
	backends(t, openStack, local)
	c := ownCloud(t)
	id := c.create(t, encryptedTPM)
	c.becomes(t, id, "ACTIVE")
	c.console(t, id, "TG ready", 1)
	shelves := killsOf("shelve through the gateway", []string{gateway}, throughout("disk.Export", "image.Upload", "tpm.Save"))
	unshelves := killsOf("unshelve through the gateway", []string{gateway}, throughout("disk.Restore", "tpm.Restore", "domain.Start"))
	boots := 1
	for i, shelve := range shelves {
		unshelve := unshelves[i]
		t.Run(shelve.moment+" and "+unshelve.moment, func(t *testing.T) {
			t.Run("shelve", func(t *testing.T) {
				c.killedAt(t, id, shelve, func() { require.NoError(t, servers.Shelve(t.Context(), c.compute(t, "-demo"), id).ExtractErr()) })
				c.becomes(t, id, "SHELVED_OFFLOADED")
			})
			require.Empty(t, c.audit(t).Findings)
			t.Run("unshelve", func(t *testing.T) {
				c.killedAt(t, id, unshelve, func() { require.NoError(t, c.tryUnshelve(t, id)) })
				c.becomes(t, id, "ACTIVE")
			})
			require.Empty(t, c.audit(t).Findings)
			boots++
			log := c.console(t, id, "TG ready", 1)
			require.Contains(t, log, fmt.Sprintf("nvcount=%d", boots))
			require.Contains(t, log, fmt.Sprintf("rootdisk boots=%d", boots))
		})
	}
	c.delete(t, id)
	c.nothingIsLeft(t)
}

// during is the moment when an activity works.
const during = "@during"

// throughout gives moments of activities: before, during and after each.
func throughout(activities ...string) (moments []string) {
	for _, activity := range activities {
		moments = append(moments, activity+before, activity+during, activity+after)
	}
	return moments
}

// killedAt kills a part when the operation on a server that is asked for has come to a moment. During an
// activity it is within a second after its begin: at another point of its work each time.
func (c *testCloud) killedAt(t *testing.T, id string, k killOf, ask func()) {
	t.Helper()
	activity, inTheMiddle := strings.CutSuffix(k.moment, during)
	point := k.moment
	if inTheMiddle {
		point = activity + before
	}
	at := c.hold(t, point)
	ask()
	at.waits(t, c.progress(id))
	if inTheMiddle {
		at.release()
		someMoment(t, k.part+k.moment)
	}
	c.kill(t, k.part)
	at.release()
}

// A shelve that is cancelled leaves the server as it ran; a delete that finds it at work
// leaves nothing.
func TestKillMatrixCancelledShelve(t *testing.T) {
	backends(t, openStack, local)
	c := ownCloud(t)
	id := c.create(t, encryptedTPM)
	c.becomes(t, id, "ACTIVE")
	c.console(t, id, "TG ready", 1)
	demo := c.compute(t, "-demo")
	point := c.hold(t, "tpm.Save@after")
	require.NoError(t, servers.Shelve(t.Context(), demo, id).ExtractErr())
	point.waits(t, c.progress(id))
	c.arm(t, "image.Remove.image@before")
	c.cancelOperation(t, id)
	point.release()
	c.becomes(t, id, "ACTIVE")
	log := c.console(t, id, "TG ready", 2)
	require.Contains(t, log, "nvcount=2")
	require.Empty(t, c.keptAs(t, id))
	require.Empty(t, c.audit(t).Findings)

	for _, at := range []string{"image.Upload@after", "tpm.Remove.tpm_state@before"} {
		point := c.hold(t, at)
		require.NoError(t, servers.Shelve(t.Context(), demo, id).ExtractErr())
		point.waits(t, c.progress(id))
		require.NoError(t, servers.Delete(t.Context(), demo, id).ExtractErr())
		point.release()
		c.gone(t, id)
		c.nothingIsLeft(t)
		id = c.createIdle(t, encryptedTPM)
		c.becomes(t, id, "ACTIVE")
	}
	c.shelve(t, id)
	point = c.hold(t, "domain.Start@before")
	require.NoError(t, c.tryUnshelve(t, id))
	point.waits(t, c.progress(id))
	require.NoError(t, servers.Delete(t.Context(), demo, id).ExtractErr())
	point.release()
	c.gone(t, id)
	c.nothingIsLeft(t)
}

// Nobody may say where a server is to be but an administrator, and only where it can be.
func TestUnshelveTargets(t *testing.T) {
	backends(t, local, openStack)
	c := sharedCloud(t)
	id := c.createIdle(t, encryptedTPM)
	c.becomes(t, id, "ACTIVE")
	c.shelve(t, id)
	to := func(user, body string) error {
		client := *c.compute(t, user)
		client.Microversion = "2.91"
		resp, err := client.Post(t.Context(), client.ServiceURL("servers", id, "action"), map[string]any{"unshelve": json.RawMessage(body)}, nil,
			&gophercloud.RequestOpts{OkCodes: []int{http.StatusAccepted}})
		if err == nil {
			err = resp.Body.Close()
		}
		return err
	}
	for body, code := range map[string]int{
		`{"availability_zone": "moon"}`: http.StatusBadRequest, `{"zone": "nova"}`: http.StatusBadRequest, `{"host": "any"}`: http.StatusForbidden,
	} {
		err := to("-demo", body)
		require.True(t, gophercloud.ResponseCodeIs(err, code), "%s: %v", body, err)
	}
	err := to("", `{"host": "`+uuid.NewString()+`"}`)
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusBadRequest), "%v", err)
	require.NoError(t, to("-demo", `{"availability_zone": "nova"}`))
	c.becomes(t, id, "ACTIVE")
	c.delete(t, id)
}
