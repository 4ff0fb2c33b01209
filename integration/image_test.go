package integration_test

import (
	"bytes"
	"context"
	"errors"
	"io"
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
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/secrets"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"strongroom/activities/secret"
)

// extended speaks the encryption document's createImage.
var extended = map[string]string{"OpenStack-API-Version": "compute " + microversion + ", strongroom 1.0"}

func (c *testCloud) imageService(t *testing.T, user string) *gophercloud.ServiceClient {
	t.Helper()
	return c.service(t, user, openstack.NewImageV2)
}

// createImage asks for an image of a server and waits until it is made. encryption
// is the body's, nil for none.
func (c *testCloud) createImage(t *testing.T, server, name string, encryption map[string]any) *images.Image {
	t.Helper()
	body := map[string]any{"name": name}
	if encryption != nil {
		body["encryption"] = encryption
	}
	return c.whole(t, server, c.postForImage(t, server, "createImage", body))
}

// whole waits until an image of a server is made.
func (c *testCloud) whole(t *testing.T, server, id string) *images.Image {
	t.Helper()
	c.settled(t, server)
	img, err := images.Get(t.Context(), c.imageService(t, "-demo"), id).Extract()
	require.NoError(t, err)
	require.Equal(t, images.ImageStatusActive, img.Status, c.newestAction(t, server).Message)
	return img
}

// askForImage asks for an image or a backup of a server, which has a record at once.
func (c *testCloud) askForImage(t *testing.T, server, action string, body map[string]any) string {
	t.Helper()
	id := c.postForImage(t, server, action, body)
	img, err := images.Get(t.Context(), c.imageService(t, "-demo"), id).Extract()
	require.NoError(t, err, "its record is there when the request is answered")
	require.Contains(t, []images.ImageStatus{images.ImageStatusQueued, images.ImageStatusSaving, images.ImageStatusActive}, img.Status)
	return id
}

// postForImage is askForImage for what may have failed by the time anybody looks, and for
// images whose operation is held up: nobody waits for their records for long.
func (c *testCloud) postForImage(t *testing.T, server, action string, body map[string]any) string {
	t.Helper()
	client := c.compute(t, "-demo")
	client.Microversion = "" // the header below says it
	var made struct {
		ID string `json:"image_id"`
	}
	response, err := client.Post(t.Context(), client.ServiceURL("servers", server, "action"), map[string]any{action: body}, &made,
		&gophercloud.RequestOpts{MoreHeaders: extended, OkCodes: []int{http.StatusAccepted}})
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	store := c.imageService(t, "-demo")
	t.Cleanup(func() { _ = images.Delete(context.Background(), store, made.ID).ExtractErr() })
	return made.ID
}

// download gives the file of an image.
func (c *testCloud) download(t *testing.T, id string) string {
	t.Helper()
	data, err := imagedata.Download(t.Context(), c.imageService(t, "-demo"), id).Extract()
	require.NoError(t, err)
	defer data.Close()
	path := filepath.Join(t.TempDir(), "image")
	file, err := os.Create(path)
	require.NoError(t, err)
	_, err = io.Copy(file, data)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	return path
}

// opens decrypts an image with a passphrase, nil for a plain one, and requires
// that what a guest wrote is in it. A passphrase that does not open it is an error.
func opens(t *testing.T, image string, passphrase []byte, written string) error {
	t.Helper()
	plain := filepath.Join(t.TempDir(), "plain")
	cmd := exec.Command("qemu-img", "convert", "-O", "raw", "-f", "qcow2", image, plain)
	if passphrase != nil {
		p := secret.New(bytes.Clone(passphrase))
		defer p.Wipe()
		key, err := p.Pipe()
		require.NoError(t, err)
		defer key.Close()
		cmd = exec.Command("qemu-img", "convert", "-O", "raw", "--object", "secret,id=s,file=/dev/fd/3",
			"--image-opts", "driver=qcow2,encrypt.key-secret=s,file.filename="+image, plain)
		cmd.ExtraFiles = []*os.File{key}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Logf("qemu-img: %s", out)
		return err
	}
	require.True(t, contains(t, plain, written), "what the guest wrote is in the image")
	require.NoError(t, os.Remove(plain))
	return nil
}

// contains reports whether a file has a text without zeroes. It reads no holes, which are most of a disk.
func contains(t *testing.T, file, text string) bool {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	for hole := int64(0); ; {
		data, err := f.Seek(hole, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) { // there is no more
			return false
		}
		require.NoError(t, err)
		hole, err = f.Seek(data, unix.SEEK_HOLE)
		require.NoError(t, err)
		part := make([]byte, hole-data)
		_, err = f.ReadAt(part, data)
		require.NoError(t, err)
		if bytes.Contains(part, []byte(text)) {
			return true
		}
	}
}

// keyOf finds what opens an image of a server, by what the image's record says.
func keyOf(t *testing.T, img *images.Image, passphrases map[string][]byte) []byte {
	t.Helper()
	if img.Properties["os_encrypt_key_id"] == nil {
		return nil
	}
	for name, value := range passphrases {
		if strings.HasPrefix(name, "strongroom image "+img.ID+" ") {
			return value
		}
	}
	require.Fail(t, "the image has no key of its own", img.ID)
	return nil
}

// EE-16 … EE-20, EE-23, EE-24, EE-28: each choice of a key, of a running and of a
// stopped server: the image opens with the key that it must have, and refuses the
// one that it must not; the server's delete leaves it whole.
func TestImagesOfAServer(t *testing.T) {
	backends(t, openStack, local)
	c := ownCloud(t)
	id := c.create(t, encryptedTIS)
	c.becomes(t, id, "ACTIVE")
	line := c.serial(t, id)
	line.expect("TG tick=")
	note := "note-" + id
	require.Contains(t, line.ask("write note "+note, "TG write "), "err=<nil>")
	require.NoError(t, line.conn.Close())
	own := ownPassphrase(t, c, id)

	type made struct {
		name  string
		image *images.Image
		key   []byte // nil: plain
		same  bool   // the server's own key opens it
	}
	var all []made
	take := func(when string) {
		last := map[string]any{}
		for _, key := range []string{"", "same", "new", "existing", "none"} {
			encryption := map[string]any{"key": key}
			switch key {
			case "":
				encryption = nil
			case "existing":
				encryption = last // the key of the image before
			}
			m := made{name: strings.TrimSpace(when + " " + key), same: key == "" || key == "same"}
			body := map[string]any{"name": m.name}
			if encryption != nil {
				body["encryption"] = encryption
			}
			m.image = c.whole(t, id, c.askForImage(t, id, "createImage", body))
			require.Equal(t, "snapshot", m.image.Properties["image_type"], m.name)
			require.Equal(t, id, m.image.Properties["instance_uuid"], m.name)
			switch key {
			case "none":
				require.Empty(t, encryptionSaid(m.image), m.name)
			case "existing":
				require.Equal(t, saysOfEncryption(last["secret_uuid"], "False"), encryptionSaid(m.image), m.name)
				m.key = all[len(all)-1].key
			default:
				m.key = keyOf(t, m.image, c.passphrases(t))
				last = map[string]any{"key": "existing", "secret_uuid": m.image.Properties["os_encrypt_key_id"]}
				require.Equal(t, saysOfEncryption(last["secret_uuid"], "True"), encryptionSaid(m.image), m.name)
				if c.real != nil {
					require.Equal(t, c.secretOfImage(t, m.image), last["secret_uuid"], "the secret that Barbican has for it")
				}
			}
			all = append(all, m)
		}
	}
	take("running")
	client := c.compute(t, "-demo")
	require.NoError(t, servers.Stop(t.Context(), client, id).ExtractErr())
	c.becomes(t, id, "SHUTOFF")
	take("stopped")
	require.Empty(t, c.audit(t).Findings, "images and their keys are their owner's")
	c.delete(t, id)
	require.Empty(t, c.audit(t).Findings)

	for _, m := range all {
		file := c.download(t, m.image.ID)
		require.NoError(t, opens(t, file, m.key, note), m.name)
		require.Equal(t, m.same, bytes.Equal(own, m.key), m.name)
		if m.key != nil && !m.same {
			require.Error(t, opens(t, file, own, note), "%s: the server's key must not open it", m.name)
		}
		require.NoError(t, os.Remove(file))
		c.deleteImage(t, m.image)
	}
	c.nothingIsLeft(t)
}

// saysOfEncryption is all that an image of a server with a disk of 1 GiB says of its encryption
// (EE-23).
func saysOfEncryption(key any, policy string) map[string]any {
	return map[string]any{
		"os_encrypt_format": "LUKSv1", "os_encrypt_cipher": "aes-256-xts-plain64", "os_encrypt_key_id": key,
		"os_encrypt_key_deletion_policy": policy, "os_decrypt_container_format": "bare", "os_decrypt_size": "1073741824",
	}
}

// encryptionSaid is what an image says of its encryption, by whichever property.
func encryptionSaid(img *images.Image) map[string]any {
	out := map[string]any{}
	for name, value := range img.Properties {
		if strings.HasPrefix(name, "os_encrypt_") || strings.HasPrefix(name, "os_decrypt_") || strings.Contains(name, "encryption") {
			out[name] = value
		}
	}
	return out
}

// secretOfImage gives the id of the secret that was made for an image.
func (c *testCloud) secretOfImage(t *testing.T, img *images.Image) (id string) {
	t.Helper()
	for _, s := range c.secrets(t, "-demo") {
		if strings.HasPrefix(s.Name, "strongroom image "+img.ID+" ") {
			require.Empty(t, id, "one secret for an image")
			id = lastPart(s.SecretRef)
		}
	}
	return id
}

// deleteImage deletes an image and, as its deletion policy asks of an image service
// that knows it, its key.
func (c *testCloud) deleteImage(t *testing.T, img *images.Image) {
	t.Helper()
	require.NoError(t, images.Delete(t.Context(), c.imageService(t, "-demo"), img.ID).ExtractErr())
	if c.real == nil || img.Properties["os_encrypt_key_deletion_policy"] != "True" {
		return
	}
	id, ok := img.Properties["os_encrypt_key_id"].(string)
	require.True(t, ok)
	require.NoError(t, secrets.Delete(t.Context(), c.service(t, "-demo", openstack.NewKeyManagerV1), id).ExtractErr())
	c.forgetImageKey(t, img.ID)
}

// forgetImageKey takes the key of an image from what the audit looks at. On the real cloud strongroom has no role in the
// project and cannot see that a key is gone: tests that come later must not find it listed as kept, as one is whose image
// was gone before strongroom had looked at it.
func (c *testCloud) forgetImageKey(t *testing.T, image string) {
	t.Helper()
	_, err := c.database(t).Exec(t.Context(), "DELETE FROM image_keys WHERE image_id = $1", image)
	require.NoError(t, err)
}

func ownPassphrase(t *testing.T, c *testCloud, server string) []byte {
	t.Helper()
	for name, value := range c.passphrases(t) {
		if strings.HasPrefix(name, "strongroom server "+server+" disk root ") {
			return value
		}
	}
	require.Fail(t, "the server's root disk has no key")
	return nil
}
