package integration_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"strongroom/compute"
	"strongroom/deploy/dev/stack"
)

// sharesTPMs has a host have its states of TPMs where another one has them, until the test ends, as
// hosts with a file system of the network do.
func (c *testCloud) sharesTPMs(t *testing.T, h, with stack.Host) {
	t.Helper()
	c.powerOff(t, h)
	require.NoError(t, unix.Mount(with.SwtpmDir(), h.SwtpmDir(), "", unix.MS_BIND, ""))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), settleTimeout)
		defer cancel()
		require.NoError(t, h.PowerOff(ctx))
		require.NoError(t, unix.Unmount(h.SwtpmDir(), unix.MNT_DETACH))
		c.powerOn(t, h) // it says that it is by itself again
	})
	c.powerOn(t, h)
	c.isDown(t, h, false)
}

// stateOf is the state of a server's TPM where both hosts have it.
func (c *testCloud) stateOf(t *testing.T, id string) files {
	t.Helper()
	here, there := c.remains(t, c.Host(1), id).TPM.state(), c.remains(t, c.Host(2), id).TPM.state()
	require.Equal(t, here, there)
	return here
}

// TPM-39: hosts that share the storage of the states of TPMs know it. A state is not copied and not
// removed where it was; a revert brings it back; an evacuate keeps it, and the host that comes back
// leaves it alone. No server is migrated live there: two swtpms would use one state. A delete
// removes it once.
func TestTPMStateOnStorageThatHostsShare(t *testing.T) {
	backends(t, openStack, local)
	c := twoHosts(t)
	a, b := c.Host(1), c.Host(2)
	c.sharesTPMs(t, b, a)
	marks := make([]string, 2)
	for i, h := range []stack.Host{a, b} {
		text, err := os.ReadFile(filepath.Join(h.SwtpmDir(), ".strongroom-storage"))
		require.NoError(t, err)
		marks[i] = string(text)
	}
	require.Equal(t, marks[0], marks[1])

	id := c.on(t, a, func() string { return c.create(t, encryptedTPM) })
	oneCopyAtMost(t, id)
	c.counts(t, id, 1, 1, 1)
	live := c.dryRun(t, "", id, "live-migrate")
	require.False(t, live.Succeeds)
	require.Equal(t, compute.NoValidHost, live.Refusals[0].Message)
	err := c.liveMigrate(t, id, &b)
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusConflict), "%v", err)
	require.ErrorContains(t, err, compute.SharedTPMStorage)
	c.requireOn(t, a, id)

	c.resizeTo(t, b, id)
	require.Contains(t, c.newestEvents(t, id), "look_for_tpm")
	require.NotContains(t, c.newestEvents(t, id), "receive_tpm", "it was not copied")
	c.counts(t, id, 1, 2, 2)
	c.revert(t, id)
	c.requireOn(t, a, id)
	c.counts(t, id, 2, 2, 2)
	c.resizeTo(t, b, id)
	c.confirm(t, id)
	c.counts(t, id, 1, 3, 3)
	require.NotEmpty(t, c.stateOf(t, id))
	require.Empty(t, c.remains(t, a, id).Domain)
	require.Empty(t, c.audit(t).Findings)

	c.powerOff(t, b)
	c.isDown(t, b, true)
	c.forceDown(t, b, true)
	c.isSilent(t, b, id)
	for _, lost := range c.dryRun(t, "", id, "evacuate").Lost {
		require.NotContains(t, lost.What, "vTPM")
	}
	c.evacuate(t, id, "2.14")
	c.becomes(t, id, "ACTIVE")
	c.requireOn(t, a, id)
	require.Empty(t, c.newestAction(t, id).Message, "nothing is lost that the user must be told of")
	c.counts(t, id, 1, 1, 4) // the disk is new, the TPM is not
	c.powerOn(t, b)
	c.forceDown(t, b, false)
	c.evacuated(t, b, id)
	require.NotEmpty(t, c.stateOf(t, id), "the host that is back leaves it alone")
	require.Empty(t, c.audit(t).Findings)
	c.shutOff(t, id)
	c.startAgain(t, id)
	c.counts(t, id, 2, 2, 5)
	c.delete(t, id)
	require.Empty(t, c.stateOf(t, id))
	c.nothingIsLeft(t)
}
