package integration_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/imagedata"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/stretchr/testify/require"
)

// asked is a flavor that leaves encryption and vTPM to the image.
var asked = flavorSpec{"e2e-asked", 192, 1, 0, 0, nil}

// What images of rebuilds ask for.
var (
	asksNothing map[string]string
	asksLUKS    = map[string]string{"hw_ephemeral_encryption": "true"}
	asksCRB     = map[string]string{"hw_tpm_version": "2.0", "hw_tpm_model": "tpm-crb"}
	asksTIS     = map[string]string{"hw_tpm_version": "2.0"}
	asks12      = map[string]string{"hw_tpm_version": "1.2"}
)

// guestAsking uploads the tiny guest once more, as an image of the project demo that
// asks for something. It is deleted when the test ends, or by what comes back.
func (c *testCloud) guestAsking(t *testing.T, properties map[string]string) (id string, remove func()) {
	t.Helper()
	return c.imageAsking(t, c.guest, properties)
}

// imageAsking is guestAsking for the image in a file.
func (c *testCloud) imageAsking(t *testing.T, file string, properties map[string]string) (id string, remove func()) {
	t.Helper()
	store := c.imageService(t, "-demo")
	img, err := images.Create(t.Context(), store, images.CreateOpts{
		Name: askingImage, DiskFormat: "qcow2", ContainerFormat: "bare", Properties: properties,
	}).Extract()
	require.NoError(t, err)
	remove = func() { _ = images.Delete(context.Background(), store, img.ID).ExtractErr() }
	t.Cleanup(remove)
	data, err := os.Open(file)
	require.NoError(t, err)
	defer func() { _ = data.Close() }()
	require.NoError(t, imagedata.Upload(t.Context(), store, img.ID, data).ExtractErr())
	return img.ID, remove
}

func (c *testCloud) tryRebuild(t *testing.T, user, id, image string) error {
	t.Helper()
	_, err := servers.Rebuild(t.Context(), c.compute(t, user), id, servers.RebuildOpts{ImageRef: image}).Extract()
	return err
}

// rebuild rebuilds a server of the project demo, and requires how it then is.
func (c *testCloud) rebuild(t *testing.T, id, image, status string) {
	t.Helper()
	require.NoError(t, c.tryRebuild(t, "-demo", id, image))
	s := c.becomes(t, id, status)
	require.Equal(t, image, s.Image["id"], "it failed: %s", c.newestAction(t, id).Message)
	require.Empty(t, c.audit(t).Findings)
}

// notRebuilt requires that a rebuild failed and that the server is as it was.
func (c *testCloud) notRebuilt(t *testing.T, id, status string) {
	t.Helper()
	s := c.becomes(t, id, status)
	require.Equal(t, c.image, s.Image["id"])
	require.Equal(t, "Error", c.newestAction(t, id).Message)
	require.Empty(t, c.audit(t).Findings)
}

// keyNames are the names of the server's secrets, those of one thing.
func keyNames(passphrases map[string][]byte, server, thing string) []string {
	var out []string
	for name := range passphrases {
		if strings.HasPrefix(name, "strongroom server "+server+" "+thing+" ") {
			out = append(out, name)
		}
	}
	return out
}

// TPM-29, EE-09: an encrypted server with a vTPM is made anew: its disks have new
// keys and nothing of what was on them, its vTPM is what it was.
func TestRebuildKeepsTheTPM(t *testing.T) {
	backends(t, local, openStack)
	c := ownCloud(t)
	id, _ := c.noted(t, encryptedTPM, c.image)
	require.Contains(t, c.console(t, id, "TG ready", 1), "nvcount=1")
	image, remove := c.guestAsking(t, asksNothing)
	before := c.passphrases(t)
	c.rebuild(t, id, image, "ACTIVE")
	log := c.console(t, id, "TG ready", 2)
	require.Contains(t, log, "nvcount=2", "the TPM kept its NV memory")
	require.NotContains(t, log, "boots=2", "the disk is another one")
	requireEncrypted(t, c, id, c.diskFiles(t, id, 3))
	after := c.passphrases(t)
	require.Len(t, after, len(before))
	for _, disk := range []string{"disk root", "disk ephemeral0", "disk swap"} {
		require.NotEqual(t, keyNames(before, id, disk), keyNames(after, id, disk))
		require.Len(t, keyNames(after, id, disk), 1, "the old key is gone")
	}
	require.Equal(t, keyNames(before, id, "vtpm"), keyNames(after, id, "vtpm"))

	// What is stopped is stopped again, and starts.
	c.tell(t, id, "write note again-"+id, "TG write ")
	c.shutOff(t, id)
	c.rebuild(t, id, c.image, "SHUTOFF")
	c.startAgain(t, id)
	line := c.serial(t, id)
	line.expect("TG tick=")
	require.NotContains(t, line.ask("cat note", "TG cat "), "again-"+id)
	require.NoError(t, line.conn.Close())
	had := c.newestCount(t, id)
	require.GreaterOrEqual(t, had, 3)

	// K20: no start takes the server once the state of its vTPM is gone, and a rebuild gives it a new one.
	c.shutOff(t, id)
	require.NoError(t, os.RemoveAll(c.tpmFolder(id)))
	require.NoError(t, servers.Start(t.Context(), c.compute(t, "-demo"), id).ExtractErr())
	require.Equal(t, "SHUTOFF", c.settled(t, id).Status)
	require.Contains(t, c.toldWhy(t, id, "").Message, "its TPM state is not on this host")
	require.NoDirExists(t, c.tpmFolder(id))
	c.rebuild(t, id, c.image, "SHUTOFF")
	require.Contains(t, c.newestAction(t, id).Message, "was not on its host any more: it is new and empty")
	c.startAgain(t, id)
	c.tell(t, id, "write note new-"+id, "TG write ")
	require.Less(t, c.newestCount(t, id), had, "the TPM is another one")
	require.Equal(t, keyNames(before, id, "vtpm"), keyNames(c.passphrases(t), id, "vtpm"))
	c.delete(t, id)
	remove()
	c.nothingIsLeft(t)
}

// newestCount is how often a guest that is up has counted in its TPM, by its console log.
func (c *testCloud) newestCount(t *testing.T, id string) int {
	t.Helper()
	said := regexp.MustCompile(`nvcount=([0-9]+)`).FindAllStringSubmatch(c.console(t, id, "nvcount=", 1), -1)
	n, err := strconv.Atoi(said[len(said)-1][1])
	require.NoError(t, err)
	return n
}

// diskFiles are the names of a server's disks.
func (c *testCloud) diskFiles(t *testing.T, id string, n int) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(c.Instances(), id, "disk*"))
	require.NoError(t, err)
	require.Len(t, paths, n, "%v", paths)
	for i := range paths {
		paths[i] = filepath.Base(paths[i])
	}
	return paths
}

// EE-34: to other encryption and back, by the owner and nobody else.
func TestRebuildToOtherEncryption(t *testing.T) {
	backends(t, local, openStack)
	c := ownCloud(t)
	id, _ := c.noted(t, asked, c.image)
	luks, remove := c.guestAsking(t, asksLUKS)
	require.Empty(t, keyNames(c.passphrases(t), id, "disk root"))
	refused := func(image string) {
		t.Helper()
		for _, user := range []string{"", "-admin"} { // of the project, and of another one
			err := c.tryRebuild(t, user, id, image)
			require.True(t, gophercloud.ResponseCodeIs(err, http.StatusForbidden) || user == "-admin" && gophercloud.ResponseCodeIs(err, http.StatusBadRequest), "%q: %v", user, err)
			require.Equal(t, "ACTIVE", c.settled(t, id).Status)
		}
	}
	refused(luks)
	c.rebuild(t, id, luks, "ACTIVE")
	c.console(t, id, "TG ready", 2)
	requireEncrypted(t, c, id, c.diskFiles(t, id, 1))
	require.Len(t, keyNames(c.passphrases(t), id, "disk root"), 1)
	refused(c.image)

	// An encrypted image, with what the guest wrote.
	c.tell(t, id, "write note sealed-"+id, "TG write ")
	sealed := c.createImage(t, id, "sealed", map[string]any{"key": "new"})
	c.rebuild(t, id, c.image, "ACTIVE")
	c.console(t, id, "TG ready", 3)
	require.Empty(t, keyNames(c.passphrases(t), id, "disk root"), "the old key is gone")
	c.rebuild(t, id, sealed.ID, "ACTIVE")
	require.Contains(t, c.tell(t, id, "cat note", "TG cat "), "sealed-"+id)
	require.Len(t, keyNames(c.passphrases(t), id, "source of disk root"), 1)
	require.Len(t, c.cachedImages(t), 1)
	c.rebuild(t, id, luks, "ACTIVE")
	require.Empty(t, keyNames(c.passphrases(t), id, "source of disk root"))
	require.Empty(t, c.cachedImages(t))
	c.delete(t, id)
	c.deleteImage(t, sealed)
	remove()
	c.nothingIsLeft(t)
}

// TPM-29: none and asked for, the same, another, none any more, and a fresh one.
func TestRebuildAndTheTPM(t *testing.T) {
	backends(t, openStack, local)
	c := ownCloud(t)
	id := c.createOf(t, asked, c.image)
	c.becomes(t, id, "ACTIVE")
	require.Contains(t, c.console(t, id, "TG ready", 1), "TG tpm none")
	crb, removeCRB := c.guestAsking(t, asksCRB)
	old, removeOld := c.guestAsking(t, asks12)
	boots := 1
	next := func(image string) string {
		t.Helper()
		c.rebuild(t, id, image, "ACTIVE")
		boots++
		log := c.console(t, id, "TG ready", boots)
		return log[strings.LastIndex(log, "TG init"):]
	}
	said := next(crb)
	require.Contains(t, said, "tpm version=2.0 interface=crb")
	require.Contains(t, said, "nvcount=1")
	require.Contains(t, next(crb), "nvcount=2", "kept")
	tis, removeTIS := c.guestAsking(t, asksTIS)
	for _, other := range []string{old, tis} { // another version, another model
		err := c.tryRebuild(t, "-demo", id, other)
		require.True(t, gophercloud.ResponseCodeIs(err, http.StatusConflict), "%v", err)
		require.ErrorContains(t, err, "a rebuild keeps the vTPM and cannot change it")
	}
	removeTIS()
	require.Equal(t, "ACTIVE", c.settled(t, id).Status)
	require.Contains(t, next(c.image), "TG tpm none")
	require.Empty(t, keyNames(c.passphrases(t), id, "vtpm"))
	require.Contains(t, next(crb), "nvcount=1", "a fresh one")
	c.delete(t, id)
	removeCRB()
	removeOld()
	c.nothingIsLeft(t)
}

// A rebuild that fails leaves the old disk and the old vTPM: before the server is
// shut down, and after that.
func TestRebuildThatFails(t *testing.T) {
	backends(t, local, openStack)
	c := ownCloud(t)
	id, note := c.noted(t, encryptedTIS, c.image)
	boots := 1
	intact := func() {
		t.Helper()
		require.Contains(t, c.tell(t, id, "cat note", "TG cat "), note)
		require.Contains(t, c.console(t, id, "TG ready", boots), "nvcount=1")
	}
	if c.real == nil { // the store's own file is damaged
		image, remove := c.guestAsking(t, asksNothing)
		files, err := filepath.Glob(filepath.Join(c.State, "images", image+".*"))
		require.NoError(t, err)
		for _, f := range files {
			if !strings.HasSuffix(f, ".json") {
				damage(t, f)
			}
		}
		require.NoError(t, c.tryRebuild(t, "-demo", id, image))
		c.notRebuilt(t, id, "ACTIVE")
		intact()
		remove()
	}
	image, remove := c.guestAsking(t, asksNothing)
	for _, state := range []string{"ACTIVE", "SHUTOFF"} {
		if state == "SHUTOFF" {
			c.shutOff(t, id)
		}
		start := c.hold(t, "domain.Start@before")
		require.NoError(t, c.tryRebuild(t, "-demo", id, image))
		c.reaches(t, id, "start_domain")
		start.waits(t, c.progress(id))
		for _, name := range c.diskFiles(t, id, 2) { // the old one and the new one
			if name != "disk" {
				require.NoError(t, os.Remove(filepath.Join(c.Instances(), id, name)))
			}
		}
		start.release()
		c.notRebuilt(t, id, state)
		if state == "SHUTOFF" {
			c.startAgain(t, id)
		}
		boots++
		intact()
		c.diskFiles(t, id, 1)
	}
	c.delete(t, id)
	remove()
	c.nothingIsLeft(t)
}

// damage changes a file's last byte.
func damage(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	size, err := f.Seek(-1, 2)
	require.NoError(t, err)
	b := make([]byte, 1)
	_, err = f.ReadAt(b, size)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte{b[0] ^ 1}, size)
	require.NoError(t, err)
}

// EE-30: an administrator without the keys cannot rebuild what is encrypted, and
// does not even stop it.
func TestRebuildByAnAdministratorWithoutTheKeys(t *testing.T) {
	backends(t, openStack, local)
	c := ownCloud(t)
	id := c.create(t, encryptedTIS)
	c.becomes(t, id, "ACTIVE")
	c.console(t, id, "TG ready", 1)
	err := c.tryRebuild(t, "-admin", id, c.image)
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusForbidden), "%v", err)
	require.ErrorContains(t, err, "only a token of that project can make new ones")
	require.Equal(t, "ACTIVE", c.settled(t, id).Status)

	tpmOnly := c.createOf(t, tpmAlone, c.image) // no new keys are needed, but the vTPM's is
	c.becomes(t, tpmOnly, "ACTIVE")
	c.console(t, tpmOnly, "TG ready", 1)
	require.NoError(t, c.tryRebuild(t, "-admin", tpmOnly, c.image), "the request itself is allowed")
	c.notRebuilt(t, tpmOnly, "ACTIVE")
	c.namesTheRole(t, c.refusedBecause(t, tpmOnly))
	require.NotContains(t, c.console(t, tpmOnly, "TG ready", 1), "boots=2", "it was not stopped")
	c.delete(t, id)
	c.delete(t, tpmOnly)
	c.nothingIsLeft(t)
}

func TestKillMatrixRebuild(t *testing.T) {
	backends(t, local, openStack)
	eachPoint(t, cutsOf("rebuild", cuts.rebuild), func(t *testing.T, c *testCloud, point string) {
		id := c.createIdle(t, encryptedTIS)
		c.becomes(t, id, "ACTIVE")
		c.arm(t, point)
		require.NoError(t, c.tryRebuild(t, "-demo", id, c.idler))
		c.becomes(t, id, "ACTIVE")
		require.Empty(t, c.newestAction(t, id).Message, "a worker that comes back completes it")
		require.NotEqual(t, []string{"disk"}, c.diskFiles(t, id, 1))
		c.nothingIsLeft(t)
		c.delete(t, id)
		c.nothingIsLeft(t)
	})
}

// Delete wins over a rebuild wherever it is, before the decision and after.
func TestDeleteOfAServerBeingRebuilt(t *testing.T) {
	backends(t, local, openStack)
	c := ownCloud(t)
	for _, event := range stepsOf("rebuild", []string{"check_secrets", "create_disks", "stop_domain", "start_domain", "remove_old"}) {
		id := c.createIdle(t, encryptedTIS)
		c.becomes(t, id, "ACTIVE")
		require.NoError(t, c.tryRebuild(t, "-demo", id, c.idler))
		c.reaches(t, id, event)
		c.delete(t, id)
		c.nothingIsLeft(t)
	}
}
