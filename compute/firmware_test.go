package compute_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

func TestFirmwareOfFlavorAndImage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flavor, image map[string]string
		want          compute.Firmware
		kind          compute.Kind
		says          string
	}{
		"nothing":           {},
		"BIOS":              {image: map[string]string{"hw_firmware_type": "bios"}},
		"UEFI":              {image: map[string]string{"hw_firmware_type": "uefi"}, want: compute.Firmware{UEFI: true, SecureBoot: compute.SecureBootDisabled}},
		"required by image": {image: map[string]string{"hw_firmware_type": "uefi", "os_secure_boot": "required"}, want: compute.Firmware{UEFI: true, SecureBoot: compute.SecureBootRequired}},
		"required by flavor": {
			flavor: map[string]string{"os:secure_boot": "required"}, image: map[string]string{"hw_firmware_type": "uefi"},
			want: compute.Firmware{UEFI: true, SecureBoot: compute.SecureBootRequired},
		},
		"optional":           {image: map[string]string{"hw_firmware_type": "uefi", "os_secure_boot": "optional"}, want: compute.Firmware{UEFI: true, SecureBoot: compute.SecureBootOptional}},
		"optional of a BIOS": {image: map[string]string{"os_secure_boot": "optional"}},
		"machine type":       {flavor: map[string]string{"hw:machine_type": "pc"}, image: map[string]string{"hw_firmware_type": "uefi"}, want: compute.Firmware{UEFI: true, SecureBoot: compute.SecureBootDisabled}},
		"machine type of one version": {
			flavor: map[string]string{"hw:machine_type": "pc-q35-7.2"}, image: map[string]string{"hw_firmware_type": "uefi", "os_secure_boot": "required", "hw_machine_type": "pc-q35-7.2"},
			want: compute.Firmware{UEFI: true, SecureBoot: compute.SecureBootRequired},
		},
		"no Secure Boot of one version": {
			image: map[string]string{"hw_firmware_type": "uefi", "os_secure_boot": "required", "hw_machine_type": "pc-i440fx-7.2"}, kind: compute.Invalid,
			says: "Secure Boot is required, and machine type 'pc-i440fx-7.2' has none: it needs q35.",
		},
		"required of a BIOS": {
			flavor: map[string]string{"os:secure_boot": "required"}, kind: compute.Invalid,
			says: "Secure Boot is required, and image debian does not ask for UEFI: set its property hw_firmware_type to uefi.",
		},
		"unknown type": {
			image: map[string]string{"hw_firmware_type": "efi"}, kind: compute.Invalid,
			says: "Image debian has an invalid hw_firmware_type property. Invalid firmware type 'efi'. Allowed values: bios, uefi.",
		},
		"unknown policy": {
			image: map[string]string{"hw_firmware_type": "uefi", "os_secure_boot": "on"}, kind: compute.Invalid,
			says: "Image debian has an invalid os_secure_boot property. Invalid secure boot policy 'on'. Allowed values: required, disabled, optional.",
		},
		"disagreement": {
			flavor: map[string]string{"os:secure_boot": "disabled"}, image: map[string]string{"hw_firmware_type": "uefi", "os_secure_boot": "required"}, kind: compute.Invalid,
			says: "Flavor small has os:secure_boot extra spec explicitly set to disabled, conflicting with image debian which has os_secure_boot explicitly set to required.",
		},
		"disagreement on the machine": {
			flavor: map[string]string{"hw:machine_type": "q35"}, image: map[string]string{"hw_machine_type": "pc"}, kind: compute.Invalid,
			says: "Flavor small has hw:machine_type extra spec explicitly set to q35, conflicting with image debian which has hw_machine_type explicitly set to pc.",
		},
		"unknown machine": {
			image: map[string]string{"hw_machine_type": "virt"}, kind: compute.Invalid,
			says: "Image debian has an invalid hw_machine_type property. Invalid machine type 'virt'. Allowed values: q35, pc, and those of one version, as pc-q35-7.2 and pc-i440fx-7.2.",
		},
		"no Secure Boot": {
			flavor: map[string]string{"hw:machine_type": "pc"}, image: map[string]string{"hw_firmware_type": "uefi", "os_secure_boot": "required"}, kind: compute.Invalid,
			says: "Secure Boot is required, and machine type 'pc' has none: it needs q35.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, img := compute.Flavor{Name: "small", ExtraSpecs: c.flavor}, compute.Image{Name: "debian", Properties: c.image}
			err := compute.CheckFirmware(f, img)
			if c.says != "" {
				require.EqualError(t, err, c.says)
				require.Equal(t, c.kind, compute.KindOf(err))
				return
			}
			require.NoError(t, err)
			got, err := compute.FirmwareOf(f, img)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

// uefiServer has UEFI with Secure Boot.
func uefiServer() compute.Server {
	image := compute.ImageID{UUID: uuid.New()}
	return compute.Server{
		ID: compute.ServerID{UUID: uuid.New()}, VMState: compute.VMActive,
		Flavor: compute.Flavor{ID: "1", Name: "small", RootGB: 1},
		Image:  compute.Image{ID: image, Name: "debian", DiskFormat: "qcow2", Properties: map[string]string{"hw_firmware_type": "uefi", "os_secure_boot": "required"}},
		Disks:  []compute.Disk{{Role: compute.RootDisk, SizeMB: 1024, DeviceName: "/dev/vda", Image: &image}},
	}
}

// A record that does not say which firmware its server has makes none with a BIOS of it: no operation plans one, it
// comes to hosts that have everything alone, and the variables that it may have stay.
func TestAnUnreadableFirmwareIsNoBIOS(t *testing.T) {
	t.Parallel()
	host := compute.HostID{UUID: uuid.New()}
	for name, c := range map[string]struct{ flavor, image map[string]string }{
		"unknown type":    {image: map[string]string{"hw_firmware_type": "efi"}},
		"unknown policy":  {image: map[string]string{"hw_firmware_type": "uefi", "os_secure_boot": "on"}},
		"no UEFI":         {image: map[string]string{"os_secure_boot": "required"}},
		"they disagree":   {map[string]string{"os:secure_boot": "disabled"}, map[string]string{"hw_firmware_type": "uefi", "os_secure_boot": "required"}},
		"a flavor's word": {flavor: map[string]string{"os:secure_boot": "yes"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := uefiServer()
			s.Flavor.ExtraSpecs, s.Image.Properties = c.flavor, c.image
			_, err := s.Firmware()
			require.Equal(t, compute.Corrupt, compute.KindOf(err))
			require.ErrorContains(t, err, s.ID.String()+": its record does not say with which firmware it begins")
			require.Equal(t, compute.Corrupt, compute.KindOf(s.CheckMovable()))
			_, err = s.EvacuatedAs(compute.NewOperationID())
			require.Equal(t, compute.Corrupt, compute.KindOf(err))
			require.Error(t, s.CheckResize(compute.Flavor{ID: "2", RootGB: 1}))
			require.Equal(t, "nvram", s.NVRAM())
			require.True(t, s.Uses(host, compute.Thing{Kind: compute.ThingDiskFile, Place: host.String(), Name: s.ID.String() + "/nvram"}))
			require.Equal(t, []string{compute.TraitUEFI, compute.TraitSecureBoot}, compute.RequestOf(s).Traits.Required)
		})
	}
}

// The variables go with the root disk: another one has others, beside them.
func TestNVRAMGoesWithTheRootDisk(t *testing.T) {
	t.Parallel()
	s, op := uefiServer(), compute.NewOperationID()
	host := compute.HostID{UUID: uuid.New()}
	require.Equal(t, "nvram", s.NVRAM())
	require.True(t, s.Uses(host, compute.Thing{Kind: compute.ThingDiskFile, Place: host.String(), Name: s.ID.String() + "/nvram"}))

	rebuilt, err := s.RebuiltAs(op, compute.RebuildArguments{Image: s.Image}, compute.FormatLUKS)
	require.NoError(t, err)
	require.Regexp(t, `^nvram\.[0-9a-f]{8}$`, rebuilt.NVRAM())
	require.False(t, rebuilt.Uses(host, compute.Thing{Kind: compute.ThingDiskFile, Place: host.String(), Name: s.ID.String() + "/nvram"}))
	moved := s.InNewFiles(op)
	require.Regexp(t, `^nvram\.[0-9a-f]{8}$`, moved.NVRAM())
	for _, name := range []string{s.NVRAM(), rebuilt.NVRAM(), moved.NVRAM()} {
		require.True(t, compute.IsNVRAM(name))
	}
	require.False(t, compute.IsNVRAM("nvramx"))

	s.Image.Properties = nil
	require.Empty(t, s.NVRAM())
	require.False(t, s.Uses(host, compute.Thing{Kind: compute.ThingDiskFile, Place: host.String(), Name: s.ID.String() + "/nvram"}))
}

// A host that a server goes to, whatever for, has its firmware.
func TestHostsNeedTheFirmware(t *testing.T) {
	t.Parallel()
	s := uefiServer()
	require.Equal(t, []string{compute.TraitUEFI, compute.TraitSecureBoot}, compute.RequestOf(s).Traits.Required)
	s.Image.Properties["os_secure_boot"] = "optional"
	require.Equal(t, []string{compute.TraitUEFI}, compute.RequestOf(s).Traits.Required)
	s.Image.Properties = nil
	require.Empty(t, compute.RequestOf(s).Traits.Required)
}

// A machine type of one version is a trait of the hosts whose QEMU has it; those of none all have.
func TestMachineTypesOfOneVersion(t *testing.T) {
	t.Parallel()
	const trait = "CUSTOM_STRONGROOM_MACHINE_PC_Q35_4_0_1"
	require.Equal(t, []string{trait, "CUSTOM_STRONGROOM_MACHINE_PC_I440FX_7_2"}, compute.MachineTraits([]string{"", "q35", "pc", "pc-q35-4.0.1", "microvm", "pc-i440fx-7.2", "pc-q35-rhel9.2.0", "pc-q35-1.2.3.4"}))
	s := uefiServer()
	s.Image.Properties["hw_machine_type"] = "pc-q35-4.0.1"
	require.Equal(t, []string{compute.TraitUEFI, compute.TraitSecureBoot, trait}, compute.RequestOf(s).Traits.Required)
	s.Image.Properties = map[string]string{"hw_machine_type": "pc-q35-4.0.1"}
	require.Equal(t, []string{trait}, compute.RequestOf(s).Traits.Required)
	s.Image.Properties["hw_machine_type"] = "q35"
	require.Empty(t, compute.RequestOf(s).Traits.Required)
	for machine, family := range map[string]string{"q35": "q35", "pc-q35-7.2": "q35", "pc": "pc", "pc-i440fx-7.2": "pc"} {
		require.Equal(t, family, compute.MachineFamily(machine))
	}
}

// A resize does not change what a server begins with: its variables have keys, or have none.
func TestAResizeKeepsTheFirmware(t *testing.T) {
	t.Parallel()
	s := uefiServer()
	delete(s.Image.Properties, "os_secure_boot")
	to := compute.Flavor{ID: "2", Name: "large", RootGB: 2}
	require.NoError(t, s.CheckResize(to))
	to.ExtraSpecs = map[string]string{"os:secure_boot": "required"}
	err := s.CheckResize(to)
	require.Equal(t, compute.Conflict, compute.KindOf(err))
	require.ErrorContains(t, err, "Flavor small and flavor large differ in Secure Boot (disabled and required)")

	for machine, is := range map[string]string{"pc-i440fx-6.2": "pc-i440fx-6.2", "pc-i440fx-jammy": ""} { // as Nova had them
		s.Image.Properties = map[string]string{"hw_machine_type": machine}
		require.NoError(t, s.CheckResize(compute.Flavor{ID: "2", RootGB: 2}))
		require.Equal(t, is, s.MachineType())
	}
	require.Error(t, s.CheckResize(compute.Flavor{ID: "2", RootGB: 2, ExtraSpecs: map[string]string{"hw:machine_type": "q35"}}))
}

// A shelve keeps the variables: it is whole on its host with them alone, and leaves that where they are kept.
func TestAShelveKeepsTheVariables(t *testing.T) {
	t.Parallel()
	s, op := uefiServer(), compute.NewOperationID()
	host := compute.HostID{UUID: uuid.New()}
	s.Host = &host
	require.NoError(t, s.CheckShelve())
	require.Contains(t, s.PlanShelve().Data, compute.Carried{What: "UEFI variables"})
	s.Disks[0].Shelved = &compute.ShelvedDisk{Image: *s.Disks[0].Image, SizeBytes: 1, SHA256: "ab"}
	require.Equal(t, []string{"The UEFI variables are kept nowhere."}, s.PlanOffload(nil).Fails)
	has := func(files ...string) (out []compute.Thing) {
		for _, file := range files {
			out = append(out, compute.Thing{Kind: compute.ThingDiskFile, Place: host.String(), Name: s.ID.String() + "/" + file, State: compute.ThingPresent})
		}
		return out
	}
	require.True(t, s.IsWhole(has("disk", "nvram")))
	require.False(t, s.IsWhole(has("disk")))

	require.Nil(t, s.StoredNVRAM())
	object := compute.NVRAMObject(s.ID, op)
	require.NotEqual(t, object, compute.NVRAMObject(s.ID, compute.NewOperationID()))
	s.System = map[string]string{compute.SystemNVRAMObject: object, compute.SystemNVRAMObjectSHA256: "ab"}
	require.Equal(t, &compute.StoredNVRAM{Object: object, SHA256: "ab"}, s.StoredNVRAM())
	require.True(t, s.IsStoredIn(object))
	require.False(t, s.IsStoredIn(compute.TPMObject(s.ID, op)))
	require.Empty(t, s.PlanOffload(nil).Fails)
	plan, err := s.PlanUnshelve(op, compute.UnshelveArguments{})
	require.NoError(t, err)
	require.Empty(t, plan.Data, "it is on its host")
	s.VMState = compute.VMShelvedOffloaded
	plan, err = s.PlanUnshelve(op, compute.UnshelveArguments{})
	require.NoError(t, err)
	require.Contains(t, plan.Data, compute.Carried{What: "UEFI variables"})
	require.Regexp(t, `^nvram\.[0-9a-f]{8}$`, plan.Server.NVRAM(), "what it had on a host before may still wait there")

	s = uefiServer()
	s.Image.Properties["hw_firmware_type"] = "efi"
	require.Equal(t, compute.Corrupt, compute.KindOf(s.CheckShelve()))
}

// Whose variables are gone still has its disks, which a rebuild would make anew.
func TestDamageOfAServerWithoutItsVariables(t *testing.T) {
	t.Parallel()
	d := newDamaged()
	d.server.Image.Properties = map[string]string{"hw_firmware_type": "uefi"}
	nvram := d.thing(compute.ThingDiskFile, d.host.String(), d.server.ID.String()+"/"+d.server.NVRAM(), "")
	got := d.find(d.known(append(d.has(), nvram)...), compute.Missing, nvram)
	require.Len(t, got, 1)
	require.Empty(t, got[0].Remedy)
	require.Contains(t, got[0].Why, "its UEFI variables are lost, and its disks are not")
	require.NotContains(t, got[0].Why, "rebuild it")
}
