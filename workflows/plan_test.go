package workflows_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/compute"
)

// TestHostsGetTheWholePlanOfEachDisk (EE-31): what the encryption document adds to
// block_device_info. The root disk is in it like the others, with the image that it
// is made of and its encryption, for the disk that is made and for the boot.
func TestHostsGetTheWholePlanOfEachDisk(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	require.NoError(t, b.run(compute.OpCreate, b.accept(compute.OpCreate, compute.TaskScheduling, nil), nil))
	server := b.row.server
	var made []compute.Disk
	var booted []compute.Disk
	for _, c := range b.names() {
		switch c.name {
		case disk.Create.Name:
			var in disk.CreateInput
			require.NoError(t, json.Unmarshal([]byte(c.detail), &in))
			require.Equal(t, in.Disk.Role == compute.RootDisk, in.Image != nil)
			if in.Image != nil {
				require.Equal(t, server.Image.ID, in.Image.ID)
			}
			made = append(made, in.Disk)
		case domain.Start.Name:
			var in domain.StartInput
			require.NoError(t, json.Unmarshal([]byte(c.detail), &in))
			booted = in.Server.Disks
		}
	}
	for what, plan := range map[string][]compute.Disk{"made": made, "booted": booted} {
		require.Len(t, plan, 3, what)
		for _, d := range plan {
			require.True(t, d.Encrypted, "%s %s", what, d.Role)
			require.Equal(t, compute.FormatLUKS, d.Format)
			require.NotNil(t, d.Secret)
			require.NotEmpty(t, d.DeviceName)
			require.Equal(t, "virtio", d.Bus)
			if d.Role == compute.RootDisk {
				require.Equal(t, &server.Image.ID, d.Image)
			} else {
				require.Nil(t, d.Image)
			}
		}
	}
}
