package record_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/schema"
)

func TestRotate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in := b.server(compute.OpRotateKeys)
	swap := compute.DiskID{UUID: uuid.New()}
	_, err := b.Pool.Exec(b.ctx, `INSERT INTO server_disks (id, server_id, role, device_name, size_mb) VALUES ($1, $2, 'swap', '/dev/vdb', 1)`, swap, in.Server)
	require.NoError(t, err)
	to := compute.Rotated{Secret: compute.SecretID{UUID: uuid.New()}, Options: map[string]string{"iterations": "10000"}}
	rotate := record.RotateInput{OperationInput: in, Disks: map[string]compute.Rotated{b.disk(in).String(): to}}
	b.Exec("UPDATE server_disks SET whole = true WHERE id = $1", b.disk(in))
	for _, err := range atOnce(8, func(int) error { return b.Rotate(b.ctx, rotate) }) {
		require.NoError(t, err)
	}
	got, err := schema.LoadServer(b.ctx, b.q, in.Server)
	require.NoError(t, err)
	require.Equal(t, to.Secret, *got.Disks[0].Secret)
	require.Equal(t, to.Options, got.Disks[0].EncryptionOptions)
	require.Equal(t, compute.FormatLUKS, got.Disks[0].Format)
	require.True(t, got.Disks[0].Whole, "its data are where they were")
	require.Nil(t, got.Disks[1].Secret, "another disk's")

	// The server went over to another operation. What took effect is said again: an
	// undo on a no would lock the disk for ever. What did not is refused.
	b.supersede(in, compute.OpDelete, nil)
	require.NoError(t, b.Rotate(b.ctx, rotate))
	rotate.Disks[b.disk(in).String()] = compute.Rotated{Secret: compute.SecretID{UUID: uuid.New()}}
	before := b.Dump(everything...)
	require.True(t, record.IsSuperseded(b.Rotate(b.ctx, rotate)))
	require.Equal(t, before, b.Dump(everything...))
}

func TestBeginGivesTheArgumentsOfARotation(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in := b.server(compute.OpCreate)
	next := b.supersede(in, compute.OpRotateKeys, compute.RotateArguments{Disks: []string{"root"}})
	got, err := b.Begin(b.ctx, next)
	require.NoError(t, err)
	require.JSONEq(t, `{"disks": ["root"]}`, string(got.Arguments))
}
