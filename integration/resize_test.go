package integration_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// largerTPM, largerTIS and larger12 are flavors that a server of encryptedTPM is resized to.
var (
	largerTPM = flavorSpec{"e2e-crb-large", 256, 2, 2, 128, map[string]string{"hw:ephemeral_encryption": "true", "hw:tpm_version": "2.0", "hw:tpm_model": "tpm-crb"}}
	largerTIS = flavorSpec{"e2e-tis-large", 256, 2, 2, 128, map[string]string{"hw:ephemeral_encryption": "true", "hw:tpm_version": "2.0"}}
	larger12  = flavorSpec{"e2e-tis12-large", 256, 2, 2, 128, map[string]string{"hw:ephemeral_encryption": "true", "hw:tpm_version": "1.2"}}
	noTPM     = flavorSpec{"e2e-luks-no-tpm", 192, 1, 1, 64, map[string]string{"hw:ephemeral_encryption": "true"}}
	largerNo  = flavorSpec{"e2e-luks-no-tpm-large", 256, 2, 2, 128, map[string]string{"hw:ephemeral_encryption": "true"}}
)

func (c *testCloud) resize(t *testing.T, id string, f flavorSpec) {
	t.Helper()
	to := c.flavor(t, f)
	require.NoError(t, servers.Resize(t.Context(), c.asking(t, "-demo"), id, servers.ResizeOpts{FlavorRef: to}).ExtractErr())
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

// resizeRefused requires that a server of a format of encryption ("none" for none) cannot be resized to flavors of
// other formats, and is as it was (EE-33).
func (c *testCloud) resizeRefused(t *testing.T, id, format string, vTPM map[string]string) {
	t.Helper()
	was, disks, action := c.settled(t, id), c.disks(t, id), c.newestAction(t, id)
	for _, f := range []struct{ name, says string }{{"none", "false"}, {"luks", "true"}, {"luksv2", "true"}, {"plain", "true"}} {
		if f.name == format {
			continue
		}
		specs := maps.Clone(vTPM)
		specs["hw:ephemeral_encryption"] = f.says
		if f.name != "none" {
			specs["hw:ephemeral_encryption_format"] = f.name
		}
		large := flavorSpec{fmt.Sprintf("e2e-%s-to-%s", format, f.name), 256, 2, 2, 128, specs}
		err := servers.Resize(t.Context(), c.compute(t, "-demo"), id, servers.ResizeOpts{FlavorRef: c.flavor(t, large)}).ExtractErr()
		require.True(t, gophercloud.ResponseCodeIs(err, http.StatusConflict), "%s: %v", f.name, err)
		require.ErrorContains(t, err, "differ in the encryption of disks ("+format+" and "+f.name+")")
	}
	now := c.settled(t, id)
	require.Equal(t, was.Status, now.Status)
	require.Equal(t, was.Flavor, now.Flavor)
	require.Equal(t, disks, c.disks(t, id))
	require.Equal(t, action, c.newestAction(t, id))
}

// EE-33, TPM-16, TPM-17, TPM-19 on one host: a resize keeps the disks and the state of the vTPM, larger; reverted,
// both are as they were before it; another vTPM begins afresh, and the old one comes back. One that
// would encrypt, decrypt or convert disks is refused before anything changes.
func TestResizeConfirmAndRevert(t *testing.T) {
	backends(t, openStack, local)
	c := sharedCloud(t)
	id := c.create(t, encryptedTPM)
	c.becomes(t, id, "ACTIVE")
	c.counts(t, id, 1, 1, 1)
	keys := c.keysOf(t, id)
	c.resizeRefused(t, id, "luks", map[string]string{"hw:tpm_version": "2.0", "hw:tpm_model": "tpm-crb"})

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

// TPM-18: a resize that adds a vTPM makes its key and an empty state, which go when it is reverted and
// stay when it is confirmed. One that leaves the vTPM out takes both away when it is confirmed; reverted, the
// state is as it was, bit for bit.
func TestResizeAddsAndRemovesAVTPM(t *testing.T) {
	backends(t, openStack, local)
	c := sharedCloud(t)
	id := c.createIdle(t, noTPM)
	c.becomes(t, id, "ACTIVE")
	without := c.keysOf(t, id)
	has := func(keys []string, tpm bool) {
		t.Helper()
		require.Equal(t, keys, c.keysOf(t, id))
		require.Equal(t, tpm, c.systemMetadata(t, id, compute.SystemTPMSecret) != "")
		found := c.remains(t, c.Host(1), id)
		if found.Running { // one that is off is defined anew when it starts
			require.Equal(t, tpm, strings.Contains(found.Domain, "<tpm "))
		}
		require.Equal(t, tpm, found.TPM != nil)
		require.Empty(t, c.audit(t).Findings)
	}
	has(without, false)
	c.resize(t, id, largerTPM)
	added := c.keysOf(t, id)
	require.Len(t, added, len(without)+1)
	has(added, true)
	c.requireTPM(t, id, compute.TPM20, compute.TPMCRB)
	c.revert(t, id)
	has(without, false)

	c.resize(t, id, largerTPM)
	again := c.keysOf(t, id)
	require.Len(t, again, len(without)+1)
	require.NotEqual(t, added, again, "the first one's key is gone")
	c.confirm(t, id)
	has(again, true)

	c.shutOff(t, id)
	state := c.remainsOnDisk(t, c.Host(1), id).TPM.state()
	require.NotEmpty(t, state)
	demo := c.compute(t, "-demo")
	c.resize(t, id, largerNo)
	require.Equal(t, again, c.keysOf(t, id), "it is not decided")
	require.NoError(t, servers.RevertResize(t.Context(), demo, id).ExtractErr())
	c.becomes(t, id, "SHUTOFF")
	has(again, true)
	require.Equal(t, state, c.remainsOnDisk(t, c.Host(1), id).TPM.state())
	c.resize(t, id, largerNo)
	require.NoError(t, servers.ConfirmResize(t.Context(), demo, id).ExtractErr())
	c.becomes(t, id, "SHUTOFF")
	has(without, false)
	c.startAgain(t, id)
	has(without, false)
	c.delete(t, id)
}

// TPM-17 … TPM-19 on one host: a server that is off gets a vTPM of another version, or a first one, without being started. Reverted, the
// state is as it was, bit for bit, with owners and modes; confirmed, nothing of it is left, and the next boot makes the new one.
func TestResizeOfAServerThatIsOff(t *testing.T) {
	backends(t, local, openStack)
	c := sharedCloud(t)
	demo := c.compute(t, "-demo")
	decides := func(id string, err error) {
		t.Helper()
		require.NoError(t, err)
		c.becomes(t, id, "SHUTOFF")
		require.Empty(t, c.audit(t).Findings)
	}
	id := c.create(t, encryptedTPM)
	c.becomes(t, id, "ACTIVE")
	c.counts(t, id, 1, 1, 1)
	c.shutOff(t, id)
	keys, was := c.keysOf(t, id), c.remainsOnDisk(t, c.Host(1), id).TPM
	require.Contains(t, was, "tpm2")
	c.resize(t, id, larger12)
	require.NotContains(t, c.remainsOnDisk(t, c.Host(1), id).TPM, "tpm2")
	decides(id, servers.RevertResize(t.Context(), demo, id).ExtractErr())
	require.Equal(t, was.state(), c.remainsOnDisk(t, c.Host(1), id).TPM.state(), "bit for bit, modes and owners too")
	c.startAgain(t, id)
	c.counts(t, id, 2, 2, 2)
	c.shutOff(t, id)
	c.resize(t, id, larger12)
	decides(id, servers.ConfirmResize(t.Context(), demo, id).ExtractErr())
	c.startAgain(t, id)
	log := c.console(t, id, "TG ready", 3)
	require.Contains(t, log[strings.LastIndex(log, "TG init"):], "tpm version=1.2")
	is := c.remainsOnDisk(t, c.Host(1), id).TPM
	require.Contains(t, is, "tpm1.2")
	require.NotContains(t, is, "tpm2")
	require.Equal(t, keys, c.keysOf(t, id), "it has the key of the old one")
	c.delete(t, id)

	id = c.createIdle(t, noTPM)
	c.becomes(t, id, "ACTIVE")
	c.shutOff(t, id)
	without := c.keysOf(t, id)
	c.resize(t, id, largerTPM)
	require.Len(t, c.keysOf(t, id), len(without)+1)
	decides(id, servers.RevertResize(t.Context(), demo, id).ExtractErr())
	require.Equal(t, without, c.keysOf(t, id))
	c.resize(t, id, largerTPM)
	decides(id, servers.ConfirmResize(t.Context(), demo, id).ExtractErr())
	require.Nil(t, c.remainsOnDisk(t, c.Host(1), id).TPM, "it has not booted")
	c.startAgain(t, id)
	c.requireTPM(t, id, compute.TPM20, compute.TPMCRB)
	require.NotEmpty(t, c.remainsOnDisk(t, c.Host(1), id).TPM.state())
	require.Empty(t, c.audit(t).Findings)
	c.delete(t, id)
}

// TPM-18: a resize that takes a vTPM away whose key is strongroom's own is its owner's as any other, and so is its revert,
// which brings it back as it was.
func TestResizeOfAVTPMWhoseKeyIsStrongrooms(t *testing.T) {
	backends(t, openStack, local)
	c := sharedCloud(t)
	ours := flavorSpec{"e2e-tpm-of-deployment", 192, 1, 0, 0, map[string]string{
		"hw:ephemeral_encryption": "true", "hw:tpm_version": "2.0", "hw:tpm_secret_security": "deployment",
	}}
	id := c.create(t, ours)
	c.becomes(t, id, "ACTIVE")
	c.counts(t, id, 1, 1, 1)
	key := c.systemMetadata(t, id, compute.SystemTPMSecret)
	c.resize(t, id, flavorSpec{"e2e-luks-larger", 256, 2, 0, 0, map[string]string{"hw:ephemeral_encryption": "true"}})
	c.counts(t, id, 2, 2, 0)
	c.revert(t, id)
	c.counts(t, id, 3, 2, 2)
	require.Equal(t, key, c.systemMetadata(t, id, compute.SystemTPMSecret))
	require.Empty(t, c.audit(t).Findings)
	c.delete(t, id)
}

// TPM-18, EE-30: a resize to a flavor whose keys the owner delegates is his as any other. After it an administrator of another
// project starts the server, who could not before; and not any more after one back to a flavor that delegates none.
func TestResizeToKeysThatAreDelegated(t *testing.T) {
	backends(t, openStack, local)
	c := sharedCloud(t)
	id := c.create(t, encryptedTIS)
	c.becomes(t, id, "ACTIVE")
	c.counts(t, id, 1, 1, 1)
	c.resize(t, id, flavorSpec{"e2e-delegated-larger", 256, 2, 0, 0, delegated.specs})
	c.confirm(t, id)
	c.counts(t, id, 2, 2, 2)
	reboot := func() string {
		require.NoError(t, servers.Reboot(t.Context(), c.compute(t, "-admin"), id, servers.RebootOpts{Type: servers.HardReboot}).ExtractErr())
		c.becomes(t, id, "ACTIVE")
		return c.newestAction(t, id).Message
	}
	require.Empty(t, reboot())
	c.counts(t, id, 3, 3, 3)
	c.resize(t, id, flavorSpec{"e2e-tis-larger", 256, 2, 0, 0, encryptedTIS.specs})
	c.confirm(t, id)
	c.counts(t, id, 4, 4, 4)
	require.NotEmpty(t, reboot())
	require.Empty(t, c.audit(t).Findings)
	c.delete(t, id)
}

// A resize is confirmed by itself, and a shelved server leaves its host by itself, when the time is over that
// the operator set.
func TestMovesThatEndByThemselves(t *testing.T) {
	backends(t, local, openStack)
	c := ownCloud(t)
	c.configured(t, "api", "api", map[string]any{"resize_confirm_window": 5, "shelved_offload_time": 5})
	id := c.createIdle(t, encryptedTPM)
	c.becomes(t, id, "ACTIVE")
	require.NoError(t, servers.Resize(t.Context(), c.compute(t, "-demo"), id, servers.ResizeOpts{FlavorRef: c.flavor(t, largerTPM)}).ExtractErr())
	c.shows(t, id, "ACTIVE", servers.RUNNING) // until it is confirmed it is something else
	c.becomes(t, id, "ACTIVE")
	require.Equal(t, "confirmResize", c.newestAction(t, id).Action)
	require.True(t, gophercloud.ResponseCodeIs(servers.RevertResize(t.Context(), c.compute(t, "-demo"), id).ExtractErr(), http.StatusConflict))
	require.Empty(t, c.audit(t).Findings)

	require.NoError(t, servers.Shelve(t.Context(), c.compute(t, "-demo"), id).ExtractErr())
	c.shows(t, id, "SHELVED_OFFLOADED", servers.SHUTDOWN)
	c.becomes(t, id, "SHELVED_OFFLOADED")
	require.Equal(t, "shelveOffload", c.newestAction(t, id).Action)
	c.hasNothingSoon(t, c.Host(1), id) // a busy host may be asked again
	require.Empty(t, c.audit(t).Findings)
	c.unshelve(t, id)
	c.delete(t, id)
	c.nothingIsLeft(t)
}

// resizeOfTPM is what a resize does with a vTPM.
type resizeOfTPM struct {
	name     string
	from, to flavorSpec
	keeps    bool // of a guest that runs, the state is kept beside the new one
}

var resizesOfTPM = []resizeOfTPM{
	{"kept", encryptedTPM, largerTPM, true},
	{"changed", encryptedTPM, largerTIS, true},
	{"removed", encryptedTPM, largerNo, false},
	{"added", noTPM, largerTPM, false},
}

// resized is a server that is resized to and fro, and what its guest counted.
type resized struct {
	*testCloud
	id               string
	boots, disk, tpm int
}

// partsOfAResize are the parts of a resize on one host, beside its worker, which dies at each activity.
var partsOfAResize = []string{control, "temporal", gateway, sourceLibvirt}

// TPM-16 … TPM-19: whatever a worker or another part dies in, a resize ends as it was asked for, and so do both decisions on it,
// whatever becomes of the vTPM, also of a server that is off.
func TestKillMatrixResize(t *testing.T) {
	backends(t, local, openStack)
	c := ownCloud(t)
	guests := map[string]*resized{}
	for _, f := range []flavorSpec{encryptedTPM, noTPM} {
		g := &resized{testCloud: c, id: c.create(t, f), boots: 1, disk: 1}
		if f.specs["hw:tpm_version"] != "" {
			g.tpm = 1
		}
		guests[f.name] = g
		c.becomes(t, g.id, "ACTIVE")
		c.counts(t, g.id, 1, 1, g.tpm)
	}
	resizes := troublesOf("resize", cuts.resize, partsOfAResize, []string{"disk.Resize", "domain.Start"}, 3)
	reverts := troublesOf("revert", cuts.revert, partsOfAResize, []string{"domain.Start"}, 3)
	first := diceOf("vTPMs of resizes").IntN(len(resizesOfTPM))
	for i := range max(len(resizes), len(reverts)) {
		resize, revert := resizes[i%len(resizes)], reverts[i%len(reverts)]
		how := resizesOfTPM[(first+i)%len(resizesOfTPM)]
		if !how.keeps && strings.Contains(resize+revert, "tpm.") { // it is not come to
			how = resizesOfTPM[i%2]
		}
		t.Run(how.name+", "+resize+" and "+revert, func(t *testing.T) { guests[how.from.name].goes(t, how, resize, revert) })
	}
	for _, g := range guests {
		c.shutOff(t, g.id)
	}
	for _, point := range troublesOf("resizes of servers that are off", cuts.resizeOff, nil, nil, 2) {
		t.Run("off, "+point, func(t *testing.T) {
			name, rest, _ := strings.Cut(point, ", ")
			how := resizesOfTPM[slices.IndexFunc(resizesOfTPM, func(r resizeOfTPM) bool { return r.name == name })]
			operation, activity, _ := strings.Cut(rest, ": ")
			at := map[string]string{operation: activity}
			if operation == "confirm" {
				c.confirmedOff(t, how, at)
			} else {
				guests[how.from.name].revertedOff(t, how, at)
			}
		})
	}
	for _, g := range guests { // what they had before all of that
		c.startAgain(t, g.id)
		c.counts(t, g.id, g.boots+1, g.disk+1, map[bool]int{true: g.tpm + 1}[g.tpm > 0])
		c.delete(t, g.id)
	}
	for i, point := range troublesOf("confirm", cuts.confirm, partsOfAResize, []string{"disk.Remove.disk_file"}, 1) {
		how := resizesOfTPM[(first+i)%3] // one that is added leaves nothing to remove
		t.Run(how.name+", "+point, func(t *testing.T) {
			id := c.createIdle(t, how.from)
			c.becomes(t, id, "ACTIVE")
			c.resize(t, id, how.to)
			c.completes(t, id, point, "ACTIVE", c.toConfirm(t, id))
			require.Empty(t, c.audit(t).Findings)
			require.Equal(t, how.name == "removed", c.remainsOnDisk(t, c.Host(1), id).TPM == nil)
			c.delete(t, id)
		})
	}
	c.nothingIsLeft(t)
}

// completes asks for an operation on a server, in which a part dies if a point is named, and which is completed all the same: each comes back.
func (c *testCloud) completes(t *testing.T, id, point, status string, ask func() error) {
	t.Helper()
	strike := func() {}
	if point != "" {
		strike = c.meets(t, point, c.Host(1), c.Host(1), c.progress(id))
	}
	require.NoError(t, ask())
	strike()
	c.becomes(t, id, status)
}

func (c *testCloud) toResize(t *testing.T, id string, f flavorSpec) func() error {
	t.Helper()
	to := servers.ResizeOpts{FlavorRef: c.flavor(t, f)}
	return func() error { return servers.Resize(t.Context(), c.compute(t, "-demo"), id, to).ExtractErr() }
}

func (c *testCloud) toConfirm(t *testing.T, id string) func() error {
	t.Helper()
	return func() error { return servers.ConfirmResize(t.Context(), c.compute(t, "-demo"), id).ExtractErr() }
}

func (c *testCloud) toRevert(t *testing.T, id string) func() error {
	t.Helper()
	return func() error { return servers.RevertResize(t.Context(), c.compute(t, "-demo"), id).ExtractErr() }
}

// goes resizes a server that runs and reverts that: in both a worker dies.
func (g *resized) goes(t *testing.T, how resizeOfTPM, resize, revert string) {
	t.Helper()
	tpm := map[string]int{"kept": g.tpm + 1, "changed": 1, "added": 1}[how.name]
	keys := g.keysOf(t, g.id)
	g.completes(t, g.id, resize, "VERIFY_RESIZE", g.toResize(t, g.id, how.to))
	g.boots++
	g.counts(t, g.id, g.boots, g.disk+1, tpm)
	require.Empty(t, g.audit(t).Findings)
	g.completes(t, g.id, revert, "ACTIVE", g.toRevert(t, g.id))
	g.boots++
	g.disk++
	if g.tpm > 0 {
		g.tpm++
	}
	g.counts(t, g.id, g.boots, g.disk, g.tpm)
	require.Equal(t, keys, g.keysOf(t, g.id))
	require.Empty(t, g.audit(t).Findings)
}

// revertedOff resizes a server that is off and reverts that. In one of the two a worker dies; the server is off all the while, and
// has afterwards what it had.
func (g *resized) revertedOff(t *testing.T, how resizeOfTPM, at map[string]string) {
	t.Helper()
	keys, state := g.keysOf(t, g.id), g.remainsOnDisk(t, g.Host(1), g.id).TPM.state()
	g.completes(t, g.id, at["resize"], "VERIFY_RESIZE", g.toResize(t, g.id, how.to))
	require.Zero(t, copies(g.id))
	require.Len(t, g.keysOf(t, g.id), len(keys)+map[string]int{"added": 1}[how.name])
	if how.name == "changed" {
		require.Empty(t, g.remainsOnDisk(t, g.Host(1), g.id).TPM.state(), "the next boot makes the new one")
	}
	require.Empty(t, g.audit(t).Findings)
	g.completes(t, g.id, at["revert"], "SHUTOFF", g.toRevert(t, g.id))
	require.Zero(t, copies(g.id))
	require.Equal(t, keys, g.keysOf(t, g.id))
	require.Equal(t, state, g.remainsOnDisk(t, g.Host(1), g.id).TPM.state(), "bit for bit, modes and owners too")
	require.Empty(t, g.audit(t).Findings)
}

// confirmedOff resizes a server that is off and confirms that, in which a worker dies. It boots as it is by then.
func (c *testCloud) confirmedOff(t *testing.T, how resizeOfTPM, at map[string]string) {
	t.Helper()
	id := c.createIdle(t, how.from)
	c.becomes(t, id, "ACTIVE")
	c.shutOff(t, id)
	keys := len(c.keysOf(t, id))
	c.completes(t, id, "", "VERIFY_RESIZE", c.toResize(t, id, how.to))
	c.completes(t, id, at["confirm"], "SHUTOFF", c.toConfirm(t, id))
	require.Empty(t, c.audit(t).Findings)
	require.Empty(t, c.remainsOnDisk(t, c.Host(1), id).TPM.state(), "neither the old one nor, before a boot, a new one")
	require.Len(t, c.keysOf(t, id), keys-map[string]int{"removed": 1}[how.name])
	c.startAgain(t, id)
	require.Equal(t, how.name == "removed", len(c.remainsOnDisk(t, c.Host(1), id).TPM.state()) == 0)
	c.delete(t, id)
}
