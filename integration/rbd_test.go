package integration_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/instanceactions"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/secrets"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/cloud/cloudtest"
)

// pooledFlavor has a root disk of the image's size: all of an image is copied to a
// pool, and all of a disk to an image.
var pooledFlavor = flavorSpec{"e2e-rbd", 128, 0, 1, 64, map[string]string{"hw:ephemeral_encryption": "true"}}

// poolCloud is a cloud whose host keeps its servers' disks in a Ceph pool.
type poolCloud struct {
	*testCloud
	ceph cloudtest.Pool
}

// startPoolCloud starts one for the test alone.
func startPoolCloud(t *testing.T) poolCloud {
	t.Helper()
	t.Parallel()
	needRoot(t)
	ownClouds.borrow(t, alone, 1)
	p := cloudtest.StartPool(t)
	c, err := startCloud("rbd", "STRONGROOM_HOST__RBD__POOL="+p.Name, "STRONGROOM_HOST__RBD__USER="+p.User,
		"STRONGROOM_HOST__RBD__CONF="+p.Conf, "STRONGROOM_HOST__RBD__KEYRING="+p.Keyring)
	if c != nil {
		t.Cleanup(c.end)
	}
	require.NoError(t, err)
	return poolCloud{c, p}
}

func (c poolCloud) rbd(t *testing.T, args ...string) []byte {
	t.Helper()
	out, err := exec.Command("rbd", append(args, "--conf", c.ceph.AdminConf)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return out
}

// pooled lists what is in the pool.
func (c poolCloud) pooled(t *testing.T) (names []string) {
	t.Helper()
	require.NoError(t, json.Unmarshal(c.rbd(t, "ls", "--format", "json", c.ceph.Name), &names))
	return names
}

// EE-21, and the rbd back end that it is about: a server whose disks are in a Ceph pool
// lives there, encrypted; images of it are made with any key but a new one, which fails
// with a word that says why, leaves the server as it was, and no image.
func TestServersOnRBD(t *testing.T) {
	backends(t, local, openStack)
	c := startPoolCloud(t)
	id, note := c.noted(t, pooledFlavor, c.image)
	require.ElementsMatch(t, []string{id + "_disk", id + "_disk.eph0", id + "_disk.swap"}, c.pooled(t))
	require.Empty(t, c.audit(t).Findings)
	c.noSecretIsLent(t, id)
	line := c.serial(t, id)
	for _, device := range []string{"vdb", "vdc"} {
		require.Contains(t, line.ask("write /dev/"+device+" "+note, "TG write "), "err=<nil>")
	}
	require.NoError(t, line.conn.Close())

	same := c.createImage(t, id, "same", map[string]any{"key": "same"})
	c.hasNoNewKey(t, id, "ACTIVE")
	require.NoError(t, servers.Stop(t.Context(), c.compute(t, "-demo"), id).ExtractErr())
	c.becomes(t, id, "SHUTOFF")
	for _, image := range c.pooled(t) {
		file := filepath.Join(t.TempDir(), "image")
		c.rbd(t, "export-diff", "--no-progress", c.ceph.Name+"/"+image, file) // without what is empty
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.True(t, bytes.Contains(text, []byte("LUKS\xba\xbe")), image)
		require.False(t, bytes.Contains(text, []byte(note)), image)
		require.NoError(t, os.Remove(file))
	}
	c.hasNoNewKey(t, id, "SHUTOFF")
	none := c.createImage(t, id, "none", map[string]any{"key": "none"})
	require.NoError(t, opens(t, c.download(t, none.ID), nil, note))
	c.delete(t, id)
	require.Empty(t, c.pooled(t))
	require.Empty(t, c.audit(t).Findings)

	// Of the image, and with the worker killed when the first of the disks is made.
	c.arm(t, "disk.Create@after")
	again := c.createOf(t, pooledFlavor, same.ID)
	c.becomes(t, again, "ACTIVE")
	require.Contains(t, c.tell(t, again, "cat note", "TG cat "), note)
	require.Len(t, c.pooled(t), 3)
	require.Empty(t, c.audit(t).Findings)
	if c.real != nil { // EE-11: all of the image is in its disk, which the copy of the image's key does not open
		c.shutOff(t, again)
		lost := c.disks(t, again)[0].Backing
		require.NotEmpty(t, lost)
		require.NoError(t, secrets.Delete(t.Context(), c.service(t, "-demo", openstack.NewKeyManagerV1), lost).ExtractErr())
		c.startAgain(t, again)
	}
	c.delete(t, again)
	require.Empty(t, c.pooled(t))
	c.deleteImage(t, same)
	c.deleteImage(t, none)
	c.nothingIsLeft(t)

	keyring, err := os.ReadFile(c.ceph.Keyring)
	require.NoError(t, err)
	key := keyring[bytes.LastIndexByte(bytes.TrimSpace(keyring), ' ')+1:]
	logs, err := filepath.Glob(c.LogFile("*"))
	require.NoError(t, err)
	require.NotEmpty(t, logs)
	for _, file := range logs {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.False(t, bytes.Contains(text, bytes.TrimSpace(key)), file)
	}
}

// hasNoNewKey asks for an image with a new key, in vain.
func (c poolCloud) hasNoNewKey(t *testing.T, id, status string) {
	t.Helper()
	keys, pooled := len(c.passphrases(t)), c.pooled(t)
	image := c.askForImage(t, id, "createImage", map[string]any{"name": "new", "encryption": map[string]any{"key": "new"}})
	c.becomes(t, id, status)
	action := c.newestAction(t, id)
	require.Equal(t, "createImage", action.Action)
	require.Equal(t, "Error", action.Message)
	detail, err := instanceactions.Get(t.Context(), c.compute(t, ""), id, action.RequestID).Extract()
	require.NoError(t, err)
	failed := slices.DeleteFunc(*detail.Events, func(e instanceactions.Event) bool { return e.Result != "Error" })
	require.Len(t, failed, 1)
	for reader, text := range map[string]string{"administrator": failed[0].Traceback, "who asked": c.operations(t, id)} {
		require.Contains(t, text, "encryption.key 'new' is not supported", reader)
		require.Contains(t, text, "the rbd back end, on Ceph 16", reader)
	}
	_, err = images.Get(t.Context(), c.imageService(t, "-demo"), image).Extract()
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusNotFound), "%v", err)
	require.Len(t, c.passphrases(t), keys)
	require.Equal(t, pooled, c.pooled(t))
	c.noSecretIsLent(t, id)
	require.Empty(t, c.audit(t).Findings)
	exports, err := filepath.Glob(filepath.Join(c.Instances(), id, "export.*"))
	require.NoError(t, err)
	require.Empty(t, exports)
}

// operations is what a user of the server's project reads of its operations.
func (c poolCloud) operations(t *testing.T, id string) string {
	t.Helper()
	client := c.compute(t, "-demo")
	client.Microversion = "" // the header below says it
	var shown map[string]any
	response, err := client.Get(t.Context(), client.ServiceURL("servers", id, "operations"), &shown, &gophercloud.RequestOpts{MoreHeaders: extended})
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return fmt.Sprint(shown)
}
