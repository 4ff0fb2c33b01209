package imagetest

import (
	"bytes"
	"context"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/image"
	"strongroom/compute"
)

// backup makes a whole image that says it is a backup.
func (b bench) backup(server compute.ServerID, of, policy string, data bool) compute.ImageID {
	b.Helper()
	img := b.image("raw", image.Private)
	img.Properties = map[string]string{
		"image_type": "backup", "backup_type": of, "instance_uuid": server.String(), "os_encrypt_key_deletion_policy": policy,
	}
	_, err := b.Library.Create(b.ctx, b.Owner, img)
	require.NoError(b, err)
	b.Cleanup(func() { _ = b.Library.Delete(context.Background(), b.Owner, img.ID) })
	if data {
		require.NoError(b, b.Library.Upload(b.ctx, b.Owner, img.ID, bytes.NewReader([]byte("data"))))
	}
	return img.ID
}

// EE-22: what is kept of a server's backups of one type, and what is not.
func oldBackupsActivity(b bench) {
	server := compute.ServerID{UUID: uuid.New()}
	first, second := b.backup(server, "daily", "True", true), b.backup(server, "daily", "False", true)
	newest := b.backup(server, "daily", "True", true)
	b.backup(server, "weekly", "True", true)
	b.backup(server, "daily", "True", false) // half made
	b.backup(compute.ServerID{UUID: uuid.New()}, "daily", "True", true)
	a := image.Activities{Library: b.Library}
	old := func(cred compute.Credential, keep int) []image.OldBackup {
		got, err := a.OldBackups(b.ctx, image.OldBackupsInput{
			Credential: cred, Server: server, Newest: newest, Backup: compute.Backup{Type: "daily", Rotation: keep},
		})
		require.NoError(b, err)
		return got.Images
	}
	require.Empty(b, old(b.Owner, 4))
	require.Empty(b, old(b.Owner, 3))
	require.Empty(b, old(b.Other, 0), "another project's are none of it")
	all := []image.OldBackup{{Image: first, TakeKey: true}, {Image: second}, {Image: newest, TakeKey: true}}
	none := old(b.Owner, 0)
	require.ElementsMatch(b, all, none)
	require.Equal(b, newest, none[2].Image, "the newest goes last, whatever the store's clock says")
	require.Len(b, old(b.Owner, 1), 2)
	require.NotContains(b, old(b.Owner, 1), all[2])
	_, err := a.OldBackups(b.ctx, image.OldBackupsInput{Credential: b.Owner, Server: server, Newest: newest, Backup: compute.Backup{Type: "daily", Rotation: -1}})
	require.Equal(b, compute.Invalid, compute.KindOf(err), "%v", err) // S1
}
