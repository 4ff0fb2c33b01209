package integration_test

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"

	"strongroom/activities/secret"
	"strongroom/compute"
)

// rotate asks for new keys of a server's disks.
func (c *testCloud) rotate(t *testing.T, user, id string, disks any) error {
	t.Helper()
	client := c.compute(t, user)
	client.Microversion = "" // the header below says it
	response, err := client.Post(t.Context(), client.ServiceURL("servers", id, "action"), map[string]any{"rotateKeys": disks}, nil,
		&gophercloud.RequestOpts{MoreHeaders: extended, OkCodes: []int{http.StatusAccepted}})
	if err == nil {
		require.NoError(t, response.Body.Close())
	}
	return err
}

// diskKeys are the passphrases of a server's disks, by what the secrets' names say
// of them: root, ephemeral0, swap. There is one for each.
func (c *testCloud) diskKeys(t *testing.T, id string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for name, value := range c.passphrases(t) {
		if rest, ours := strings.CutPrefix(name, "strongroom server "+id+" disk "); ours {
			label, _, _ := strings.Cut(rest, " ")
			require.NotContains(t, out, label, "a disk has one secret")
			out[label] = value
		}
	}
	return out
}

// diskOpens asks QEMU whether a passphrase opens a disk of a server, which may run.
func (c *testCloud) diskOpens(t *testing.T, id, file string, passphrase []byte) bool {
	t.Helper()
	return qemuOpens(t, passphrase, `{"driver": "qcow2", "backing": null, "encrypt": {"format": "luks", "key-secret": "k"},
		"file": {"driver": "file", "filename": "`+filepath.Join(c.Instances(), id, file)+`"}}`)
}

func qemuOpens(t *testing.T, passphrase []byte, node string) bool {
	t.Helper()
	p := secret.New(bytes.Clone(passphrase))
	defer p.Wipe()
	key, err := p.Pipe()
	require.NoError(t, err)
	defer key.Close()
	cmd := exec.Command("qemu-img", "map", "-U", "--output=json", "--start-offset=0", "--max-length=512",
		"--object", "secret,id=k,file=/dev/fd/3", "json:"+node)
	cmd.ExtraFiles = []*os.File{key}
	out, err := cmd.CombinedOutput()
	if err != nil {
		require.Contains(t, string(out), "Invalid password")
	}
	return err == nil
}

// createWithDrive asks for a server with a config drive.
func (c *testCloud) createWithDrive(t *testing.T, f flavorSpec) string {
	t.Helper()
	client, drive := c.compute(t, "-demo"), true
	s, err := servers.Create(t.Context(), client, servers.CreateOpts{
		Name: "rotated", FlavorRef: c.flavor(t, f), ImageRef: c.image, Networks: "none", ConfigDrive: &drive,
	}, nil).Extract()
	require.NoError(t, err)
	t.Cleanup(func() { c.remove(t, s.ID) })
	return s.ID
}

// driveOpens asks QEMU whether a passphrase opens the config drive of a server.
func (c *testCloud) driveOpens(t *testing.T, id string, passphrase []byte) bool {
	t.Helper()
	return qemuOpens(t, passphrase, `{"driver": "luks", "key-secret": "k", "file": {"driver": "file", "filename": "`+
		filepath.Join(c.Instances(), id, compute.ConfigDriveFile)+`"}}`)
}

var diskNames = map[string]string{"root": "disk", "ephemeral0": "disk.eph0", "swap": "disk.swap"}

// The keys of a running and of a stopped server are rotated: its guest notices
// nothing, its data stay, each disk opens with the new key and no more with the old
// one, and there is one secret for each disk, before and after.
func TestRotateKeys(t *testing.T) {
	backends(t, openStack, local)
	c := ownCloud(t)
	id := c.createWithDrive(t, encryptedTPM)
	c.becomes(t, id, "ACTIVE")
	line := c.serial(t, id)
	line.expect("TG tick=")
	require.Contains(t, line.ask("write note before", "TG write "), "err=<nil>")
	require.True(t, gophercloud.ResponseCodeIs(c.rotate(t, "-admin", id, nil), http.StatusForbidden), "the keys are their owner's")
	first := c.diskKeys(t, id)
	require.Len(t, first, 3)

	out, err := c.strongroom("server", "rotate-keys", id, "--wait")
	require.NoError(t, err, out)
	require.Contains(t, out, "rotateKeys req-")
	second := c.diskKeys(t, id)
	require.Len(t, second, 3)
	for label, file := range diskNames {
		require.True(t, c.diskOpens(t, id, file, second[label]), label)
		require.False(t, c.diskOpens(t, id, file, first[label]), label)
	}
	require.True(t, c.driveOpens(t, id, second["root"]))
	require.False(t, c.driveOpens(t, id, first["root"]))
	require.Contains(t, line.ask("write note during", "TG write "), "err=<nil>", "the guest goes on")
	require.NoError(t, line.conn.Close())
	c.nothingIsLeft(t)

	client := c.compute(t, "-demo")
	require.NoError(t, servers.Stop(t.Context(), client, id).ExtractErr())
	c.becomes(t, id, "SHUTOFF")
	out, err = c.strongroom("server", "rotate-keys", id, "--disk", "root", "--disk", "swap", "--wait")
	require.NoError(t, err, out)
	third := c.diskKeys(t, id)
	for label, file := range diskNames {
		require.Equal(t, label == "ephemeral0", bytes.Equal(second[label], third[label]), label)
		require.True(t, c.diskOpens(t, id, file, third[label]), label)
		require.Equal(t, label == "ephemeral0", c.diskOpens(t, id, file, second[label]), label)
	}
	require.NoError(t, servers.Start(t.Context(), client, id).ExtractErr())
	c.becomes(t, id, "ACTIVE")
	c.console(t, id, "boots=2", 1)
	line = c.serial(t, id)
	require.Contains(t, line.ask("cat /root/note", "TG cat "), "during")
	require.NoError(t, line.conn.Close())
	out, err = c.strongroom("server", "rotate-keys", id, "--disk", "vda")
	require.Error(t, err)
	require.Contains(t, out, "It has: root, ephemeral0, swap. (HTTP 400)")
	c.delete(t, id)
	require.Empty(t, c.diskKeys(t, id))
	c.nothingIsLeft(t)
}

// A rotation that is cut off anywhere is completed by the worker that comes back:
// the keys of one server are rotated once for each point.
func TestKillMatrixRotation(t *testing.T) {
	backends(t, local, openStack)
	c := ownCloud(t)
	id := c.create(t, encrypted)
	c.becomes(t, id, "ACTIVE")
	c.console(t, id, "TG ready", 1)
	for _, point := range cutsOf("rotation", cuts.rotation) {
		t.Run(point, func(t *testing.T) {
			was := c.diskKeys(t, id)["root"]
			c.arm(t, point)
			require.NoError(t, c.rotate(t, "-demo", id, nil))
			c.becomes(t, id, "ACTIVE")
			require.Empty(t, c.newestAction(t, id).Message)
			is := c.diskKeys(t, id)["root"]
			require.True(t, c.diskOpens(t, id, "disk", is))
			require.False(t, c.diskOpens(t, id, "disk", was))
			c.nothingIsLeft(t)
		})
	}
	c.startsAfresh(t, id)
}

func (c *testCloud) startsAfresh(t *testing.T, id string) {
	t.Helper()
	require.NoError(t, servers.Reboot(t.Context(), c.compute(t, "-demo"), id, servers.RebootOpts{Type: servers.HardReboot}).ExtractErr())
	c.becomes(t, id, "ACTIVE")
	c.console(t, id, "TG ready", 2)
}

// A delete wins over a rotation, before and after its decision.
func TestDeleteOfAServerWhoseKeysAreRotated(t *testing.T) {
	backends(t, local, openStack)
	c := ownCloud(t)
	for _, point := range []string{"disk.AddKey@after", "disk.Remove.key_slot@before"} {
		id := c.createIdle(t, encrypted)
		c.becomes(t, id, "ACTIVE")
		h := c.hold(t, point)
		require.NoError(t, c.rotate(t, "-demo", id, nil))
		h.waits(t, c.progress(id))
		require.NoError(t, servers.Delete(t.Context(), c.compute(t, "-demo"), id).ExtractErr())
		h.release()
		c.gone(t, id)
		require.Empty(t, c.diskKeys(t, id))
		c.nothingIsLeft(t)
	}
}
