package disk_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/compute"
)

// A disk that the server had on another host is not made in a pool: that host may keep it there
// under the same name, and remove it once it is back.
func TestADiskOfAnotherHostIsNotMadeInAPool(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in := disk.CreateInput{
		Server: compute.ServerID{UUID: uuid.New()}, Elsewhere: true,
		Disk: compute.Disk{ID: compute.DiskID{UUID: uuid.New()}, Role: compute.SwapDisk, SizeMB: 1},
	}
	b.Pool.Name = "servers"
	_, err := b.Create(t.Context(), in)
	require.Equal(t, compute.NoHost, compute.KindOf(err))
	require.ErrorContains(t, err, "this host keeps disks in a pool")
	b.Pool.Name = ""
	_, err = b.Create(t.Context(), in)
	require.NoError(t, err)
}
