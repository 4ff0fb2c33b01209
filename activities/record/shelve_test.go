package record_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/schema"
)

// TPM-22, TPM-25: what keeps a server's data is on record from the decision to shelve it
// until the one to run it again. Both may be made twice, and an operation that lost the
// server makes none.
func TestShelveAndUnshelve(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := b.server(compute.OpCreate)
	disk := b.disk(first)
	secret := compute.SecretID{UUID: uuid.New()}
	require.NoError(t, b.saveSecrets(first, record.Secrets{Disks: map[string]compute.SecretID{disk.String(): secret}, Sources: map[string]compute.SecretID{disk.String(): secret}}))
	in := b.supersede(first, compute.OpShelve, compute.ShelveArguments{})
	kept := compute.ShelvedDisk{Image: compute.ImageID{UUID: uuid.New()}, SizeBytes: 7, SHA256: "ab"}
	shelve := record.ShelveInput{
		OperationInput: in, Disks: map[string]compute.ShelvedDisk{disk.String(): kept}, TPM: &compute.StoredTPM{Object: "tpm/x", SHA256: "cd"},
		NVRAM: &compute.StoredNVRAM{Object: "nvram/x", SHA256: "ef"},
	}
	for range 2 {
		require.NoError(t, b.Shelve(b.ctx, shelve))
	}
	s, err := schema.LoadServer(b.ctx, b.q, in.Server)
	require.NoError(t, err)
	require.Equal(t, compute.VMShelvedOffloaded, s.VMState)
	require.Equal(t, compute.TaskShelvingOffloading, s.TaskState)
	require.Equal(t, &kept, s.Disks[0].Shelved)
	require.Equal(t, shelve.TPM, s.StoredTPM())
	require.Equal(t, shelve.NVRAM, s.StoredNVRAM())

	b.Exec("INSERT INTO claims (server_id, host_id, operation_id, vcpus, memory_mb, disk_gb) VALUES ($1, $2, 'req-x', 1, 1, 1)", in.Server, b.Host("a", 4, 4096))
	b.Exec("UPDATE servers SET host_id = (SELECT host_id FROM claims), availability_zone = 'nova' WHERE id = $1", in.Server)
	require.Equal(t, 1, b.CountRows("SELECT count(*) FROM claims"))
	require.NoError(t, b.Settle(b.ctx, record.SettleInput{OperationInput: in, State: compute.OperationSucceeded, VMState: compute.VMShelvedOffloaded, Power: compute.PowerShutdown}))
	require.Nil(t, b.row(in).HostID)
	require.Empty(t, b.row(in).AvailabilityZone)
	require.Zero(t, b.CountRows("SELECT count(*) FROM claims"))

	back := b.supersede(in, compute.OpUnshelve, compute.UnshelveArguments{})
	will, err := s.Unshelved(back.Operation, compute.UnshelveArguments{})
	require.NoError(t, err)
	unshelve := record.UnshelveInput{OperationInput: back, Disks: will.Disks, Zone: "east"}
	for range 2 {
		require.NoError(t, b.Unshelve(b.ctx, unshelve))
	}
	now, err := schema.LoadServer(b.ctx, b.q, in.Server)
	require.NoError(t, err)
	require.Nil(t, now.StoredTPM())
	require.Nil(t, now.StoredNVRAM())
	require.Equal(t, "east", now.System[compute.SystemPinnedZone])
	require.Nil(t, now.Disks[0].Shelved)
	require.Nil(t, now.Disks[0].Image)
	require.Equal(t, []any{disk, &secret, (*compute.SecretID)(nil), will.Disks[0].File},
		[]any{now.Disks[0].ID, now.Disks[0].Secret, now.Disks[0].BackingSecret, now.Disks[0].File})

	next := b.supersede(back, compute.OpDelete, nil)
	require.NoError(t, b.Unshelve(b.ctx, unshelve), "it had decided")
	require.True(t, record.IsSuperseded(b.Shelve(b.ctx, shelve)), "it has not")
	require.Equal(t, next.Operation, b.row(in).CurrentOperation)
}

// A server that stays for a while notes until when.
func TestShelveForAWhile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in := b.supersede(b.server(compute.OpCreate), compute.OpShelve, compute.ShelveArguments{})
	for after, set := range map[int]bool{3600: true, compute.NeverOffload: false} {
		require.NoError(t, b.Shelve(b.ctx, record.ShelveInput{OperationInput: in, OffloadAfter: after}))
		require.Equal(t, compute.VMShelved, b.row(in).VMState)
		require.Equal(t, set, b.row(in).OffloadAt != nil)
	}
}
