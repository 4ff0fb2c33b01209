package integration_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/dev/stack"
)

// H1: neither the memory of a host worker, at moments of each operation and at many others, nor its
// environment, configuration and files, nor those of its libvirtd, hold what opens more than the
// server of the operation: the database, strongroom's password, users' passwords, the keys of
// credentials, of the key manager, of tokens and of the metadata service, tokens, and passphrases of
// other servers: of its own on which no operation runs, of one on which one runs on the other host
// alone, and of one that another project has there. Once an operation is over, those of its server and of an image of it are gone, too.
// No file has a passphrase at all, nor have those that lie in memory while an operation runs, which
// are of its server alone.
func TestH1AHostHoldsNoKeyToTheCloud(t *testing.T) {
	backends(t, local, openStack)
	c := twoHosts(t)
	a, b := c.Host(1), c.Host(2)
	c.keepsKeys(t, a, "all")
	w := c.watchHosts(t, c.keysToTheCloud(t), a, b)
	owner, err := c.login("-demo")
	require.NoError(t, err)
	api := owner.compute(t)
	// A server on which nothing works while others are started, copied, rebuilt and moved, and
	// one of another project on the other host.
	var bystander, id string
	w.operation(t, "", a, "disk.Create@after", func() string {
		bystander = c.on(t, a, func() string { return c.createIdle(t, encryptedTPM) })
		return bystander
	})
	w.operation(t, "", b, "domain.Start@after", func() string { return c.foreign(t, b) })
	w.operation(t, "", a, "domain.Start@after", func() string {
		id = c.on(t, a, func() string { return c.createIdle(t, encryptedTPM, withConfigDrive) })
		return id
	})
	of := func(server string, h stack.Host, point string, do func(), also ...stack.Host) {
		t.Helper()
		w.operation(t, server, h, point, func() string { do(); return server }, also...)
	}
	restarts := func(server string, h stack.Host) {
		t.Helper()
		of(server, h, "domain.Stop@after", func() {
			require.NoError(t, servers.Stop(t.Context(), api, server).ExtractErr())
			c.becomes(t, server, "SHUTOFF")
		})
		of(server, h, "domain.Start@after", func() {
			require.NoError(t, servers.Start(t.Context(), api, server).ExtractErr())
			c.becomes(t, server, "ACTIVE")
		})
	}
	restarts(id, a)
	of(id, a, "image.Upload@before", func() {
		img := c.createImage(t, id, "copy", map[string]any{"key": "new"})
		w.noteImage(t, id, img.ID)
		c.deleteImage(t, img)
	})
	of(id, a, "disk.Create@after", func() { c.rebuild(t, id, c.idler, "ACTIVE") })
	of(id, a, "disk.Create@after", func() { c.rescue(t, id, c.idler) })
	of(id, a, "domain.Start@after", func() { c.unrescue(t, id) })
	of(id, b, "domain.Start@before", func() { c.resize(t, id, largerTPM) }, a)
	c.requireOn(t, b, id)
	w.filesAreClean(t)
	of(id, a, "domain.Start@after", func() { c.revert(t, id) }, b)
	c.requireOn(t, a, id)
	of(id, a, "tpm.Save@after", func() { c.shelve(t, id) })
	of(id, b, "disk.Restore@after", func() {
		c.unshelveTo(t, b, id)
		c.becomes(t, id, "ACTIVE")
	})
	w.filesAreClean(t)
	of(id, b, "disk.Remove.disk_file@before", func() { c.delete(t, id) })

	// A live migration by who may not read the server's keys: a hands them on. A rotation changes
	// the passphrases.
	of(bystander, a, "domain.Migrate@before", func() {
		require.NoError(t, c.liveMigrateAs(t, "-admin", bystander, &b))
		c.becomes(t, bystander, "ACTIVE")
	}, b)
	c.requireOn(t, b, bystander)
	of(bystander, b, "disk.AddKey@after", func() {
		require.NoError(t, c.rotate(t, "-demo", bystander, nil))
		c.becomes(t, bystander, "ACTIVE")
	})
	restarts(bystander, b)
	w.filesAreClean(t)
	of(bystander, b, "domain.Remove.domain@before", func() { c.delete(t, bystander) })
	w.filesAreClean(t)
	w.processesAreClean(t)
	w.stop(t)

	// The search finds what is there: in the processes that need it, and wherever it could be.
	w.finds(t, "control", "the database", "the database's password", "ca/ca.key")
	w.finds(t, "metadata", "metadata.secret")
	if c.real == nil {
		w.finds(t, "devcloud", "token.key")
	}
	require.True(t, w.hasToken([]byte("x"+api.Token()+"x")))
	for _, h := range []stack.Host{a, b} {
		w.findsWhatIsPlanted(t, h, api.Token())
		w.findsWhatIsPlantedInMemory(t, h)
	}
}

// keysToTheCloud are what opens more than one server, by its name.
func (c *testCloud) keysToTheCloud(t *testing.T) canaries {
	t.Helper()
	known := canaries{}
	files := []string{"service.password", "credentials.key", "metadata.secret", "ca/ca.key"}
	if c.real == nil { // the cloud has its own key manager and its own tokens
		files = append(files, "master.key", "token.key")
	}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(c.State, file))
		require.NoError(t, err)
		known.add(file, keyForms(t, text)...)
	}
	var clouds struct {
		Clouds map[string]struct {
			Auth struct{ Username, Password string }
		}
	}
	readYAML(t, c.CloudsFile(), &clouds)
	require.NotEmpty(t, clouds.Clouds)
	for _, cloud := range clouds.Clouds {
		require.GreaterOrEqual(t, len(cloud.Auth.Password), 16)
		known.add("the password of "+cloud.Auth.Username, []byte(cloud.Auth.Password))
	}
	// PostgreSQL knows its users by the system here, and takes a password as well.
	database, err := url.Parse(databaseURL(t, c))
	require.NoError(t, err)
	password := rand.Text()
	database.User = url.UserPassword(database.User.Username(), password)
	settings := c.cloudSettings(t)
	t.Cleanup(func() { settings.restore(t) })
	settings.with(t, map[string]map[string]any{"database": {"url": database.String()}})
	known.add("the database", []byte(database.String()))
	known.add("the database's password", []byte(password))
	return known
}

func withConfigDrive(o *servers.CreateOpts) {
	yes := true
	o.ConfigDrive = &yes
}

// foreign makes a server of the project alt on a host. It is deleted when the test ends.
func (c *testCloud) foreign(t *testing.T, h stack.Host) (id string) {
	t.Helper()
	for n := range c.hosts {
		if other := c.Host(n + 1); other != h {
			c.updateService(t, other, map[string]any{"status": "disabled"})
			defer c.updateService(t, other, map[string]any{"status": "enabled"})
		}
	}
	client := c.asking(t, "-alt")
	s, err := servers.Create(t.Context(), client, servers.CreateOpts{
		Name: "foreign", FlavorRef: c.flavor(t, encryptedTPM), ImageRef: c.idler, Networks: "none",
	}, nil).Extract()
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = servers.Delete(context.Background(), client, s.ID).ExtractErr()
		c.goneAs(t, "-alt", s.ID)
	})
	got := c.settledAs(t, "-alt", s.ID)
	require.Equal(t, "ACTIVE", got.Status, "fault: %s", got.Fault.Message)
	return s.ID
}

// keyForms gives what a file of a key could be found as: its text, and the key that a process
// which read it has.
func keyForms(t *testing.T, file []byte) [][]byte {
	t.Helper()
	text := bytes.TrimSpace(file)
	if block, _ := pem.Decode(file); block != nil {
		parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		require.NoError(t, err)
		forms := [][]byte{bytes.SplitN(text, []byte("\n"), 3)[1], block.Bytes}
		key, ok := parsed.(*ecdsa.PrivateKey)
		require.True(t, ok, "a key of type %T", parsed)
		scalar, err := key.Bytes()
		require.NoError(t, err)
		return append(forms, scalar)
	}
	if key, err := hex.DecodeString(string(text)); err == nil && len(key) >= 16 {
		return [][]byte{text, key}
	}
	return [][]byte{text}
}
