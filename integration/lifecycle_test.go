package integration_test

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"strongroom/compute"
	"strongroom/deploy/await"
	"strongroom/deploy/dev/stack"
)

// EE-01, EE-09, EE-27, EE-36, TPM-03, TPM-09, TPM-11, TPM-13, TPM-31: a server
// with encrypted disks and a vTPM lives through stop and start and leaves nothing.
func TestEncryptedServerWithTPM(t *testing.T) {
	backends(t, local, openStack)
	c := ownCloud(t)
	kinds := []struct {
		flavor  flavorSpec
		version string
		model   compute.TPMModel
		disks   []string
	}{
		{encryptedTPM, "2.0", compute.TPMCRB, []string{"disk", "disk.eph0", "disk.swap"}},
		{encryptedTIS, "2.0", compute.TPMTIS, []string{"disk"}},
		{encrypted12, "1.2", compute.TPMTIS, []string{"disk"}},
	}
	var ids []string
	for _, k := range kinds {
		ids = append(ids, c.create(t, k.flavor))
	}
	t.Run("servers", func(t *testing.T) {
		for i, k := range kinds {
			t.Run(k.flavor.name, func(t *testing.T) {
				t.Parallel()
				c.becomes(t, ids[i], "ACTIVE")
				requireEncrypted(t, c, ids[i], k.disks)
				c.requireTPM(t, ids[i], compute.TPMVersion(k.version), k.model)
				c.requireCertified(t, ids[i], k.version == string(compute.TPM20))
				for name, passphrase := range c.passphrases(t) { // 64 and 384 random bytes, in base64
					if _, what, ours := strings.Cut(name, "strongroom server "+ids[i]+" "); ours {
						require.Len(t, passphrase, map[bool]int{false: 88, true: 512}[strings.HasPrefix(what, "vtpm ")], what)
					}
				}
				livesOn(t, c, ids[i], k.version)
			})
		}
	})
	for _, id := range ids {
		c.noSecretIsLent(t, id)
	}
	for _, id := range ids {
		c.delete(t, id)
	}
	c.nothingIsLeft(t)
}

// noSecretIsLent requires that libvirt knows no secret of a server that runs.
func (c *testCloud) noSecretIsLent(t *testing.T, id string) {
	t.Helper()
	known, err := stack.HypervisorSecrets(t.Context(), c.Layout, id)
	require.NoError(t, err)
	require.Zero(t, known)
}

// livesOn stops and starts a server and requires that its disk and TPM kept what
// they had.
func livesOn(t *testing.T, c *testCloud, id, version string) {
	t.Helper()
	c.console(t, id, "TG tpm version="+version, 1)
	line := c.serial(t, id)
	line.expect("TG tick=")
	require.Contains(t, line.ask("write note kept-"+id, "TG write "), "err=<nil>")
	require.NoError(t, line.conn.Close())

	client := c.compute(t, "-demo")
	require.NoError(t, servers.Stop(t.Context(), client, id).ExtractErr())
	c.becomes(t, id, "SHUTOFF")
	require.NoError(t, servers.Start(t.Context(), client, id).ExtractErr())
	c.becomes(t, id, "ACTIVE")
	log := c.console(t, id, "TG ready", 2)
	require.Contains(t, log, "boots=2", "the root disk kept its content")
	if version == "2.0" {
		require.Contains(t, log, "nvcount=2", "the TPM kept its NV memory")
	} else {
		keys := endorsementKeys(log)
		require.Len(t, keys, 2)
		require.Equal(t, keys[0], keys[1], "TPM-03: the TPM kept its state")
	}
	line = c.serial(t, id)
	require.Contains(t, line.ask("cat /root/note", "TG cat "), "kept-"+id)
	require.NoError(t, line.conn.Close())
}

// endorsementKeys are those that guests told of their TPMs 1.2, a digest for each boot of a log.
func endorsementKeys(log string) (keys []string) {
	for _, found := range regexp.MustCompile(`TG tpm ek=([0-9a-f]{64}) err=<nil>`).FindAllStringSubmatch(log, -1) {
		keys = append(keys, found[1])
	}
	return keys
}

func requireEncrypted(t *testing.T, c *testCloud, id string, files []string) {
	t.Helper()
	for _, f := range files {
		path := filepath.Join(c.Instances(), id, f)
		out, err := exec.Command("qemu-img", "info", "-U", "--output=json", path).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), `"encrypted": true`, path)
		require.Contains(t, string(out), `"format": "luks"`, path)
	}
}

// The claims of many creates at once fit the host, and all of them boot.
func TestTwentyCreatesAtOnce(t *testing.T) {
	backends(t, local, openStack)
	c := quietCloud(t)
	client, flavor := c.compute(t, "-demo"), c.flavor(t, encrypted)
	ids := make([]string, 20)
	var asking errgroup.Group
	for i := range ids {
		asking.Go(func() error {
			s, err := servers.Create(t.Context(), client, servers.CreateOpts{
				Name: fmt.Sprintf("burst-%d", i), FlavorRef: flavor, ImageRef: c.idler, Networks: "none",
			}, nil).Extract()
			if err == nil {
				ids[i] = s.ID
			}
			return err
		})
	}
	require.NoError(t, asking.Wait())
	for _, id := range ids {
		c.becomes(t, id, "ACTIVE")
	}
	for _, id := range ids {
		require.NoError(t, servers.Delete(t.Context(), client, id).ExtractErr())
	}
	for _, id := range ids {
		c.gone(t, id)
	}
	c.nothingIsLeft(t)
}

// A second operation on a busy server is refused and changes nothing.
func TestBusyServerRefusesASecondOperation(t *testing.T) {
	backends(t, local, openStack)
	c := sharedCloud(t)
	id := c.createIdle(t, encrypted)
	client := c.compute(t, "-demo")
	err := servers.Stop(t.Context(), client, id).ExtractErr()
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusConflict), "%v", err)
	c.becomes(t, id, "ACTIVE")

	first := servers.Stop(t.Context(), client, id).ExtractErr()
	second := servers.Stop(t.Context(), client, id).ExtractErr()
	require.NoError(t, first)
	require.True(t, gophercloud.ResponseCodeIs(second, http.StatusConflict), "%v", second)
	require.Contains(t, second.Error(), "while it is in task_state powering-off")
	c.becomes(t, id, "SHUTOFF")
}

// Delete wins over a create that still runs, at whatever step it is.
func TestDeleteOfAServerBeingBuilt(t *testing.T) {
	backends(t, local, openStack)
	c := sharedCloud(t)
	for range 3 {
		id := c.createIdle(t, encryptedTPM)
		c.delete(t, id)
		c.nothingIsLeft(t)
	}
}

// No host can take it: ERROR with Nova's words, and nothing left (EE-05).
func TestNoHostCanTakeIt(t *testing.T) {
	backends(t, local, openStack)
	c := sharedCloud(t)
	huge := flavorSpec{name: "e2e-huge", memory: 64 << 20, root: 1, specs: map[string]string{"hw:ephemeral_encryption": "true"}}
	format := func(name string) flavorSpec { // the host has no volume group
		return flavorSpec{name: "e2e-" + name, memory: 128, root: 1, specs: map[string]string{
			"hw:ephemeral_encryption": "true", "hw:ephemeral_encryption_format": name,
		}}
	}
	for _, f := range []flavorSpec{huge, format("luksv2"), format("plain")} {
		id := c.create(t, f)
		s := c.becomes(t, id, "ERROR")
		require.Equal(t, "No valid host was found. There are not enough hosts available.", s.Fault.Message)
		c.nothingIsLeft(t)
	}
}

// TPM-13: a reboot, soft and hard, reads the keys again and keeps disk and TPM; libvirt has none of the keys afterwards.
func TestReboot(t *testing.T) {
	backends(t, openStack, local)
	c := sharedCloud(t)
	id := c.create(t, encryptedTIS)
	c.becomes(t, id, "ACTIVE")
	c.console(t, id, "TG ready", 1)
	client := c.compute(t, "-demo")
	for i, how := range []servers.RebootMethod{servers.SoftReboot, servers.HardReboot} {
		require.NoError(t, servers.Reboot(t.Context(), client, id, servers.RebootOpts{Type: how}).ExtractErr())
		c.becomes(t, id, "ACTIVE")
		log := c.console(t, id, "TG ready", i+2)
		require.Contains(t, log, fmt.Sprintf("nvcount=%d", i+2))
		c.noSecretIsLent(t, id)
	}
}

// A guest that powers itself off shows as SHUTOFF, and starts again.
func TestGuestPowersItselfOff(t *testing.T) {
	backends(t, local, openStack)
	c := sharedCloud(t)
	id := c.create(t, encrypted)
	c.becomes(t, id, "ACTIVE")
	line := c.serial(t, id)
	line.expect("TG tick=")
	line.ask("poweroff", "TG poweroff")
	client := c.compute(t, "-demo")
	await.For(t, "a guest that powered itself off shows as off", func() bool {
		s, err := servers.Get(t.Context(), client, id).Extract()
		return err == nil && s.Status == "SHUTOFF"
	}, c.progress(id))
	require.NoError(t, servers.Start(t.Context(), client, id).ExtractErr())
	c.becomes(t, id, "ACTIVE")
}

// The console log of the API is the guest's.
func TestConsoleOutput(t *testing.T) {
	backends(t, local, openStack)
	c := sharedCloud(t)
	id := c.create(t, encrypted)
	c.becomes(t, id, "ACTIVE")
	c.console(t, id, "TG ready", 1)
	client := c.compute(t, "-demo")
	all, err := servers.ShowConsoleOutput(t.Context(), client, id, servers.ShowConsoleOutputOpts{}).Extract()
	require.NoError(t, err)
	require.Contains(t, all, "TG ready")
	last, err := servers.ShowConsoleOutput(t.Context(), client, id, servers.ShowConsoleOutputOpts{Length: 3}).Extract()
	require.NoError(t, err)
	require.LessOrEqual(t, strings.Count(strings.TrimSpace(last), "\n"), 2)
}
