package disk_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/compute"
)

// EE-25: a disk that is exported with its own key, and made of that again on another host,
// is the same file, which the same key opens; and no key is needed for it.
func TestRestore(t *testing.T) {
	t.Parallel()
	from, to := setup(t), setup(t)
	base := from.baseImage(t, "qcow2+luks")
	e := from.exported(t, base, true)
	e.Target = compute.ExportTarget{Key: compute.KeySame, Format: "qcow2", Secret: e.Disk.Secret, Restorable: true}
	done, err := e.Export(t.Context(), e.ExportInput)
	require.NoError(t, err)
	data, err := os.ReadFile(filepath.Join(from.InstancesDir, done.File))
	require.NoError(t, err)

	img := to.image("qcow2", data)
	d := e.Disk
	d.File, d.Image, d.BackingSecret = "disk.11111111", nil, nil
	d.Shelved = &compute.ShelvedDisk{Image: img.ID, SizeBytes: img.SizeBytes, SHA256: img.SHA256}
	in := disk.RestoreInput{Server: e.Server, Disk: d}
	for range 2 {
		require.NoError(t, to.Restore(t.Context(), in))
	}
	path := filepath.Join(to.InstancesDir, in.Server.String(), "disk.11111111")
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, got))

	// It is a disk like any other: it is exported again.
	to.keys[*d.Secret] = e.key
	again, err := to.Export(t.Context(), disk.ExportInput{Server: in.Server, Operation: "req-again", Project: project, Disk: d, Target: e.Target})
	require.NoError(t, err)
	require.Equal(t, done.VirtualBytes, again.VirtualBytes)
}

// TPM-26: what is not what was kept becomes no disk.
func TestRestoreOfSomethingElse(t *testing.T) {
	t.Parallel()
	b := setup(t)
	img := b.image("qcow2", []byte("no disk"))
	kept := compute.ShelvedDisk{Image: img.ID, SizeBytes: img.SizeBytes, SHA256: img.SHA256}
	in := disk.RestoreInput{Server: compute.ServerID{UUID: uuid.New()}, Disk: compute.Disk{ID: compute.DiskID{UUID: uuid.New()}, Role: compute.RootDisk, Shelved: &kept}}
	require.Equal(t, compute.Corrupt, compute.KindOf(b.Restore(t.Context(), in)), "no qcow2")
	other := kept
	b.images.data[img.ID] = func() io.Reader { return bytes.NewReader([]byte("mo disk")) }
	in.Disk.Shelved = &other
	require.Equal(t, compute.Corrupt, compute.KindOf(b.Restore(t.Context(), in)), "other bytes")
	in.Disk.Shelved = nil
	require.Equal(t, compute.Invalid, compute.KindOf(b.Restore(context.Background(), in)))
	left, err := os.ReadDir(filepath.Join(b.InstancesDir, in.Server.String()))
	require.NoError(t, err)
	require.Empty(t, left)
}
