package integration_test

import (
	"maps"
	"os/user"
	"strconv"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"
)

// ownedBy are the files with another owner.
func (f files) ownedBy(uid, gid uint32) files {
	out := maps.Clone(f)
	for name, has := range out {
		has.UID, has.GID = uid, gid
		out[name] = has
	}
	return out
}

// TPM-02: the state of a vTPM that a host receives or restores is owned there by its swtpm_user and swtpm_group, which are not those of the host
// that it comes from; its modes are the same. It is looked at before the guest starts: libvirt gives it to the user of its own qemu.conf then.
func TestTPM02WhoseTheStateIsOnEachHost(t *testing.T) {
	backends(t, local, openStack)
	c := twoHosts(t)
	a, b := c.Host(1), c.Host(2)
	owner, err := user.Lookup("nobody")
	require.NoError(t, err)
	group, err := user.LookupGroup("nogroup")
	require.NoError(t, err)
	number := func(text string) uint32 {
		n, err := strconv.ParseUint(text, 10, 32)
		require.NoError(t, err)
		return uint32(n)
	}
	other := c.settingsOn(t, b)
	defer other.restore(t)
	other.with(t, map[string]map[string]any{"host": {"swtpm_user": owner.Username, "swtpm_group": group.Name}})

	id := c.on(t, a, func() string { return c.create(t, encryptedTPM) })
	c.counts(t, id, 1, 1, 1)
	c.shutOff(t, id)
	was := c.remainsOnDisk(t, a, id).TPM
	theirs := func() {
		t.Helper()
		is := c.remainsOnDisk(t, b, id).TPM
		require.Equal(t, was.state().ownedBy(number(owner.Uid), number(group.Gid)), is.state())
		require.Equal(t, was["."].Mode, is["."].Mode)
		require.Equal(t, []uint32{0, 0}, []uint32{is["."].UID, is["."].GID}, "the folder is root's, whoever swtpm runs as (S3)")
	}
	require.NotEqual(t, was.state().ownedBy(number(owner.Uid), number(group.Gid)), was.state())
	c.migrate(t, id)
	c.requireOn(t, b, id)
	theirs()
	require.NoError(t, servers.RevertResize(t.Context(), c.compute(t, "-demo"), id).ExtractErr())
	c.becomes(t, id, "SHUTOFF")
	require.Equal(t, was.state(), c.remainsOnDisk(t, a, id).TPM.state())

	c.shelve(t, id)
	start := c.holdOn(t, b, "domain.Start@before")
	c.unshelveTo(t, b, id)
	start.waits(t, c.progress(id))
	theirs()
	start.release()
	c.becomes(t, id, "ACTIVE")
	c.counts(t, id, 1, 2, 2)
	c.delete(t, id)
	c.nothingIsLeft(t)
}
