package integration_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/acls"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/secrets"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/await"
	"strongroom/deploy/cloud/cloudtest"
)

// EE-45: a plain server whose image forbids encryption has encrypted copies, with a new key and
// with one that there is, and servers boot from them.
func TestEE45AnEncryptedCopyOfAPlainServerBoots(t *testing.T) {
	backends(t, openStack, local)
	c := ownCloud(t)
	source, remove := c.guestAsking(t, map[string]string{"hw_ephemeral_encryption": "false"})
	plain, note := c.noted(t, unspoken, source)
	remove()
	require.False(t, c.disks(t, plain)[0].Encrypted)
	fresh := c.createImage(t, plain, "new", map[string]any{"key": "new"})
	existing := c.createImage(t, plain, "existing", map[string]any{"key": "existing", "secret_uuid": fresh.Properties["os_encrypt_key_id"]})
	same := c.createImage(t, plain, "same", nil)
	require.Equal(t, "false", same.Properties["hw_ephemeral_encryption"], "a plain copy says what its source did")
	c.delete(t, plain)
	for _, img := range []*images.Image{fresh, existing} {
		require.NotContains(t, img.Properties, "hw_ephemeral_encryption")
		id := c.createOf(t, unspoken, img.ID)
		c.becomes(t, id, "ACTIVE")
		require.Contains(t, c.tell(t, id, "cat note", "TG cat "), note)
		require.True(t, c.disks(t, id)[0].Encrypted)
		c.delete(t, id)
	}
	for _, img := range []*images.Image{same, existing, fresh} {
		c.deleteImage(t, img)
	}
	c.nothingIsLeft(t)
}

// askForCopy asks for an image of a server that is encrypted with a secret that there is.
func (c *testCloud) askForCopy(t *testing.T, server, secret string) error {
	t.Helper()
	client := c.compute(t, "-demo")
	client.Microversion = ""
	body := map[string]any{"createImage": map[string]any{"name": "copy", "encryption": map[string]any{"key": "existing", "secret_uuid": secret}}}
	response, err := client.Post(t.Context(), client.ServiceURL("servers", server, "action"), body, nil,
		&gophercloud.RequestOpts{MoreHeaders: extended, OkCodes: []int{http.StatusAccepted}})
	if err == nil {
		_ = response.Body.Close()
	}
	return err
}

// EE-46: the key of a server's disk or vTPM does not become an image's, be it of the same
// project, or of another one that lets its reader read it. The message says what to do.
func TestEE46AServersKeyBecomesNoImages(t *testing.T) {
	backends(t, openStack, local)
	c := ownCloud(t)
	id := c.createIdle(t, encryptedTIS)
	c.becomes(t, id, "ACTIVE")
	c.shutOff(t, id)
	taken := []string{c.disks(t, id)[0].Secret}
	for _, s := range c.realSecrets(t, "-demo") {
		if strings.HasPrefix(s.Name, "strongroom server "+id+" vtpm ") {
			taken = append(taken, lastPart(s.SecretRef))
		}
	}
	for _, secret := range taken {
		err := c.askForCopy(t, id, secret)
		require.True(t, gophercloud.ResponseCodeIs(err, http.StatusConflict), "%v", err)
		require.ErrorContains(t, err, "encryption.key 'same'")
		require.ErrorContains(t, err, secret)
	}
	if c.real != nil {
		require.Len(t, taken, 2)
		c.foreignKeyBecomesNoImages(t, id)
	}
	require.Empty(t, c.audit(t).Findings)
	c.startAgain(t, id)
	c.delete(t, id)
	c.nothingIsLeft(t)
}

// foreignKeyBecomesNoImages tries the key of a server of the project alt, whose owner lets the
// user demo read it: it is found out when the operation has read it.
func (c *testCloud) foreignKeyBecomesNoImages(t *testing.T, id string) {
	t.Helper()
	theirs, err := c.tryCreateOf(t, "-alt", encrypted, c.image)
	require.NoError(t, err)
	require.Equal(t, "ACTIVE", c.settledAs(t, "-alt", theirs).Status)
	me, _ := cloudtest.Who(t, c.imageService(t, "-demo").ProviderClient)
	keys := c.service(t, "-alt", openstack.NewKeyManagerV1)
	var key string
	for _, s := range c.secrets(t, "-alt") {
		if strings.HasPrefix(s.Name, "strongroom server "+theirs+" disk root ") {
			key = lastPart(s.SecretRef)
		}
	}
	require.NotEmpty(t, key)
	_, err = acls.SetSecretACL(t.Context(), keys, key, acls.SetOpts{{Type: "read", Users: &[]string{me}}}).Extract()
	require.NoError(t, err)
	before := c.images(t, "-demo")
	if err := c.askForCopy(t, id, key); err == nil { // its record may be there when the answer goes out
		why := c.refusedBecause(t, id)
		require.Contains(t, why, "encryption.key 'same'")
		require.Contains(t, why, key)
	} else {
		require.ErrorContains(t, err, "encryption.key 'same'")
	}
	c.settled(t, id)
	require.ElementsMatch(t, before, c.images(t, "-demo"), "no image is left")
	require.NoError(t, servers.Delete(t.Context(), c.compute(t, "-alt"), theirs).ExtractErr())
	c.goneAs(t, "-alt", theirs)
}

// realSecrets are the secrets of a user where there is a real key manager.
func (c *testCloud) realSecrets(t *testing.T, user string) []secrets.Secret {
	t.Helper()
	if c.real == nil {
		return nil
	}
	return c.secrets(t, user)
}

func lastPart(url string) string { return url[strings.LastIndex(url, "/")+1:] }

// watchesImageKeys starts control workers again that look at images often. They take up the keys of images that earlier tests
// have deleted, too: when the test has ended and nobody looks any more, all are forgotten, or the audits of later tests would list them.
func (c *testCloud) watchesImageKeys(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		ctx := context.Background()
		db, err := pgx.Connect(ctx, databaseURL(t, c))
		require.NoError(t, err)
		defer func() { _ = db.Close(ctx) }()
		_, err = db.Exec(ctx, "DELETE FROM image_keys")
		require.NoError(t, err)
	})
	c.configured(t, "control", "control", map[string]any{"image_key_interval": "10s", "image_key_grace": "10s", "image_key_most_gone": 100})
}

// hasKeyOf tells whether the key manager has the key that was made for an image.
func (c *testCloud) hasKeyOf(t *testing.T, img *images.Image) bool {
	t.Helper()
	if c.real != nil {
		return c.secretOfImage(t, img) != "" // by its name: some go at this moment
	}
	for name := range c.passphrases(t) {
		if strings.HasPrefix(name, "strongroom image "+img.ID+" ") {
			return true
		}
	}
	return false
}

// lookedAt waits until images have been looked at since now, and says the time of the next look.
func (c *testCloud) lookedAt(t *testing.T, imgs ...*images.Image) {
	t.Helper()
	db := c.database(t)
	for _, img := range imgs {
		_, err := db.Exec(t.Context(), "UPDATE image_keys SET look_at = '2000-01-01' WHERE image_id = $1", img.ID)
		require.NoError(t, err)
	}
	for _, img := range imgs {
		await.For(t, "image "+img.Name+" is looked at", func() bool {
			c.bringsACredential(t, db)
			var n int
			require.NoError(t, db.QueryRow(t.Context(), "SELECT count(*) FROM image_keys WHERE image_id = $1 AND (look_at = '2000-01-01' OR refused_at IS NOT NULL)",
				img.ID).Scan(&n))
			return n == 0
		}, imageKeys(t, db))
	}
}

// imageKeys tells how far the looks at images are, and the removals of their keys.
func imageKeys(t *testing.T, db *pgx.Conn) await.Witness {
	t.Helper()
	return await.Witness{Name: "keys of images", Look: func() (now string) {
		_ = db.QueryRow(t.Context(), `SELECT format('%s on record, %s to be looked at, %s refused, %s gone, %s kept; %s keys on the ledger', count(*),
			count(*) FILTER (WHERE look_at = '2000-01-01'), count(refused_at), count(gone_at), count(*) FILTER (WHERE kept <> ''),
			(SELECT count(*) FROM ledger WHERE kind = 'key_secret' AND state NOT IN ('released', 'handed_over'))) FROM image_keys`).Scan(&now)
		return now
	}}
}

// bringsACredential sends a request, whose token is kept where images wait for one; a project
// is asked for one a minute at most, and the last one was refused a minute ago.
func (c *testCloud) bringsACredential(t *testing.T, db *pgx.Conn) {
	t.Helper()
	_, err := db.Exec(t.Context(), "UPDATE image_keys SET refused_at = refused_at - interval '1 minute' WHERE refused_at > now() - interval '1 minute'")
	require.NoError(t, err)
	_, err = servers.List(c.compute(t, "-demo"), servers.ListOpts{Limit: 1}).AllPages(t.Context())
	require.NoError(t, err)
}

// EE-44, EE-28: the key of an image goes when its user has deleted the image; not while another image names it, and not where the image
// said False: this the audit lists until somebody deletes it. Whatever an image says of other
// keys, these stay.
func TestEE44KeysOfImagesGoWithThem(t *testing.T) {
	backends(t, openStack, local)
	c := ownCloud(t)
	db := c.database(t)
	c.watchesImageKeys(t)
	id := c.createIdle(t, encrypted)
	c.becomes(t, id, "ACTIVE")
	c.shutOff(t, id)
	store := c.imageService(t, "-demo")
	encryptedImage := func(name string) *images.Image { return c.createImage(t, id, name, map[string]any{"key": "new"}) }
	gone, shared, kept, liar := encryptedImage("gone"), encryptedImage("shared"), encryptedImage("kept"), encryptedImage("liar")
	user := c.createImage(t, id, "user", map[string]any{"key": "existing", "secret_uuid": shared.Properties["os_encrypt_key_id"]})
	set := func(img *images.Image, property, value string) {
		_, err := images.Update(t.Context(), store, img.ID, images.UpdateOpts{
			images.UpdateImageProperty{Op: images.ReplaceOp, Name: property, Value: value},
		}).Extract()
		require.NoError(t, err)
	}
	set(kept, "os_encrypt_key_deletion_policy", "False")
	// One who edits an image names the key of the server, and says that the key of another goes.
	set(liar, "os_encrypt_key_id", c.disks(t, id)[0].Secret)
	set(user, "os_encrypt_key_deletion_policy", "True")
	c.lookedAt(t, gone, shared, kept, liar, user)

	for _, img := range []*images.Image{gone, shared, kept, liar} {
		require.NoError(t, images.Delete(t.Context(), store, img.ID).ExtractErr())
	}
	for _, img := range []*images.Image{gone, liar} {
		await.For(t, "the key of "+img.Name+" goes", func() bool {
			c.bringsACredential(t, db)
			return !c.hasKeyOf(t, img)
		}, imageKeys(t, db))
	}
	c.lookedAt(t, shared, kept)
	require.True(t, c.hasKeyOf(t, shared), "another image is encrypted with it")
	require.True(t, c.hasKeyOf(t, kept), "its image said False")
	c.startAgain(t, id) // the key that liar named is the server's
	var listed []string
	for _, f := range c.audit(t).Findings {
		for _, img := range []*images.Image{gone, shared, kept, liar} {
			if strings.Contains(f.Name, img.ID) {
				require.EqualValues(t, "kept", f.What, f)
				listed = append(listed, img.ID)
			}
		}
	}
	require.ElementsMatch(t, []string{shared.ID, kept.ID}, listed)

	require.NoError(t, images.Delete(t.Context(), store, user.ID).ExtractErr())
	await.For(t, "the key goes that nothing names any more", func() bool {
		c.bringsACredential(t, db)
		return !c.hasKeyOf(t, shared)
	}, imageKeys(t, db))
	c.delete(t, id)
	if c.real != nil {
		keys := c.service(t, "-demo", openstack.NewKeyManagerV1)
		require.NoError(t, secrets.Delete(t.Context(), keys, fmt.Sprint(kept.Properties["os_encrypt_key_id"])).ExtractErr())
		require.False(t, c.hasKeyOf(t, kept))
	}
	c.forgetImageKey(t, kept.ID)
	for _, f := range c.audit(t).Findings {
		require.NotContains(t, f.Name, kept.ID)
	}
}

// EE-40: somebody deletes by mistake the secret with which one server opens the image under its
// disk, and then that of the image. Either costs that server or that image alone, and what is
// told names the secret and says what can be done.
func TestEE40ADeletedSecretCostsOneServerOrImage(t *testing.T) {
	backends(t, openStack)
	c := ownCloud(t)
	first, note := c.noted(t, encrypted, c.image)
	img, other := c.createImage(t, first, "copy", map[string]any{"key": "same"}), c.createImage(t, first, "other", map[string]any{"key": "new"})
	one, two := c.createOf(t, unspoken, img.ID), c.createOf(t, unspoken, img.ID)
	c.becomes(t, one, "ACTIVE")
	c.becomes(t, two, "ACTIVE")
	c.shutOff(t, one)
	c.shutOff(t, two)
	keys := c.service(t, "-demo", openstack.NewKeyManagerV1)
	lost := c.disks(t, one)[0].Backing
	require.NotEmpty(t, lost)
	require.NotEqual(t, lost, c.disks(t, two)[0].Backing)
	require.NoError(t, secrets.Delete(t.Context(), keys, lost).ExtractErr())
	require.NoError(t, servers.Start(t.Context(), c.compute(t, "-demo"), one).ExtractErr())
	why := c.refusedBecause(t, one)
	require.Contains(t, why, lost)
	require.Contains(t, why, "Somebody deleted it")
	require.Contains(t, why, "can be rebuilt")
	require.Equal(t, "SHUTOFF", c.settled(t, one).Status, "as it was")

	c.startAgain(t, two)
	require.Contains(t, c.tell(t, two, "cat note", "TG cat "), note)
	lost = fmt.Sprint(img.Properties["os_encrypt_key_id"])
	require.NoError(t, secrets.Delete(t.Context(), keys, lost).ExtractErr())
	_, err := c.tryCreateOf(t, "-demo", unspoken, img.ID)
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusForbidden), "%v", err)
	require.ErrorContains(t, err, lost)
	require.ErrorContains(t, err, "somebody deleted it")
	c.shutOff(t, two)
	c.startAgain(t, two) // its own copy of the secret is there
	require.NoError(t, servers.Stop(t.Context(), c.compute(t, "-demo"), first).ExtractErr())
	c.becomes(t, first, "SHUTOFF")
	c.startAgain(t, first)
	c.rebuildOf(t, one, other.ID) // what the message says

	lost = c.disks(t, first)[0].Secret
	require.NoError(t, secrets.Delete(t.Context(), keys, lost).ExtractErr())
	refused, err := c.imageAs(t, "-demo2", first, map[string]any{"key": "new"})
	require.NoError(t, err)
	c.becomes(t, first, "ACTIVE")
	require.Contains(t, c.refusedBecause(t, first), lost, "nobody knows whether he could read it")
	_, err = images.Get(t.Context(), c.imageService(t, "-demo"), refused).Extract()
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusNotFound), "%v", err)
	saved := c.createImage(t, first, "saved", map[string]any{"key": "new"})
	c.delete(t, first)
	three := c.createOf(t, unspoken, saved.ID)
	c.becomes(t, three, "ACTIVE")
	require.Contains(t, c.tell(t, three, "cat note", "TG cat "), note)
	for _, id := range []string{one, two, three} {
		c.delete(t, id)
	}
	c.deleteImage(t, saved)
	require.NoError(t, images.Delete(t.Context(), c.imageService(t, "-demo"), img.ID).ExtractErr())
	c.deleteImage(t, other)
	c.nothingIsLeft(t)
}

// rebuildOf rebuilds a server that is shut off.
func (c *testCloud) rebuildOf(t *testing.T, id, image string) {
	t.Helper()
	require.NoError(t, c.tryRebuild(t, "-demo", id, image))
	s := c.settled(t, id)
	require.Equal(t, image, s.Image["id"], "it failed: %s", c.newestAction(t, id).Message)
}
