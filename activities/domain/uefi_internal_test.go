package domain

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/firmware"
	"strongroom/compute"
)

// A server that may have Secure Boot does not start with a BIOS: neither by a record that cannot be read or
// contradicts itself, nor by one that says BIOS of a server with variables.
func TestNoServerBeginsWithABIOSInstead(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(firmware.Folder); err != nil && os.Getenv("CI") == "" {
		t.Skip("needs the package ovmf")
	}
	build, err := firmware.Host{}.Of(compute.Firmware{UEFI: true, SecureBoot: compute.SecureBootRequired}, "")
	require.NoError(t, err)
	asks := map[string]string{"hw_firmware_type": "uefi", "os_secure_boot": "required"}
	but := func(key, value string) map[string]string {
		changed := maps.Clone(asks)
		if changed[key] = value; value == "" {
			delete(changed, key)
		}
		return changed
	}
	for name, c := range map[string]struct {
		flavor, image map[string]string
		file          string // that has variables, "": none
		bytes         int64
		noRoot        bool
		kind          compute.Kind // "": it starts
		says          string
	}{
		"Secure Boot":        {image: asks, file: "nvram", bytes: build.Bytes},
		"BIOS":               {},
		"BIOS, once UEFI":    {file: "nvram.0a1b2c3d", bytes: build.Bytes}, // of the root disk before a rebuild
		"no firmware type":   {image: but("hw_firmware_type", ""), file: "nvram", bytes: build.Bytes, kind: compute.Corrupt, says: "Secure Boot is required"},
		"unknown type":       {image: but("hw_firmware_type", "efi"), file: "nvram", bytes: build.Bytes, kind: compute.Corrupt, says: "Invalid firmware type 'efi'"},
		"unknown policy":     {image: but("os_secure_boot", "on"), file: "nvram", bytes: build.Bytes, kind: compute.Corrupt, says: "Invalid secure boot policy 'on'"},
		"contradiction":      {flavor: map[string]string{"os:secure_boot": "disabled"}, image: asks, file: "nvram", bytes: build.Bytes, kind: compute.Corrupt, says: "conflicting with image"},
		"nothing said":       {file: "nvram", bytes: build.Bytes, kind: compute.Corrupt, says: "its record says that it begins with a BIOS, and it has UEFI variables (nvram)"},
		"no variables":       {image: asks, kind: compute.Corrupt, says: "its UEFI variables are missing"},
		"empty ones":         {image: asks, file: "nvram", kind: compute.Corrupt, says: "its UEFI variables are empty"},
		"another build's":    {image: asks, file: "nvram", bytes: 128 << 10, kind: compute.Conflict, says: "its UEFI variables have 131072 bytes"},
		"without root disk":  {image: asks, noRoot: true, kind: compute.Corrupt, says: "no root disk"},
		"BIOS, no root disk": {noRoot: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &Activities{Config: Config{InstancesDir: t.TempDir()}}
			s := compute.Server{
				ID: compute.ServerID{UUID: uuid.New()}, Flavor: compute.Flavor{ExtraSpecs: c.flavor}, Image: compute.Image{Properties: c.image},
				Disks: []compute.Disk{{Role: compute.RootDisk}},
			}
			if c.noRoot {
				s.Disks = nil
			}
			if c.file != "" {
				require.NoError(t, os.Mkdir(filepath.Join(a.InstancesDir, s.ID.String()), 0o700))
				require.NoError(t, os.WriteFile(filepath.Join(a.InstancesDir, s.ID.String(), c.file), make([]byte, c.bytes), 0o600))
			}
			got, err := a.uefi(s)
			if c.kind != "" {
				require.Nil(t, got)
				require.Equal(t, c.kind, compute.KindOf(err), "%v", err)
				require.ErrorContains(t, err, c.says)
				return
			}
			require.NoError(t, err)
			require.Equal(t, len(c.image) > 0, got != nil)
			if got != nil {
				require.True(t, got.Secure)
			}
		})
	}
}
