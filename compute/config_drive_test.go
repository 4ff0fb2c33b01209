package compute_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

func TestConfigDriveOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		asked    bool
		property string
		want     bool
	}{{false, "", false}, {true, "", true}, {false, "mandatory", true}, {false, "optional", false}, {true, "optional", true}} {
		img := compute.Image{Properties: map[string]string{"img_config_drive": c.property}}
		require.Equal(t, c.want, compute.ConfigDriveOf(c.asked, img), c)
	}
}

func TestCDROMBus(t *testing.T) {
	t.Parallel()
	for property, want := range map[string]string{"": "scsi", "scsi": "scsi", "sata": "sata", "ide": "", "virtio": "", "SATA": ""} {
		got, err := compute.CDROMBus(compute.Image{Properties: map[string]string{"hw_cdrom_bus": property}})
		require.Equal(t, want, got, property)
		require.Equal(t, want == "", compute.Is(err, compute.Invalid), property)
	}
}

func TestConfigDriveSecretIsTheRootDisks(t *testing.T) {
	t.Parallel()
	root, swap := compute.SecretID{UUID: uuid.New()}, compute.SecretID{UUID: uuid.New()}
	s := compute.Server{Disks: []compute.Disk{
		{Role: compute.SwapDisk, Encrypted: true, Secret: &swap}, {Role: compute.RootDisk, Encrypted: true, Secret: &root},
	}}
	require.Equal(t, &root, s.ConfigDriveSecret())
	s.Disks[1].Encrypted = false
	require.Nil(t, s.ConfigDriveSecret())
}

func TestWhereTheGuestFindsADisk(t *testing.T) {
	t.Parallel()
	id := compute.DiskID{UUID: uuid.MustParse("0d9f3c1e-70aa-5bcd-9e0f-1a2b3c4d5e6f")}
	for _, c := range []struct{ device, bus, address string }{
		{"/dev/vda", "virtio", "0000:00:10.0"},
		{"/dev/vdb", "virtio", "0000:00:11.0"},
		{"/dev/vdm", "virtio", "0000:00:1c.0"},
		{"/dev/vdn", "virtio", ""},
		{"/dev/vda1", "virtio", ""},
		{"/dev/vdA", "virtio", ""},
		{"/dev/sda", "scsi", ""},
		{"/dev/vda", "scsi", ""},
		{"", "virtio", ""},
	} {
		d := compute.Disk{ID: id, DeviceName: c.device, Bus: c.bus}
		require.Equal(t, c.address, d.PCIAddress(), c.device)
		require.Equal(t, "0d9f3c1e-70aa-5bcd-9", d.Serial())
	}
}
