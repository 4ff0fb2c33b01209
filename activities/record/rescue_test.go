package record_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/schema"
)

// EE-26: the rescue disk is on record from the end of the rescue on, with its own
// image and the id of that image's key, until the unrescue decides.
func TestRescueDiskOnRecord(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in := b.server(compute.OpCreate)
	key := compute.SecretID{UUID: uuid.New()}
	img := compute.Image{
		ID: compute.ImageID{UUID: uuid.New()}, Name: "rescue", DiskFormat: "qcow2", VirtualBytes: 3 << 20, SHA256: "abc",
		Properties: map[string]string{"os_encrypt_key_id": key.String()},
	}
	rescue := b.supersede(in, compute.OpRescue, compute.RescueArguments{Image: img})
	begun, err := b.Begin(b.ctx, rescue)
	require.NoError(t, err)
	asked, err := compute.Rescue.Read(begun.Arguments)
	require.NoError(t, err)
	require.Equal(t, img.ID, asked.Image.ID)
	d, err := compute.PlanRescue(rescue.Operation, asked)
	require.NoError(t, err)
	d.EncryptionOptions, d.Whole = map[string]string{"cipher-alg": "aes-256"}, true
	end := record.SettleInput{
		OperationInput: rescue, State: compute.OperationSucceeded, VMState: compute.VMRescued, Power: compute.PowerRunning, Rescue: &d,
	}
	for _, err := range atOnce(4, func(int) error { return b.Settle(b.ctx, end) }) {
		require.NoError(t, err)
	}

	unrescue := b.supersede(in, compute.OpUnrescue, nil)
	begun, err = b.Begin(b.ctx, unrescue)
	require.NoError(t, err)
	require.Equal(t, compute.VMRescued, begun.Server.VMState)
	require.Len(t, begun.Server.Disks, 2)
	d.MaxMB = 0 // it is made
	require.Equal(t, d, begun.Server.Disks[0], "it comes first")
	require.Equal(t, compute.RootDisk, begun.Server.Disks[1].Role)
	_, err = b.Pool.Exec(b.ctx, "UPDATE servers SET current_operation = 'another' WHERE id = $1", in.Server)
	require.NoError(t, err)
	require.True(t, record.IsSuperseded(b.Unrescue(b.ctx, record.UnrescueInput{OperationInput: unrescue})))
	_, err = b.Pool.Exec(b.ctx, "UPDATE servers SET current_operation = $2 WHERE id = $1", in.Server, unrescue.Operation)
	require.NoError(t, err)
	for _, err := range atOnce(4, func(int) error { return b.Unrescue(b.ctx, record.UnrescueInput{OperationInput: unrescue}) }) {
		require.NoError(t, err)
	}
	server, err := schema.LoadServer(b.ctx, b.q, in.Server)
	require.NoError(t, err)
	require.Len(t, server.Disks, 1)

	b.supersede(in, compute.OpDelete, nil)
	require.NoError(t, b.Unrescue(b.ctx, record.UnrescueInput{OperationInput: unrescue}), "what was decided is decided")
}
