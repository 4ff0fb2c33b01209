package compute_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

func TestSecretNames(t *testing.T) {
	t.Parallel()
	root := compute.DiskSecret(server, operation, compute.Disk{Role: compute.RootDisk})
	require.Equal(t, "strongroom server 11111111-2222-4333-8444-555555555555 disk root req-0c8dfd8a-24a9-4f4d-9d5f-0cf8f1d0f5aa", root.Name)
	require.Equal(t, 64, root.Bytes)
	require.Equal(t, root, compute.DiskSecret(server, operation, compute.Disk{Role: compute.RootDisk}), "a plan made twice is the same")

	tpm := compute.TPMSecret(server, operation)
	require.Equal(t, "strongroom server 11111111-2222-4333-8444-555555555555 vtpm req-0c8dfd8a-24a9-4f4d-9d5f-0cf8f1d0f5aa", tpm.Name)
	require.Equal(t, 384, tpm.Bytes)
	require.NotEqual(t, root.ID, tpm.ID)
	require.NotEqual(t, tpm.ID, compute.TPMSecret(server, compute.NewOperationID()).ID)

	for _, plan := range []compute.SecretPlan{root, tpm, compute.DiskSecret(server, operation, compute.Disk{Role: compute.EphemeralDisk, Index: 3})} {
		owner, op, ok := compute.SecretOwner(plan.Name)
		require.True(t, ok, plan.Name)
		require.Equal(t, server, owner)
		require.Equal(t, operation, op)
	}
}

// What does not look exactly like ours is somebody else's.
func TestSecretOwnerRefuses(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"", "strongroom server", "vTPM secret for instance 11111111-2222-4333-8444-555555555555",
		"strongroom server nobody disk root req-1", "strongroom server 11111111-2222-4333-8444-555555555555 disk root",
		"strongroom server 11111111-2222-4333-8444-555555555555 req-1",
	} {
		_, _, ok := compute.SecretOwner(name)
		require.False(t, ok, name)
	}
}
