package integration_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/stretchr/testify/require"
)

// createBackup makes a backup of a server, of which one of the type is kept.
func (c *testCloud) createBackup(t *testing.T, server string) *images.Image {
	t.Helper()
	return c.whole(t, server, c.postForImage(t, server, "createBackup", map[string]any{"name": "nightly", "backup_type": "daily", "rotation": 1}))
}

// backups gives the ids of a server's backups, and how many keys they have.
func (c *testCloud) backups(t *testing.T, server string) (ids []string, keys int) {
	t.Helper()
	pages, err := images.List(c.imageService(t, "-demo"), images.ListOpts{}).AllPages(t.Context())
	require.NoError(t, err)
	all, err := images.ExtractImages(pages)
	require.NoError(t, err)
	for _, img := range all {
		if img.Properties["image_type"] == "backup" && img.Properties["instance_uuid"] == server {
			ids = append(ids, img.ID)
		}
	}
	for name := range c.passphrases(t) {
		if strings.HasPrefix(name, "strongroom image ") {
			keys++
		}
	}
	return ids, keys
}

// EE-22, TPM-28: a backup has the server's key in a secret of its own; the one
// before goes, and its key with it. Neither a backup nor an image of a server has
// anything of its TPM, which goes on as if nothing had been.
func TestBackupsOfAServer(t *testing.T) {
	backends(t, openStack, local)
	c := ownCloud(t)
	id := c.create(t, encryptedTIS)
	s := c.becomes(t, id, "ACTIVE")
	line := c.serial(t, id)
	line.expect("TG tick=")
	note := "note-" + id
	require.Contains(t, line.ask("write note "+note, "TG write "), "err=<nil>")
	require.NoError(t, line.conn.Close())
	own := ownPassphrase(t, c, id)

	_, before := c.backups(t, id) // keys of other tests' images are not theirs to remove
	first := c.createBackup(t, id)
	require.Equal(t, "daily", first.Properties["backup_type"])
	require.Equal(t, "LUKSv1", first.Properties["os_encrypt_format"])
	for property := range first.Properties {
		require.NotContains(t, property, "tpm_")
	}
	require.True(t, bytes.Equal(own, keyOf(t, first, c.passphrases(t))))
	second := c.createBackup(t, id)
	left, keys := c.backups(t, id)
	require.Equal(t, []string{second.ID}, left)
	require.Equal(t, before+1, keys)
	c.deleteImage(t, c.createImage(t, id, "once", nil))
	require.Empty(t, c.objectsOf(t, s), "no state of a TPM is stored")
	require.Empty(t, c.audit(t).Findings)

	client := c.compute(t, "-demo")
	require.NoError(t, servers.Stop(t.Context(), client, id).ExtractErr())
	c.becomes(t, id, "SHUTOFF")
	require.NoError(t, servers.Start(t.Context(), client, id).ExtractErr())
	c.becomes(t, id, "ACTIVE")
	require.Contains(t, c.console(t, id, "TG ready", 2), "nvcount=2", "the TPM kept its NV memory")

	c.delete(t, id)
	file := c.download(t, second.ID)
	require.NoError(t, opens(t, file, own, note))
	require.NoError(t, os.Remove(file))
	c.deleteImage(t, second)
	c.nothingIsLeft(t)
}

// Workers die in the middle of images and backups of one server, which goes on.
func TestKillMatrixImages(t *testing.T) {
	everywhere(t)
	c := ownCloud(t)
	id := c.createIdle(t, encryptedTIS)
	c.becomes(t, id, "ACTIVE")
	each := func(points []string, run func()) {
		for _, point := range points {
			t.Run(point, func(t *testing.T) {
				c.arm(t, point)
				run()
				require.Empty(t, c.audit(t).Findings)
			})
		}
	}
	each(cutsOf("image", cuts.image), func() { c.deleteImage(t, c.createImage(t, id, "cut", nil)) })
	last := c.createBackup(t, id)
	each(cutsOf("backup", cuts.backup), func() {
		last = c.createBackup(t, id)
		left, _ := c.backups(t, id)
		require.Equal(t, []string{last.ID}, left)
	})
	c.deleteImage(t, last)
	c.delete(t, id)
	c.nothingIsLeft(t)
}

// An image that is under way when its server is deleted goes with it, and what
// takes it away may die meanwhile.
func TestKillMatrixCancelledImage(t *testing.T) {
	backends(t, local, openStack)
	t.Parallel()
	for held, armed := range map[string]string{"domain.Export@after": "disk.Remove.disk_file@before", "image.Upload@before": "image.Remove.image@after"} {
		t.Run(held, func(t *testing.T) {
			c := ownCloud(t)
			id := c.createIdle(t, encryptedTIS)
			c.becomes(t, id, "ACTIVE")
			point := c.hold(t, held)
			image := c.askForImage(t, id, "createImage", map[string]any{"name": "cut"})
			point.waits(t, c.progress(id))
			c.arm(t, armed)
			require.NoError(t, servers.Delete(t.Context(), c.compute(t, "-demo"), id).ExtractErr())
			c.gone(t, id)
			_, err := images.Get(t.Context(), c.imageService(t, "-demo"), image).Extract()
			require.Error(t, err)
			c.nothingIsLeft(t)
		})
	}
}
