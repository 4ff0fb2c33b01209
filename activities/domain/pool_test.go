package domain_test

import (
	"os"
	"path/filepath"
	"testing"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/compute"
	"strongroom/deploy/cloud/cloudtest"
)

// A server whose disks are in a Ceph pool runs, and becomes an image as any other but
// not one with a new key (EE-21). libvirt keeps the host's key alone.
func TestServerInAPool(t *testing.T) {
	t.Parallel()
	h := setup(t, idle)
	p := cloudtest.StartPool(t)
	h.disks.Pool = disk.Pool{Name: p.Name, User: p.User, ConfFile: p.Conf, Keyring: p.Keyring}
	h.Ceph = domain.Ceph{User: p.User, ConfFile: p.Conf, Key: h.disks.ClusterKey}
	got, err := h.Describe(t.Context(), false)
	require.NoError(t, err)
	require.Equal(t, 189, got.Capacity.DiskGB, "the pool's")

	s := h.server(t, true, nil)
	h.disksOf(t, s)
	for range 2 {
		_, err := h.Start(t.Context(), domain.StartInput{Server: s})
		require.NoError(t, err)
	}
	all := h.secrets(t)
	require.Len(t, all, 1)
	require.Equal(t, "strongroom client."+p.User, all[0].UsageID)
	require.Equal(t, []compute.Seen{{Kind: compute.ThingDomain, Name: s.InstanceName()}}, h.seen(t), "no secret of a server")
	require.Error(t, h.Client.Do(t.Context(), func(l *libvirt.Libvirt) error {
		_, err := l.SecretGetValue(all[0], 0)
		return err
	}), "nobody reads it")

	in := domain.ExportInput{Server: s.ID, Operation: compute.NewOperationID(), Disk: s.Disks[0],
		Target: compute.ExportTarget{Format: compute.ImageQcow2, Key: compute.KeyNew, Secret: h.keys.make(t, compute.DiskPassphraseBytes)}}
	_, err = h.Export(t.Context(), in)
	require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "encryption.key 'new'")
	folder := filepath.Join(h.InstancesDir, s.ID.String(), compute.ExportFolder(in.Operation))
	require.NoDirExists(t, folder, "nothing was begun")
	in.Target.Key = compute.KeyExisting
	done, err := h.Export(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, h.rootMB<<20, done.VirtualBytes)
	require.Equal(t, "aes-256", done.EncryptionOptions["cipher-alg"])
	_, err = h.disks.Export(t.Context(), disk.ExportInput{Server: s.ID, Operation: in.Operation, Disk: in.Disk, Image: &s.Image,
		Target: compute.ExportTarget{Format: compute.ImageRaw, Key: compute.KeyNone}})
	require.Equal(t, compute.Conflict, compute.KindOf(err), "it runs: %v", err)
	require.NoError(t, h.disks.Remove(t.Context(), ofFile(s.ID, compute.ExportFolder(in.Operation))))

	require.NoError(t, h.Remove(t.Context(), ofDomain(s.ID)))
	dead := filepath.Join(t.TempDir(), "ceph.conf")
	require.NoError(t, os.WriteFile(dead, []byte("[global]\nmon_host = 127.0.0.1:1\n[client]\nclient_mount_timeout = 1\n"), 0o600))
	h.disks.Pool.ConfFile = dead
	_, err = h.Start(t.Context(), domain.StartInput{Server: s})
	require.Equal(t, compute.Unavailable, compute.KindOf(err), "the cluster does not answer: %v", err)
	got, err = h.Describe(t.Context(), false)
	require.NoError(t, err)
	require.Zero(t, got.Capacity.DiskGB)
}
