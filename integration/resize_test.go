package integration_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"
)

// largerTPM and largerTIS are flavors that a server of encryptedTPM is resized to.
var (
	largerTPM = flavorSpec{"e2e-crb-large", 256, 2, 2, 128, map[string]string{"hw:ephemeral_encryption": "true", "hw:tpm_version": "2.0", "hw:tpm_model": "tpm-crb"}}
	largerTIS = flavorSpec{"e2e-tis-large", 256, 2, 2, 128, map[string]string{"hw:ephemeral_encryption": "true", "hw:tpm_version": "2.0"}}
	noTPM     = flavorSpec{"e2e-luks-no-tpm", 192, 1, 1, 64, map[string]string{"hw:ephemeral_encryption": "true"}}
	largerNo  = flavorSpec{"e2e-luks-no-tpm-large", 256, 2, 2, 128, map[string]string{"hw:ephemeral_encryption": "true"}}
)

func (c *testCloud) resize(t *testing.T, id string, f flavorSpec) {
	t.Helper()
	require.NoError(t, servers.Resize(t.Context(), c.compute(t, "-demo"), id, servers.ResizeOpts{FlavorRef: c.flavor(t, f)}).ExtractErr())
	c.becomes(t, id, "VERIFY_RESIZE")
}

func (c *testCloud) confirm(t *testing.T, id string) {
	t.Helper()
	require.NoError(t, servers.ConfirmResize(t.Context(), c.compute(t, "-demo"), id).ExtractErr())
	c.becomes(t, id, "ACTIVE")
}

func (c *testCloud) revert(t *testing.T, id string) {
	t.Helper()
	require.NoError(t, servers.RevertResize(t.Context(), c.compute(t, "-demo"), id).ExtractErr())
	c.becomes(t, id, "ACTIVE")
}

// counts requires what the guest counted on its disk and in its TPM, in the boot of that number
// on its host. A TPM that counted 0 is none.
func (c *testCloud) counts(t *testing.T, id string, boot, disk, tpm int) {
	t.Helper()
	log := strings.Split(c.console(t, id, "TG ready", boot), "TG ready")[boot-1]
	require.Contains(t, log, fmt.Sprintf("rootdisk boots=%d", disk))
	if tpm == 0 {
		require.Contains(t, log, "tpm none")
		return
	}
	require.Contains(t, log, fmt.Sprintf("nvcount=%d", tpm))
}

// TPM-16 … TPM-19 on one host: a resize keeps the disks and the state of the vTPM, larger; reverted,
// both are as they were before it; another vTPM begins afresh, and the old one comes back.
func TestResizeConfirmAndRevert(t *testing.T) {
	backends(t, local, openStack)
	c := sharedCloud(t)
	id := c.create(t, encryptedTPM)
	c.becomes(t, id, "ACTIVE")
	c.counts(t, id, 1, 1, 1)
	keys := c.keysOf(t, id)

	c.resize(t, id, largerTPM)
	c.counts(t, id, 2, 2, 2)
	require.Empty(t, c.audit(t).Findings)
	c.revert(t, id)
	c.counts(t, id, 3, 2, 2)
	require.Equal(t, keys, c.keysOf(t, id))
	require.Empty(t, c.audit(t).Findings)

	c.resize(t, id, largerTIS)
	c.counts(t, id, 4, 3, 1)
	c.revert(t, id)
	c.counts(t, id, 5, 3, 3)
	require.Empty(t, c.audit(t).Findings)

	c.resize(t, id, largerTPM)
	c.counts(t, id, 6, 4, 4)
	c.confirm(t, id)
	require.Equal(t, keys, c.keysOf(t, id), "a resize keeps keys")
	require.Empty(t, c.audit(t).Findings)
	c.shutOff(t, id)
	c.startAgain(t, id)
	c.counts(t, id, 7, 5, 5)
	c.delete(t, id)
}

// resizes of a vTPM: what becomes of it, and whether its state is kept beside the new one.
var resizesOfTPM = []struct {
	name     string
	from, to flavorSpec
	keeps    bool
}{
	{"kept", encryptedTPM, largerTPM, true},
	{"changed", encryptedTPM, largerTIS, true},
	{"removed", encryptedTPM, largerNo, false},
	{"added", noTPM, largerTPM, false},
}

// Whatever a worker dies in, a resize ends as it was asked for, and so do both decisions on it,
// whatever becomes of the vTPM.
func TestKillMatrixResize(t *testing.T) {
	backends(t, local)
	c := ownCloud(t)
	type guest struct {
		id               string
		boots, disk, tpm int
	}
	guests := map[string]*guest{}
	for _, f := range []flavorSpec{encryptedTPM, noTPM} {
		g := &guest{id: c.create(t, f), boots: 1, disk: 1}
		if f.specs["hw:tpm_version"] != "" {
			g.tpm = 1
		}
		guests[f.name] = g
		c.becomes(t, g.id, "ACTIVE")
		c.counts(t, g.id, 1, 1, g.tpm)
	}
	resizes, reverts := cutsOf("resize", cuts.resize), cutsOf("revert", cuts.revert)
	first := diceOf("vTPMs of resizes").IntN(len(resizesOfTPM))
	for i := range max(len(resizes), len(reverts)) {
		resize, revert := resizes[i%len(resizes)], reverts[i%len(reverts)]
		how := resizesOfTPM[(first+i)%len(resizesOfTPM)]
		if !how.keeps && strings.Contains(resize+revert, "tpm.") { // it is not come to
			how = resizesOfTPM[i%2]
		}
		t.Run(how.name+", "+resize+" and "+revert, func(t *testing.T) {
			g := guests[how.from.name]
			tpm := map[string]int{"kept": g.tpm + 1, "changed": 1, "added": 1}[how.name]
			keys := c.keysOf(t, g.id)
			c.arm(t, resize)
			c.resize(t, g.id, how.to)
			g.boots++
			c.counts(t, g.id, g.boots, g.disk+1, tpm)
			require.Empty(t, c.audit(t).Findings)
			c.arm(t, revert)
			c.revert(t, g.id)
			g.boots++
			g.disk++
			if g.tpm > 0 {
				g.tpm++
			}
			c.counts(t, g.id, g.boots, g.disk, g.tpm)
			require.Equal(t, keys, c.keysOf(t, g.id))
			require.Empty(t, c.audit(t).Findings)
		})
	}
	for _, g := range guests {
		c.delete(t, g.id)
	}
	for i, point := range cutsOf("confirm", cuts.confirm) {
		how := resizesOfTPM[(first+i)%3] // one that is added leaves nothing to remove
		t.Run(how.name+", "+point, func(t *testing.T) {
			id := c.createIdle(t, how.from)
			c.becomes(t, id, "ACTIVE")
			c.resize(t, id, how.to)
			c.arm(t, point)
			c.confirm(t, id)
			require.Empty(t, c.audit(t).Findings)
			require.Equal(t, how.name == "removed", c.remainsOnDisk(t, c.Host(1), id).TPM == nil)
			c.delete(t, id)
		})
	}
	c.nothingIsLeft(t)
}
