package integration_test

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/await"
	"strongroom/worker/pki"
)

var plainFlavor = flavorSpec{"e2e-plain", 128, 1, 0, 0, nil}

// rescue rescues a server and waits until it runs from its rescue disk.
func (c *testCloud) rescue(t *testing.T, id, image string) {
	t.Helper()
	c.askRescue(t, id, image)
	c.becomes(t, id, "RESCUE")
}

func (c *testCloud) askRescue(t *testing.T, id, image string) {
	t.Helper()
	password, err := servers.Rescue(t.Context(), c.compute(t, "-demo"), id, servers.RescueOpts{RescueImageRef: image}).Extract()
	require.NoError(t, err)
	require.NotEmpty(t, password)
}

func (c *testCloud) unrescue(t *testing.T, id string) {
	t.Helper()
	require.NoError(t, servers.Unrescue(t.Context(), c.compute(t, "-demo"), id).ExtractErr())
	c.becomes(t, id, "ACTIVE")
}

// rescueFiles are the names of the rescue disks in a server's folder.
func (c *testCloud) rescueFiles(t *testing.T, id string) (names []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(c.Instances(), id, "disk.rescue*"))
	require.NoError(t, err)
	for _, path := range paths {
		names = append(names, filepath.Base(path))
	}
	return names
}

// EE-26, TPM-13: an encrypted server with a vTPM is rescued: it boots from the rescue
// disk and has its own disks after it, and its TPM goes on; unrescued it has what it
// had and what was repaired. The standard client does it.
func TestRescue(t *testing.T) {
	backends(t, local, openStack)
	c := sharedCloud(t)
	id := c.create(t, encryptedTPM)
	c.becomes(t, id, "ACTIVE")
	c.console(t, id, "nvcount=1", 1)
	line := c.serial(t, id)
	line.expect("TG tick=")
	require.Contains(t, line.ask("write note kept", "TG write "), "err=<nil>")
	require.Contains(t, line.ask("write /dev/vdb broken", "TG write "), "err=<nil>")
	require.NoError(t, line.conn.Close())

	python := c.python(t, "-demo")
	python.run("server", "rescue", id)
	c.becomes(t, id, "RESCUE")
	files := c.rescueFiles(t, id)
	require.Len(t, files, 1)
	out, err := exec.Command("qemu-img", "info", "-U", filepath.Join(c.Instances(), id, files[0])).CombinedOutput()
	require.NoError(t, err)
	require.NotContains(t, string(out), "encrypted: yes", "its image is not")
	log := c.console(t, id, "TG ready", 2)
	log = log[strings.LastIndex(log, "TG init"):]
	for _, said := range []string{
		"rootdisk boots=1", "nvcount=2", "disk name=vdb mib=1024 content=ext4", "disk name=vdc mib=1024", "disk name=vdd mib=64",
	} {
		require.Contains(t, log, said)
	}
	c.noSecretIsLent(t, id)
	require.Empty(t, c.audit(t).Findings)
	line = c.serial(t, id)
	require.Contains(t, line.ask("cat /dev/vdc", "TG cat "), "broken")
	require.Contains(t, line.ask("write /dev/vdc repaired", "TG write "), "err=<nil>")
	require.NoError(t, line.conn.Close())

	demo := c.compute(t, "-demo")
	rescue := servers.Rescue(t.Context(), demo, id, servers.RescueOpts{})
	for action, err := range map[string]error{
		"stop":   servers.Stop(t.Context(), demo, id).ExtractErr(),
		"start":  servers.Start(t.Context(), demo, id).ExtractErr(),
		"reboot": servers.Reboot(t.Context(), demo, id, servers.RebootOpts{Type: servers.HardReboot}).ExtractErr(),
		"rescue": rescue.Err,
	} {
		require.True(t, gophercloud.ResponseCodeIs(err, http.StatusConflict), "%s: %v", action, err)
		require.ErrorContains(t, err, fmt.Sprintf("Cannot '%s' instance %s while it is in vm_state rescued", action, id))
	}

	// A state that was reset does not take the rescue disk away: a reboot by force
	// boots from it again.
	require.NoError(t, servers.ResetState(t.Context(), c.compute(t, ""), id, servers.StateError).ExtractErr())
	require.NoError(t, servers.Reboot(t.Context(), demo, id, servers.RebootOpts{Type: servers.HardReboot}).ExtractErr())
	c.becomes(t, id, "RESCUE")
	log = c.console(t, id, "TG ready", 3)
	require.Contains(t, log[strings.LastIndex(log, "TG init"):], "rootdisk boots=2")
	require.Contains(t, log, "nvcount=3")

	// A guest that powers itself off is off, and still rescued.
	line = c.serial(t, id)
	line.ask("poweroff", "TG poweroff")
	await.For(t, "a guest that powered itself off shows as off", func() bool {
		s, err := servers.Get(t.Context(), demo, id).Extract()
		return err == nil && s.PowerState == servers.SHUTDOWN
	}, c.progress(id))
	c.becomes(t, id, "RESCUE")

	python.run("server", "unrescue", id)
	c.becomes(t, id, "ACTIVE")
	require.Empty(t, c.rescueFiles(t, id))
	log = c.console(t, id, "TG ready", 4)
	require.Contains(t, log[strings.LastIndex(log, "TG init"):], "rootdisk boots=2")
	require.Contains(t, log, "nvcount=4")
	line = c.serial(t, id)
	require.Contains(t, line.ask("cat /root/note", "TG cat "), "kept")
	require.Contains(t, line.ask("cat /dev/vdb", "TG cat "), "repaired")
	require.NoError(t, line.conn.Close())
	require.Empty(t, c.audit(t).Findings)
	err = servers.Unrescue(t.Context(), demo, id).ExtractErr()
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusConflict), "%v", err)
}

// EE-26: the rescue disk of an encrypted image is encrypted with the image's secret,
// also for a server that is not encrypted; neither is a secret made, nor is the
// image's deleted, also by the delete of a rescued server.
func TestRescueWithAnEncryptedImage(t *testing.T) {
	backends(t, openStack, local)
	c := ownCloud(t)
	source := c.create(t, encrypted)
	c.becomes(t, source, "ACTIVE")
	c.console(t, source, "TG ready", 1)
	img := c.createImage(t, source, "rescuer", map[string]any{"key": "new"})
	key := keyOf(t, img, c.passphrases(t))
	c.delete(t, source)
	keys := len(c.passphrases(t))

	id := c.create(t, plainFlavor)
	c.becomes(t, id, "ACTIVE")
	c.console(t, id, "TG ready", 1)
	for round := range 2 {
		c.rescue(t, id, img.ID)
		files := c.rescueFiles(t, id)
		require.Len(t, files, 1)
		requireEncrypted(t, c, id, files)
		log := c.console(t, id, "TG ready", 2+2*round)
		log = log[strings.LastIndex(log, "TG init"):]
		require.Contains(t, log, "rootdisk boots=", "it boots from what the image holds")
		require.Contains(t, log, "disk name=vdb mib=1024 content=ext4")
		require.Len(t, c.passphrases(t), keys)
		c.noSecretIsLent(t, id)
		require.Empty(t, c.audit(t).Findings)
		if round == 0 {
			c.unrescue(t, id)
			require.Empty(t, c.rescueFiles(t, id))
			require.Empty(t, c.audit(t).Findings)
			c.console(t, id, "TG ready", 3)
		}
	}
	c.delete(t, id)
	require.Len(t, c.passphrases(t), keys)
	require.Equal(t, key, keyOf(t, img, c.passphrases(t)))
	c.deleteImage(t, img)
	c.nothingIsLeft(t)
}

// Workers die in the middle of rescues and unrescues of one server.
func TestKillMatrixRescue(t *testing.T) {
	backends(t, local, openStack)
	c := ownCloud(t)
	id := c.create(t, encryptedTIS)
	c.becomes(t, id, "ACTIVE")
	boots := 1
	c.console(t, id, "TG ready", boots)
	rescues, unrescues := cutsOf("rescue", cuts.rescue), cutsOf("unrescue", cuts.unrescue)
	for i := range max(len(rescues), len(unrescues)) {
		rescue, unrescue := rescues[i%len(rescues)], unrescues[i%len(unrescues)]
		t.Run(rescue+" and "+unrescue, func(t *testing.T) {
			t.Run("rescue", func(t *testing.T) {
				c.arm(t, rescue)
				c.rescue(t, id, "")
			})
			require.Empty(t, c.audit(t).Findings)
			boots++
			c.console(t, id, "TG ready", boots)
			t.Run("unrescue", func(t *testing.T) {
				c.arm(t, unrescue)
				c.unrescue(t, id)
			})
			require.Empty(t, c.rescueFiles(t, id))
			require.Empty(t, c.audit(t).Findings)
			boots++
			log := c.console(t, id, "TG ready", boots)
			require.Contains(t, log, fmt.Sprintf("nvcount=%d", boots))
		})
	}
	c.delete(t, id)
	c.nothingIsLeft(t)
}

// A rescue that is cancelled leaves the server as it ran, an unrescue leaves it
// rescued; what undoes them may die meanwhile. Cancelled by a delete, they leave
// nothing.
func TestKillMatrixCancelledRescue(t *testing.T) {
	backends(t, local, openStack)
	c := ownCloud(t)
	id := c.create(t, encryptedTIS)
	c.becomes(t, id, "ACTIVE")
	boots := 1
	cut := func(name, held, armed, status, root string, ask func(t *testing.T)) {
		c.console(t, id, "TG ready", boots)
		t.Run(name, func(t *testing.T) {
			point := c.hold(t, held)
			ask(t)
			point.waits(t, c.progress(id))
			c.arm(t, armed)
			c.cancelOperation(t, id)
			point.release()
			c.becomes(t, id, status)
			require.Empty(t, c.audit(t).Findings)
			boots++
			log := c.console(t, id, "TG ready", boots)
			require.Contains(t, log[strings.LastIndex(log, "TG init"):], root)
			require.Equal(t, "Error", c.newestAction(t, id).Message)
		})
	}
	rescue := func(t *testing.T) { c.askRescue(t, id, "") }
	cut("a rescue that has shut it down", "domain.Start@before", "disk.Remove.disk_file@before", "ACTIVE", "rootdisk boots=2", rescue)
	require.Empty(t, c.rescueFiles(t, id))
	c.rescue(t, id, "")
	boots++
	cut("an unrescue", "domain.Start@before", "domain.Remove.hypervisor_secret@after", "RESCUE", "rootdisk boots=2", func(t *testing.T) {
		require.NoError(t, servers.Unrescue(t.Context(), c.compute(t, "-demo"), id).ExtractErr())
	})
	require.Len(t, c.rescueFiles(t, id), 1)
	c.unrescue(t, id)

	point := c.hold(t, "disk.Create@after")
	rescue(t)
	point.waits(t, c.progress(id))
	require.NoError(t, servers.Delete(t.Context(), c.compute(t, "-demo"), id).ExtractErr())
	point.release()
	c.gone(t, id)
	c.nothingIsLeft(t)
}

// cancelOperation cancels what is running on a server, as an operator may.
func (c *testCloud) cancelOperation(t *testing.T, id string) {
	t.Helper()
	temporal, err := c.DialTemporal(pki.Operator)
	require.NoError(t, err)
	defer temporal.Close()
	require.NoError(t, temporal.CancelWorkflow(t.Context(), "server/"+id, ""))
}
