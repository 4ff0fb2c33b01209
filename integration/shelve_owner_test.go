package integration_test

import (
	"context"
	"net/http"
	"syscall"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/instanceactions"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/await"
	"strongroom/deploy/dev/process"
)

// refusedBecause waits until the newest operation of a server has failed, and gives what an
// administrator reads of why.
func (c *testCloud) refusedBecause(t *testing.T, id string) (why string) {
	t.Helper()
	await.For(t, "the newest operation on server "+id+" has failed", func() bool { return c.newestAction(t, id).Message == "Error" }, c.progress(id))
	detail, err := instanceactions.Get(t.Context(), c.compute(t, ""), id, c.newestAction(t, id).RequestID).Extract()
	require.NoError(t, err)
	for _, e := range *detail.Events {
		why += e.Event + ": " + e.Traceback + "\n"
	}
	return why
}

// EE-30, TPM-36: an administrator of another project who may not read the keys can neither
// shelve a server, whose guest is not stopped for that, nor unshelve the one that its owner
// shelved. The trail says why. The owner can do both. TPM-31, TPM-32: the administrator
// can delete it while it is offloaded.
func TestShelveByAnAdministratorWithoutTheKeys(t *testing.T) {
	backends(t, openStack, local)
	c := ownCloud(t)
	id := c.create(t, encryptedTIS)
	c.becomes(t, id, "ACTIVE")
	c.console(t, id, "TG ready", 1)
	stranger := c.compute(t, "-admin")
	require.NoError(t, servers.Shelve(t.Context(), stranger, id).ExtractErr(), "the request itself is allowed")
	why := c.refusedBecause(t, id)
	require.Contains(t, why, "check_secrets: ")
	c.namesTheRole(t, why)
	require.Equal(t, "ACTIVE", c.settled(t, id).Status)
	require.NotContains(t, c.console(t, id, "TG ready", 1), "boots=2", "it was not stopped")
	require.Empty(t, c.keptAs(t, id))
	c.nothingIsLeft(t)

	c.shelve(t, id)
	kept := len(c.keptAs(t, id))
	require.NotZero(t, kept)
	require.NoError(t, servers.Unshelve(t.Context(), stranger, id, servers.UnshelveOpts{}).ExtractErr(), "the request itself is allowed")
	why = c.refusedBecause(t, id)
	require.Contains(t, why, "check_secrets: ")
	c.namesTheRole(t, why)
	require.Equal(t, "SHELVED_OFFLOADED", c.settled(t, id).Status)
	require.Len(t, c.keptAs(t, id), kept)
	require.Empty(t, c.audit(t).Findings)

	c.unshelve(t, id)
	require.Contains(t, c.console(t, id, "TG ready", 1), "nvcount=2", "the TPM is the same")
	c.nothingIsLeft(t)

	c.shelve(t, id)
	require.NoError(t, servers.Delete(t.Context(), stranger, id).ExtractErr())
	c.goneAs(t, "-reader", id)
	c.gone(t, id) // the owner looks: on a real cloud what is his is removed with his credential
	c.nothingIsLeftInTime(t)
}

// EE-25, TPM-27: where the flavor lets strongroom read the keys, an administrator of another project shelves a
// server. What is kept is its owner's, no key is made or goes, and the owner can unshelve it.
func TestShelveByAnAdministrator(t *testing.T) {
	backends(t, openStack, local)
	c := sharedCloud(t)
	id := c.create(t, delegated)
	c.becomes(t, id, "ACTIVE")
	c.counts(t, id, 1, 1, 1)
	keys := c.keysOf(t, id)
	require.NoError(t, servers.Shelve(t.Context(), c.compute(t, "-admin"), id).ExtractErr())
	s := c.becomes(t, id, "SHELVED_OFFLOADED")
	kept := c.keptAs(t, id)
	require.Len(t, kept, 1)
	require.Equal(t, s.TenantID, kept[0].Owner)
	require.NotEmpty(t, c.objectsOf(t, s), "they are in its project")
	require.Equal(t, keys, c.keysOf(t, id))
	c.unshelve(t, id)
	c.counts(t, id, 1, 2, 2)
	require.Empty(t, c.keptAs(t, id))
	require.Empty(t, c.objectsOf(t, s))
	require.Equal(t, keys, c.keysOf(t, id))
	c.shelve(t, id)
	c.delete(t, id)
	require.Empty(t, c.keysOf(t, id))
	c.nothingIsLeft(t)
}

// TPM-27, TPM-36: the state of a vTPM stays encrypted while it is kept, so that an administrator of another project shelves a server
// whose vTPM alone has a key that he may not read, where strongroom has a role in its owner's project; what is kept is its owner's.
// Without that role the guest is not stopped. He cannot unshelve it; its owner can.
func TestShelveByAnAdministratorOfAServerWithAVTPMAlone(t *testing.T) {
	backends(t, openStack, local)
	c := sharedCloud(t)
	id := c.create(t, tpmAlone)
	c.becomes(t, id, "ACTIVE")
	c.counts(t, id, 1, 1, 1)
	stranger := c.compute(t, "-admin")
	require.NoError(t, servers.Shelve(t.Context(), stranger, id).ExtractErr())
	if c.real != nil { // where it has no such role
		require.Contains(t, c.refusedBecause(t, id), "check_object_store: ")
		require.Equal(t, "ACTIVE", c.settled(t, id).Status)
		require.NotContains(t, c.console(t, id, "TG ready", 1), "boots=2", "it was not stopped")
		c.delete(t, id)
		return
	}
	s := c.becomes(t, id, "SHELVED_OFFLOADED")
	require.NotEmpty(t, c.objectsOf(t, s), "they are in its project")
	require.NoError(t, servers.Unshelve(t.Context(), stranger, id, servers.UnshelveOpts{}).ExtractErr(), "the request itself is allowed")
	require.Contains(t, c.refusedBecause(t, id), "check_secrets: ")
	require.Equal(t, "SHELVED_OFFLOADED", c.settled(t, id).Status)
	require.NotEmpty(t, c.objectsOf(t, s))
	c.unshelve(t, id)
	c.counts(t, id, 1, 2, 2)
	require.Empty(t, c.objectsOf(t, s))
	c.delete(t, id)
}

// An offloaded server that was set to ERROR says what can be done with it, and does that.
func TestShelvedServerInError(t *testing.T) {
	backends(t, local, openStack)
	c := sharedCloud(t)
	id := c.create(t, encryptedTPM)
	c.becomes(t, id, "ACTIVE")
	c.console(t, id, "nvcount=1", 1)
	c.shelve(t, id)
	require.NoError(t, servers.ResetState(t.Context(), c.compute(t, ""), id, servers.StateError).ExtractErr())
	err := servers.Reboot(t.Context(), c.compute(t, "-demo"), id, servers.RebootOpts{Type: servers.HardReboot}).ExtractErr()
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusConflict), "%v", err)
	require.ErrorContains(t, err, "while it is shelved. Unshelve it first")
	c.unshelve(t, id)
	require.Contains(t, c.console(t, id, "TG ready", 1), "nvcount=2")
	require.Empty(t, c.keptAs(t, id))
	c.delete(t, id)
}

// TPM-32: while the host of a shelved server that stays there is down, a delete ends at once:
// images and object are gone, and what is on the host goes when it is back.
func TestDeleteOfAShelvedServerWhoseHostIsDown(t *testing.T) {
	backends(t, local, openStack)
	c := ownCloud(t)
	c.keepsShelvedServers(t)
	id := c.createIdle(t, encryptedTPM)
	c.becomes(t, id, "ACTIVE")
	require.NoError(t, servers.Shelve(t.Context(), c.compute(t, "-demo"), id).ExtractErr())
	s := c.becomes(t, id, "SHELVED")
	require.NotEmpty(t, c.keptAs(t, id))
	require.NotEmpty(t, c.objectsOf(t, s))

	host, running := process.Named(c.PIDFile("host"))
	require.True(t, running)
	require.NoError(t, syscall.Kill(host, syscall.SIGSTOP))
	back := func() { _ = syscall.Kill(host, syscall.SIGCONT) }
	t.Cleanup(back)
	require.NoError(t, servers.Delete(context.WithoutCancel(t.Context()), c.compute(t, "-demo"), id).ExtractErr())
	c.gone(t, id)
	require.Empty(t, c.keptAs(t, id), "images do not wait for the host")
	require.True(t, exists(c.tpmFolder(id)), "it is down")
	require.Empty(t, c.objectsOf(t, s), "nor does the object")
	back()
	await.For(t, "what the host has goes", func() bool {
		c.gone(t, id) // the owner looks: on a real cloud what is his is removed with his credential
		return len(c.audit(t).Findings) == 0
	}, c.hostProgress(c.Host(1)))
	c.nothingIsLeft(t)
	require.False(t, exists(c.tpmFolder(id)))
}
