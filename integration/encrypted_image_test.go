package integration_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/imagedata"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/members"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/acls"
	"github.com/stretchr/testify/require"

	"strongroom/activities/secret"
	"strongroom/deploy/cloud/cloudtest"
)

// Flavors that leave the encryption to the image, ask for a vTPM alone, and forbid
// encryption.
var (
	unspoken = flavorSpec{"e2e-unspoken", 128, 1, 0, 0, nil}
	tpmAlone = flavorSpec{"e2e-tpm-alone", 192, 1, 0, 0, map[string]string{"hw:tpm_version": "2.0"}}
	bared    = flavorSpec{"e2e-bared", 128, 1, 0, 0, map[string]string{"hw:ephemeral_encryption": "false"}}
)

// tryCreateOf asks for a server of an image.
func (c *testCloud) tryCreateOf(t *testing.T, user string, f flavorSpec, image string) (string, error) {
	t.Helper()
	client := c.asking(t, user)
	s, err := servers.Create(t.Context(), client, servers.CreateOpts{
		Name: strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-")), FlavorRef: c.flavor(t, f), ImageRef: image, Networks: "none",
	}, nil).Extract()
	if err != nil {
		return "", err
	}
	t.Cleanup(func() {
		_ = servers.Delete(context.Background(), client, s.ID).ExtractErr()
		c.goneAs(t, user, s.ID)
	})
	return s.ID, nil
}

// createOf is tryCreateOf in the project demo that must succeed.
func (c *testCloud) createOf(t *testing.T, f flavorSpec, image string) string {
	t.Helper()
	id, err := c.tryCreateOf(t, "-demo", f, image)
	require.NoError(t, err)
	return id
}

// noted makes a server whose guest has written a note, and gives both.
func (c *testCloud) noted(t *testing.T, f flavorSpec, image string) (id, note string) {
	t.Helper()
	id = c.createOf(t, f, image)
	c.becomes(t, id, "ACTIVE")
	note = "note-" + id
	c.tell(t, id, "write note "+note, "TG write ")
	return id, note
}

// tell types a command for a guest that is up, and gives its answer.
func (c *testCloud) tell(t *testing.T, server, command, answer string) string {
	t.Helper()
	line := c.serial(t, server)
	defer line.conn.Close()
	line.expect("TG tick=")
	said := line.ask(command, answer)
	require.Contains(t, said, "err=<nil>", command)
	return said
}

func (c *testCloud) shutOff(t *testing.T, id string) {
	t.Helper()
	require.NoError(t, servers.Stop(t.Context(), c.compute(t, "-demo"), id).ExtractErr())
	c.becomes(t, id, "SHUTOFF")
}

func (c *testCloud) startAgain(t *testing.T, id string) {
	t.Helper()
	require.NoError(t, servers.Start(t.Context(), c.compute(t, "-demo"), id).ExtractErr())
	c.becomes(t, id, "ACTIVE")
}

// cachedImages lists the files of encrypted images on the host, by their path in
// its cache.
func (c *testCloud) cachedImages(t *testing.T) []string {
	t.Helper()
	root := filepath.Join(c.State, "cache", "encrypted")
	var out []string
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Name() == "image" {
			out = append(out, strings.TrimPrefix(path, root))
		}
		return err
	})
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	return out
}

// EE-11 … EE-13, EE-20, EE-28, TPM-12: servers boot from images that were made with
// each choice of a key, of a running and of a stopped server, after that server is
// gone, though their flavor says nothing of encryption. What the first guest wrote is
// there, and a vTPM is fresh and empty. Images of such servers have no backing file.
func TestServersOfEncryptedImages(t *testing.T) {
	backends(t, openStack, local)
	c := ownCloud(t)
	first, note := c.noted(t, encryptedTIS, c.image)
	require.Contains(t, c.console(t, first, "TG ready", 1), "nvcount=1")
	all := map[string]*images.Image{"new": c.createImage(t, first, "new", map[string]any{"key": "new"})}
	c.shutOff(t, first)
	all["same"] = c.createImage(t, first, "same", nil)
	all["existing"] = c.createImage(t, first, "existing", map[string]any{"key": "existing", "secret_uuid": all["new"].Properties["os_encrypt_key_id"]})
	c.delete(t, first)

	for key, img := range all {
		id := c.createOf(t, tpmAlone, img.ID)
		c.becomes(t, id, "ACTIVE")
		require.Contains(t, c.tell(t, id, "cat note", "TG cat "), note, key)
		require.Contains(t, c.console(t, id, "TG ready", 1), "nvcount=1", "its TPM is its own")
		if key == "same" {
			c.imagesOfThat(t, id, note)
		}
		c.delete(t, id)
	}
	require.Empty(t, c.cachedImages(t))
	require.Empty(t, c.audit(t).Findings)
	c.deleteImage(t, all["same"])
	c.deleteImage(t, all["existing"])
	c.deleteImage(t, all["new"])
	c.nothingIsLeft(t)
}

// imagesOfThat makes images of a server of an encrypted image, which hold what its
// guest wrote and what the guest before it did, and open with their key alone.
func (c *testCloud) imagesOfThat(t *testing.T, id, before string) {
	t.Helper()
	c.tell(t, id, "write more more-"+id, "TG write ")
	for i, key := range []string{"same", "new", "none", "same", "new", "none"} {
		if i == 3 {
			c.shutOff(t, id)
		}
		img := c.createImage(t, id, fmt.Sprint("second ", i), map[string]any{"key": key})
		opener := keyOf(t, img, c.passphrases(t))
		require.Equal(t, key == "none", opener == nil)
		require.Equal(t, key == "same", bytes.Equal(ownPassphrase(t, c, id), opener))
		file := c.download(t, img.ID)
		require.NoError(t, opens(t, file, opener, before), "%d %s", i, key)
		require.NoError(t, opens(t, file, opener, "more-"+id), "%d %s", i, key)
		require.NoError(t, os.Remove(file))
		c.deleteImage(t, img)
	}
}

// EE-12: servers of a project share one copy of an image, here a LUKS container. The
// delete of one leaves the other what it needs to start; that of the last takes the
// copy away.
func TestServersShareAnEncryptedImage(t *testing.T) {
	backends(t, local, openStack)
	c := ownCloud(t)
	first, note := c.noted(t, encrypted, c.image)
	img := c.createImage(t, first, "qcow2", map[string]any{"key": "new"})
	c.delete(t, first)
	container := c.uploadContainer(t, img)

	one, two := c.createOf(t, unspoken, container), c.createOf(t, unspoken, container)
	for _, id := range []string{one, two} {
		c.becomes(t, id, "ACTIVE")
		require.Contains(t, c.tell(t, id, "cat note", "TG cat "), note)
	}
	require.Len(t, c.cachedImages(t), 1)
	require.Empty(t, c.audit(t).Findings)
	c.shutOff(t, two)
	c.delete(t, one)
	require.Len(t, c.cachedImages(t), 1)
	require.NoError(t, images.Delete(t.Context(), c.imageService(t, "-demo"), container).ExtractErr())
	c.deleteImage(t, img) // with its key: the server has copies of both
	c.startAgain(t, two)
	require.Contains(t, c.tell(t, two, "cat note", "TG cat "), note)
	require.Empty(t, c.audit(t).Findings)
	c.delete(t, two)
	require.Empty(t, c.cachedImages(t))
	c.nothingIsLeft(t)
}

// uploadContainer makes a LUKS container of an encrypted qcow2 image, under the same
// key, and gives the id of its image.
func (c *testCloud) uploadContainer(t *testing.T, img *images.Image) string {
	t.Helper()
	from, to := c.download(t, img.ID), filepath.Join(t.TempDir(), "container")
	value := keyOf(t, img, c.passphrases(t))
	convert := func() (string, error) {
		var pipes []*os.File
		for range 2 {
			p := secret.New(bytes.Clone(value))
			defer p.Wipe()
			pipe, err := p.Pipe()
			require.NoError(t, err)
			defer pipe.Close()
			pipes = append(pipes, pipe)
		}
		cmd := exec.Command("qemu-img", "convert", "-O", "luks", "-o", "key-secret=b,iter-time=10,hash-alg=sha512",
			"--object", "secret,id=a,file=/dev/fd/3", "--object", "secret,id=b,file=/dev/fd/4",
			"--image-opts", "driver=qcow2,encrypt.key-secret=a,file.filename="+from, to)
		cmd.ExtraFiles = pipes
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := convert()
	for range 5 { // on a busy machine qemu-img gives up to find out how quick the processor is
		if strings.Contains(out, "Unable to get accurate CPU usage") {
			out, err = convert()
		}
	}
	require.NoError(t, err, out)
	data, err := os.Open(to)
	require.NoError(t, err)
	defer data.Close()
	store := c.imageService(t, "-demo")
	properties := map[string]string{"os_encrypt_format": "LUKSv1"}
	for _, key := range []string{"os_encrypt_key_id", "os_decrypt_size"} {
		properties[key] = fmt.Sprint(img.Properties[key])
	}
	made, err := images.Create(t.Context(), store, images.CreateOpts{
		Name: "container", DiskFormat: "raw", ContainerFormat: "bare", Properties: properties,
	}).Extract()
	require.NoError(t, err)
	t.Cleanup(func() { _ = images.Delete(context.Background(), store, made.ID).ExtractErr() })
	require.NoError(t, imagedata.Upload(t.Context(), store, made.ID, data).ExtractErr())
	return made.ID
}

// EE-14, EE-15: what cannot be is refused before anything is made: encryption that
// the flavor forbids, a secret that the caller may not read. Where the owner of the
// secret lets him, by an ACL, he gets his server, which outlives image and key.
func TestEncryptedImageRefused(t *testing.T) {
	backends(t, openStack, local)
	c := ownCloud(t)
	first, note := c.noted(t, encrypted, c.image)
	img := c.createImage(t, first, "shared", map[string]any{"key": "new"})
	c.delete(t, first)

	_, err := c.tryCreateOf(t, "-demo", bared, img.ID)
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusConflict), "%v", err)
	store := c.imageService(t, "-demo")
	if c.real == nil {
		community := images.ImageVisibilityCommunity
		_, err = images.Update(t.Context(), store, img.ID, images.UpdateOpts{images.UpdateVisibility{Visibility: community}}).Extract()
		require.NoError(t, err)
	} else {
		c.shareImage(t, img.ID)
	}
	_, err = c.tryCreateOf(t, "-alt", unspoken, img.ID)
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusForbidden), "%v", err)
	require.ErrorContains(t, err, fmt.Sprint(img.Properties["os_encrypt_key_id"]))
	require.Empty(t, listed(t, c.compute(t, "-alt"), servers.ListOpts{Name: "testencryptedimagerefused"}))
	require.Empty(t, c.audit(t).Findings)

	if c.real != nil {
		c.allow(t, img)
		id, err := c.tryCreateOf(t, "-alt", unspoken, img.ID)
		require.NoError(t, err)
		s := c.settledAs(t, "-alt", id)
		require.Equal(t, "ACTIVE", s.Status, s.Fault.Message)
		require.Contains(t, c.tell(t, id, "cat note", "TG cat "), note)
		alt := c.compute(t, "-alt")
		require.NoError(t, servers.Stop(t.Context(), alt, id).ExtractErr())
		require.Equal(t, "SHUTOFF", c.settledAs(t, "-alt", id).Status)
		c.deleteImage(t, img)
		require.NoError(t, servers.Start(t.Context(), alt, id).ExtractErr())
		require.Equal(t, "ACTIVE", c.settledAs(t, "-alt", id).Status)
		require.NoError(t, servers.Delete(t.Context(), alt, id).ExtractErr())
		c.goneAs(t, "-alt", id)
	} else {
		c.deleteImage(t, img)
	}
	require.Empty(t, c.cachedImages(t))
	c.nothingIsLeft(t)
}

// shareImage gives the project alt a share of an image of demo's.
func (c *testCloud) shareImage(t *testing.T, id string) {
	t.Helper()
	store := c.imageService(t, "-demo")
	shared := images.ImageVisibilityShared
	_, err := images.Update(t.Context(), store, id, images.UpdateOpts{images.UpdateVisibility{Visibility: shared}}).Extract()
	require.NoError(t, err)
	other := c.imageService(t, "-alt")
	_, project := cloudtest.Who(t, other.ProviderClient)
	_, err = members.Create(t.Context(), store, id, project).Extract()
	require.NoError(t, err)
}

// allow lets the user of the project alt read what opens an image.
func (c *testCloud) allow(t *testing.T, img *images.Image) {
	t.Helper()
	user, _ := cloudtest.Who(t, c.imageService(t, "-alt").ProviderClient)
	keys := c.service(t, "-demo", openstack.NewKeyManagerV1)
	_, err := acls.SetSecretACL(t.Context(), keys, fmt.Sprint(img.Properties["os_encrypt_key_id"]),
		acls.SetOpts{{Type: "read", Users: &[]string{user}}}).Extract()
	require.NoError(t, err)
}

// TestKillMatrixEncryptedImage cuts creates from encrypted images, and what undoes
// them, one after the other: they share an image, whose making takes longer than they
// do.
func TestKillMatrixEncryptedImage(t *testing.T) {
	everywhere(t)
	c := ownCloud(t)
	first := c.createIdle(t, encrypted)
	c.becomes(t, first, "ACTIVE")
	img := c.createImage(t, first, "source", map[string]any{"key": "new"})
	c.delete(t, first)
	each := func(what string, activities []string, run func(t *testing.T, point string)) {
		for _, point := range cutsOf("encrypted image "+what, activities) {
			t.Run(what+"/"+point, func(t *testing.T) {
				run(t, point)
				require.Empty(t, c.audit(t).Findings)
			})
		}
	}
	each("spawn", []string{"disk.CacheImage", "key.Copy"}, func(t *testing.T, point string) {
		c.arm(t, point)
		id := c.createOf(t, unspoken, img.ID)
		c.becomes(t, id, "ACTIVE")
		require.Empty(t, c.audit(t).Findings)
		c.delete(t, id)
		require.Empty(t, c.cachedImages(t))
	})
	each("delete", []string{"disk.Remove.cached_image"}, func(t *testing.T, point string) {
		id := c.createOf(t, unspoken, img.ID)
		c.becomes(t, id, "ACTIVE")
		c.arm(t, point)
		c.delete(t, id)
		require.Empty(t, c.cachedImages(t))
	})
	each("undo", []string{"disk.Remove.cached_image"}, func(t *testing.T, point string) {
		id := c.createOf(t, unspoken, img.ID)
		c.reaches(t, id, "start_domain")
		c.arm(t, point)
		c.delete(t, id)
		require.Empty(t, c.cachedImages(t))
	})
	c.deleteImage(t, img)
	c.nothingIsLeft(t)
}
