package integration_test

import (
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/await"
	"strongroom/deploy/dev/stack"
	"strongroom/worker/pki"
)

func (c *testCloud) migrate(t *testing.T, id string) {
	t.Helper()
	require.NoError(t, servers.Migrate(t.Context(), c.compute(t, "-admin"), id).ExtractErr())
	c.becomes(t, id, "VERIFY_RESIZE")
}

// EE-29, EE-30, TPM-03, TPM-16, TPM-17, TPM-19 between two hosts: a server moves with its disks and its TPM's state,
// and comes back as it was when that is reverted. A TPM of another version begins afresh, and the state of the
// old one goes with the confirmation. One that is off needs no key of its owner's. An
// administrator who may not read the keys moves no server that runs; one of its project, whom the key
// manager lets read them, does.
func TestMigrateConfirmAndRevert(t *testing.T) {
	backends(t, openStack, local)
	c := twoHosts(t)
	a, b := c.Host(1), c.Host(2)
	id := c.on(t, a, func() string { return c.create(t, encryptedTPM) })
	c.counts(t, id, 1, 1, 1)
	keys := c.keysOf(t, id)

	require.NoError(t, servers.Migrate(t.Context(), c.compute(t, "-admin"), id).ExtractErr(), "the request itself is allowed")
	c.becomes(t, id, "ACTIVE")
	require.Contains(t, c.refusedBecause(t, id), "check_secrets: ")
	c.requireOn(t, a, id)
	oneCopy(t, id, "the keys are its owner's")

	c.shutOff(t, id)
	before := c.remains(t, a, id)
	c.migrate(t, id)
	c.requireOn(t, b, id)
	require.Contains(t, c.newestEvents(t, id), "receive_tpm")
	require.Equal(t, before, c.remains(t, a, id), "all of it is there until somebody decides")
	for _, name := range []string{"tpm2", "tpm2/tpm2-00.permall"} {
		require.Equal(t, before.TPM[name], c.remains(t, b, id).TPM[name], "bit for bit, modes and owners too")
	}
	require.Zero(t, copies(id))
	require.Empty(t, c.audit(t).Findings)
	require.NoError(t, servers.RevertResize(t.Context(), c.compute(t, "-demo"), id).ExtractErr())
	c.becomes(t, id, "SHUTOFF")
	c.requireOn(t, a, id)
	require.Equal(t, before, c.remains(t, a, id))
	c.hasNothing(t, b, id)
	require.Empty(t, c.audit(t).Findings)

	c.migrate(t, id)
	require.NoError(t, servers.ConfirmResize(t.Context(), c.compute(t, "-demo"), id).ExtractErr())
	c.becomes(t, id, "SHUTOFF")
	c.requireOn(t, b, id)
	c.hasNothing(t, a, id)
	require.Empty(t, c.audit(t).Findings)
	c.startAgain(t, id)
	c.counts(t, id, 1, 2, 2)
	c.requireCertified(t, id, true)
	require.Equal(t, keys, c.keysOf(t, id))
	require.Empty(t, c.audit(t).Findings)

	require.NoError(t, servers.Migrate(t.Context(), c.compute(t, ""), id).ExtractErr())
	c.becomes(t, id, "VERIFY_RESIZE")
	c.requireOn(t, a, id)
	oneCopy(t, id)
	require.Empty(t, c.audit(t).Findings)
	c.revert(t, id)
	c.counts(t, id, 2, 3, 3)
	c.requireCertified(t, id, true)
	c.resizeTo(t, a, id)
	c.confirm(t, id)
	c.hasNothing(t, b, id)
	c.counts(t, id, 1, 4, 4)
	c.requireCertified(t, id, true)
	require.Equal(t, keys, c.keysOf(t, id))
	require.Empty(t, c.audit(t).Findings)

	c.resize(t, id, larger12)
	c.requireOn(t, b, id)
	require.Contains(t, c.console(t, id, "TG ready", 1), "tpm version=1.2")
	require.NotContains(t, c.remains(t, b, id).TPM, "tpm2", "nothing of the old one comes along")
	require.Contains(t, c.remains(t, a, id).TPM, "tpm2")
	c.confirm(t, id)
	c.hasNothing(t, a, id)
	require.Equal(t, keys, c.keysOf(t, id), "it has the key of the old one")
	require.Empty(t, c.audit(t).Findings)

	made := endorsementKeys(c.console(t, id, "TG ready", 1))
	require.Len(t, made, 1)
	require.NoError(t, servers.Migrate(t.Context(), c.compute(t, ""), id).ExtractErr())
	c.becomes(t, id, "VERIFY_RESIZE")
	c.requireOn(t, a, id)
	require.Equal(t, made, endorsementKeys(c.console(t, id, "TG ready", 1)), "TPM-03: a TPM 1.2 keeps its state in a move, too")
	c.confirm(t, id)
	c.hasNothing(t, b, id)
	c.delete(t, id)
	c.nothingIsLeft(t)
}

// resizeTo resizes a server that runs, and goes to the other host.
func (c *testCloud) resizeTo(t *testing.T, to stack.Host, id string) {
	t.Helper()
	c.resize(t, id, largerTPM)
	c.requireOn(t, to, id)
	oneCopy(t, id)
	require.Empty(t, c.audit(t).Findings)
}

// The gateway is killed, or one of the hosts is locked out and has another certificate later, at
// the transfer of a move between two hosts: the move is completed, or undone. Either way one host
// has the server as it was, and the other one nothing.
func TestKillMatrixMove(t *testing.T) {
	backends(t, local, openStack)
	c := twoHosts(t)
	a, b := c.Host(1), c.Host(2)
	id := c.on(t, a, func() string { return c.create(t, encryptedTIS) })
	c.counts(t, id, 1, 1, 1)
	c.shutOff(t, id)
	was := c.remains(t, a, id)
	const source, target = "the source's certificate", "the target's certificate"
	lockedOut := map[string]stack.Host{source: a, target: b}
	for _, k := range killsOf("move", []string{gateway, source, target}, bothSides(cuts.move)) {
		t.Run(k.part+"/"+k.moment, func(t *testing.T) {
			at := c.holdOn(t, b, k.moment)
			require.NoError(t, servers.Migrate(t.Context(), c.compute(t, "-admin"), id).ExtractErr())
			at.waits(t, c.progress(id))
			if k.part == gateway {
				c.kill(t, gateway)
				at.release()
			} else {
				h := lockedOut[k.part]
				name := pki.HostName(c.hostID(t, h))
				refused := func() int {
					return c.refusals(t, "gateway", name, "was revoked") + c.refusals(t, "temporal", name, "was revoked")
				}
				before := refused()
				c.lockOut(t, h)
				at.release()
				await.For(t, "the host that is locked out is refused something", func() bool { return refused() > before }, c.progress(id))
				c.letIn(t, h)
			}
			s := c.settled(t, id)
			require.Contains(t, []string{"VERIFY_RESIZE", "SHUTOFF"}, s.Status)
			if k.part == gateway {
				require.Equal(t, "VERIFY_RESIZE", s.Status, "a gateway that comes back completes the move; fault: %s", s.Fault.Message)
			}
			t.Logf("the server is %s", s.Status)
			require.Zero(t, copies(id))
			if s.Status == "VERIFY_RESIZE" {
				require.Empty(t, c.audit(t).Findings)
				c.requireOn(t, b, id)
				require.Equal(t, was.TPM.state(), c.remains(t, b, id).TPM.state(), "bit for bit, modes and owners too")
				require.NoError(t, servers.RevertResize(t.Context(), c.compute(t, "-demo"), id).ExtractErr())
				c.becomes(t, id, "SHUTOFF")
			}
			c.nothingIsLeftInTime(t)
			c.requireOn(t, a, id)
			require.Equal(t, was, c.remains(t, a, id))
			c.hasNothing(t, b, id)
		})
	}
	c.startAgain(t, id)
	c.counts(t, id, 2, 2, 2)
	c.delete(t, id)
	c.nothingIsLeft(t)
}
