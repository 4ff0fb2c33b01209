package integration_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/deploy/await"
)

// backsUpTPMs starts control workers again with a configuration by which the state of vTPMs is
// backed up, until the test ends.
func (c *testCloud) backsUpTPMs(t *testing.T) {
	t.Helper()
	c.configured(t, "control", "control", map[string]any{"tpm_backup_interval": "10s"})
}

// tpmBackup is the last backup of a server's vTPM, nil: none, and the database's time.
func (c *testCloud) tpmBackup(t *testing.T, id string) (backup *compute.TPMBackup, now time.Time) {
	t.Helper()
	db, err := pgx.Connect(t.Context(), databaseURL(t, c))
	require.NoError(t, err)
	defer func() { _ = db.Close(t.Context()) }()
	var text []byte
	require.NoError(t, db.QueryRow(t.Context(), "SELECT tpm_backup, now() FROM servers WHERE id = $1", id).Scan(&text, &now))
	if text != nil {
		require.NoError(t, json.Unmarshal(text, &backup))
	}
	return backup, now
}

// isBackedUp waits for a backup of what a server's vTPM has now.
func (c *testCloud) isBackedUp(t *testing.T, id string) (backup *compute.TPMBackup) {
	t.Helper()
	_, since := c.tpmBackup(t, id)
	await.For(t, "the vTPM of server "+id+" is backed up", func() bool {
		backup, _ = c.tpmBackup(t, id)
		return backup != nil && backup.At.After(since)
	}, c.progress(id))
	return backup
}

// TPM-30: where vTPMs are backed up, evacuated servers keep their state as of the last backup: one
// of a guest that runs, and one of the stop of a server whose keys nobody else may read. Workers die
// meanwhile. Users are told of what time it is, and nothing of any backup is left.
func TestEvacuateKeepsABackedUpTPM(t *testing.T) {
	backends(t, local, openStack)
	c := twoHosts(t)
	c.backsUpTPMs(t)
	to, h := c.Host(1), c.Host(2)
	c.armOn(t, h, "tpm.BackUp@after")
	id := c.on(t, h, func() string { return c.create(t, delegated) })
	off := c.on(t, h, func() string { return c.create(t, encryptedTIS) })
	c.counts(t, id, 1, 1, 1)
	c.counts(t, off, 1, 1, 1)
	c.arm(t, "record.TPMBackup@after")
	require.False(t, c.isBackedUp(t, id).Final)
	backup, _ := c.tpmBackup(t, off)
	require.Nil(t, backup, "nobody else may store it in its project")
	c.armOn(t, h, "tpm.BackUp@before")
	c.shutOff(t, off)
	require.Empty(t, c.newestAction(t, off).Message)
	backup, _ = c.tpmBackup(t, off)
	require.NotNil(t, backup)
	require.True(t, backup.Final)
	require.Empty(t, c.audit(t).Findings)

	c.powerOff(t, h)
	c.isDown(t, h, true)
	last, _ := c.tpmBackup(t, id)
	c.forceDown(t, h, true)
	c.armOn(t, to, "tpm.Restore@after")
	c.arm(t, "record.Evacuate@after")
	c.evacuate(t, id, "2.14")
	c.becomes(t, id, "ACTIVE")
	c.evacuate(t, off, "2.95")
	c.becomes(t, off, "SHUTOFF")
	require.Contains(t, c.newestAction(t, off).Message, "has the state of its backup 1, of ")
	c.counts(t, id, 1, 1, 2)
	require.Empty(t, c.systemMetadata(t, off, "tpm_new"))
	c.startAgain(t, off)
	c.counts(t, off, 1, 1, 2)

	// K20: of a server that is off since its backup, a shelve keeps the state that was backed up, and no other one.
	c.shutOff(t, off)
	backup, _ = c.tpmBackup(t, off)
	require.True(t, backup.Final)
	file := filepath.Join(to.SwtpmDir(), off, "tpm2", "tpm2-00.permall")
	good, err := os.ReadFile(file)
	require.NoError(t, err)
	foreign, err := os.ReadFile(filepath.Join(to.SwtpmDir(), id, "tpm2", "tpm2-00.permall"))
	require.NoError(t, err)
	put := func(data []byte) {
		t.Helper()
		is, err := os.Stat(file)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, data, 0o600))
		require.NoError(t, os.Chtimes(file, is.ModTime(), is.ModTime()))
	}
	put(foreign)
	require.NoError(t, servers.Shelve(t.Context(), c.compute(t, "-demo"), off).ExtractErr())
	c.becomes(t, off, "SHUTOFF")
	require.Contains(t, c.toldWhy(t, off, "").Message, "its TPM state is not the one that was backed up when it was stopped")
	still, _ := c.tpmBackup(t, off)
	require.Equal(t, backup.StoredTPM, still.StoredTPM)
	put(good)
	c.shelve(t, off)
	c.unshelve(t, off)
	c.counts(t, off, 1, 2, 3)

	require.Greater(t, c.isBackedUp(t, id).Generation, last.Generation, "of what it counts now")
	c.powerOn(t, h)
	c.isDown(t, h, true)
	c.forceDown(t, h, false)
	c.hasNothingSoon(t, h, id)
	c.hasNothingSoon(t, h, off)
	require.Empty(t, c.audit(t).Findings)
	c.delete(t, id)
	c.delete(t, off)
	c.nothingIsLeft(t)
}
