package integration_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"

	"strongroom/compute"
	"strongroom/deploy/await"
	"strongroom/deploy/dev/stack"
)

// sharesDisks has a host have servers' folders where another one has them, until the test ends, as hosts with a file system of the
// network do.
func (c *testCloud) sharesDisks(t *testing.T, h, with stack.Host) {
	t.Helper()
	c.powerOff(t, h)
	mark := filepath.Join(with.Instances(), ".strongroom-host")
	alone, err := os.ReadFile(mark)
	require.NoError(t, err)
	restore := []func() error{func() error { return os.WriteFile(mark, alone, 0o600) }}
	for _, one := range []stack.Host{h, with} {
		config, err := os.ReadFile(one.ConfigFile())
		require.NoError(t, err)
		var settings map[string]any
		readYAML(t, one.ConfigFile(), &settings)
		settings["host"].(map[string]any)["share_instances"] = true
		text, err := yaml.Marshal(settings)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(one.ConfigFile(), text, 0o600))
		restore = append(restore, func() error { return os.WriteFile(one.ConfigFile(), config, 0o600) })
	}
	require.NoError(t, unix.Mount(with.Instances(), h.Instances(), "", unix.MS_BIND, ""))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), settleTimeout)
		defer cancel()
		require.NoError(t, h.PowerOff(ctx))
		require.NoError(t, unix.Unmount(h.Instances(), unix.MNT_DETACH))
		for _, undo := range restore {
			require.NoError(t, undo())
		}
		c.kill(t, with.Part("host"))
		c.powerOn(t, h) // they say nothing of sharing again
		c.shareStorage(t, 0)
	})
	c.kill(t, with.Part("host")) // a worker reads its settings when it starts
	c.powerOn(t, h)
	c.isDown(t, h, false)
	c.shareStorage(t, 2)
}

// shareStorage waits until so many hosts say that they share the storage of disks.
func (c *testCloud) shareStorage(t *testing.T, hosts int) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // also when the test has ended
	db, err := pgx.Connect(ctx, databaseURL(t, c))
	require.NoError(t, err)
	defer func() { _ = db.Close(ctx) }()
	await.For(t, fmt.Sprintf("%d hosts say that they share the storage of disks", hosts), func() bool {
		var n int
		require.NoError(t, db.QueryRow(ctx, "SELECT count(*) FROM hosts WHERE disk_storage <> ''").Scan(&n))
		return n == hosts
	}, c.hostProgress(c.Host(1)), c.hostProgress(c.Host(2)))
}

// Hosts that share the storage of servers' disks know it. No server moves between them, which is said at once. An evacuate, in which workers die, keeps
// the disks, under their own keys; the host that comes back leaves them alone. A delete removes them once.
func TestEvacuateKeepsDisksOnStorageThatHostsShare(t *testing.T) {
	backends(t, local)
	c := twoHosts(t)
	a, b := c.Host(1), c.Host(2)
	c.sharesDisks(t, b, a)
	id := c.on(t, b, func() string { return c.create(t, encryptedTPM) })
	oneCopyAtMost(t, id)
	c.counts(t, id, 1, 1, 1)
	keys := c.keysOf(t, id)
	disks := func(h stack.Host) (names []string) {
		for _, d := range []string{"disk", "disk.eph0", "disk.swap"} {
			if _, err := os.Stat(filepath.Join(h.Instances(), id, d)); err == nil {
				names = append(names, d)
			}
		}
		return names
	}
	require.Len(t, disks(a), 3, "they are one folder")

	require.False(t, c.dryRun(t, "", id, "migrate").Succeeds)
	err := c.liveMigrate(t, id, &a)
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusConflict), "%v", err)
	require.ErrorContains(t, err, compute.SharedDiskStorage)
	c.requireOn(t, b, id)

	c.powerOff(t, b)
	c.isDown(t, b, true)
	c.forceDown(t, b, true)
	c.isSilent(t, b, id)
	for _, lost := range c.dryRun(t, "", id, "evacuate").Lost {
		require.Equal(t, "state of the vTPM", lost.What)
	}
	code, body := c.tryEvacuate(t, id, "2.13", map[string]any{"onSharedStorage": false, "host": hostName(t, a)})
	require.Equal(t, http.StatusBadRequest, code)
	require.Contains(t, body, compute.InvalidShared)
	c.armOn(t, a, "disk.TakeOver@after")
	c.arm(t, "record.Evacuate@after")
	c.evacuate(t, id, "2.14")
	c.becomes(t, id, "ACTIVE")
	c.requireOn(t, a, id)
	require.Contains(t, c.newestEvents(t, id), "take_over_disks")
	require.NotContains(t, c.newestEvents(t, id), "create_disks")
	require.Equal(t, keys, c.keysOf(t, id))
	c.counts(t, id, 2, 2, 1) // the disk goes on, the TPM's state was the dead host's alone

	c.powerOn(t, b)
	oneCopy(t, id)
	c.forceDown(t, b, false)
	c.evacuated(t, b, id)
	require.Empty(t, c.remains(t, b, id).Domain)
	require.Len(t, disks(b), 3, "the host that is back leaves them alone")
	require.Empty(t, c.audit(t).Findings)
	c.shutOff(t, id)
	c.startAgain(t, id)
	c.counts(t, id, 3, 3, 2)
	c.delete(t, id)
	require.NoDirExists(t, filepath.Join(a.Instances(), id))
	require.NoDirExists(t, filepath.Join(b.Instances(), id))
	require.Empty(t, c.keysOf(t, id))
	c.nothingIsLeft(t)
}
