package domain_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/domain"
	"strongroom/activities/firmware"
	"strongroom/compute"
)

var update = flag.Bool("update", false, "write the golden files")

func id(last byte) uuid.UUID {
	u := uuid.MustParse("11111111-2222-4333-8444-555555555500")
	u[15] = last
	return u
}

func secretID(last byte) *compute.SecretID { return &compute.SecretID{UUID: id(last)} }

// plainServer has a root disk on a qcow2 image and nothing else.
func plainServer() compute.Server {
	image := compute.ImageID{UUID: id(2)}
	return compute.Server{
		ID: compute.ServerID{UUID: id(1)}, Name: "web <1> & co", ProjectID: "p1", UserID: "u1",
		Flavor: compute.Flavor{Name: "m1.tiny", VCPUs: 1, MemoryMB: 256},
		Image:  compute.Image{ID: image, DiskFormat: "qcow2"},
		Disks: []compute.Disk{{ID: compute.DiskID{UUID: id(3)}, Role: compute.RootDisk, DeviceName: "/dev/vda", Bus: "virtio",
			SizeMB: 64, BootIndex: 0, Image: &image}},
	}
}

// encryptedServer has LUKS root, ephemeral and swap disks.
func encryptedServer() compute.Server {
	s := plainServer()
	s.Disks = append(s.Disks,
		compute.Disk{ID: compute.DiskID{UUID: id(4)}, Role: compute.EphemeralDisk, DeviceName: "/dev/vdb", Bus: "virtio", SizeMB: 1024, BootIndex: -1},
		compute.Disk{ID: compute.DiskID{UUID: id(5)}, Role: compute.SwapDisk, DeviceName: "/dev/vdc", Bus: "virtio", SizeMB: 64, BootIndex: -1})
	for i := range s.Disks {
		d := &s.Disks[i]
		d.Encrypted, d.Format, d.Secret = true, compute.FormatLUKS, secretID(byte(0x10+i))
	}
	return s
}

// rescued is the server on a rescue disk, which is encrypted if the image is.
func rescued(s compute.Server, encrypted bool) compute.Server {
	image := compute.Image{ID: compute.ImageID{UUID: id(9)}, DiskFormat: "qcow2"}
	d := compute.Disk{ID: compute.DiskID{UUID: id(8)}, Role: compute.RescueDisk, DeviceName: "/dev/vda", Bus: "virtio", Image: &image.ID, Source: &image}
	if encrypted {
		image.Properties = map[string]string{"os_encrypt_key_id": id(0x40).String()}
		d.Encrypted, d.Format, d.Secret, d.BackingSecret = true, compute.FormatLUKS, secretID(0x40), secretID(0x40)
	}
	return s.RescuedWith(d)
}

func withTPM(s compute.Server, v compute.TPMVersion, m compute.TPMModel) compute.Server {
	s.TPM = &compute.TPM{Version: v, Model: m, Security: compute.SecurityUser, Secret: secretID(0x20)}
	return s
}

func TestXMLGolden(t *testing.T) {
	t.Parallel()
	host := domain.Shape{
		VirtType: "qemu", Machine: "q35", Cache: "none",
		Dir:     "/var/lib/strongroom/instances/" + id(1).String(),
		Socket:  "/run/strongroom/" + id(1).String() + ".sock",
		Backing: map[compute.DiskID]string{{UUID: id(3)}: "/var/lib/strongroom/images/base.qcow2", {UUID: id(8)}: "/var/lib/strongroom/images/rescue.qcow2"},
	}
	kvm := host
	kvm.VirtType, kvm.Operation = "kvm", "req-<1>"
	plugged := host
	plugged.Filter = domain.NoMACSpoofing // H8
	plugged.Interfaces = []domain.Network{{Name: "default"}, {Bridge: "br0"}}
	networked := plainServer()
	networked.Networks = []compute.Network{{UUID: id(6).String()}, {UUID: id(7).String(), MAC: "fa:16:3e:00:00:01"}}
	ported := plainServer()
	for i, t := range []compute.VIFType{compute.VIFOpenVSwitch, compute.VIFBridge} {
		port := &compute.Port{ID: &compute.PortID{UUID: id(byte(0x60 + i))}, Type: t, Bridge: compute.BridgeOf(t, id(6).String()), MTU: 1442}
		ported.Networks = append(ported.Networks, compute.Network{UUID: id(6).String(), MAC: "fa:16:3e:00:00:01", Port: port})
	}
	cleaned := plainServer() // no service filters the traffic of its port
	cleaned.Networks = []compute.Network{{UUID: id(6).String(), MAC: "fa:72:0a:00:00:02", Port: &compute.Port{
		ID: &compute.PortID{UUID: id(0x62)}, Type: compute.VIFBridge, Bridge: "sr-1", MTU: 1500, HostFilter: true, Addresses: []compute.PortAddress{{IP: "10.0.0.2"}},
	}}}
	onBridge, unfiltered := plugged, host
	onBridge.Interfaces = []domain.Network{{Bridge: "sr-1"}}
	unfiltered.Interfaces = onBridge.Interfaces
	onBridges := plugged
	onBridges.Interfaces = []domain.Network{{Bridge: ported.Networks[0].Port.Bridge}, {Bridge: ported.Networks[1].Port.Bridge}}
	encryptedSource := encryptedServer()
	encryptedSource.Disks[0].BackingSecret = secretID(0x30)
	encryptedSource.Image.Properties = map[string]string{"os_encrypt_key_id": id(0x31).String(), "os_encrypt_format": "LUKSv1"}
	container := encryptedSource
	container.Image.DiskFormat = "luks"
	sharing := plainServer()
	sharing.Shares = []compute.ShareMapping{
		{Share: compute.ShareID{UUID: id(0x50)}, Tag: "data"}, {Share: compute.ShareID{UUID: id(0x51)}, Tag: id(0x51).String()},
	}
	onPages := sharing
	onPages.Flavor.ExtraSpecs = map[string]string{"hw:mem_page_size": "2MB"}
	pages := plainServer()
	pages.Image.Devices, pages.Image.Pages, pages.Image.Properties = true, true, map[string]string{"hw_mem_page_size": "large"}
	pages.Flavor.ExtraSpecs = map[string]string{"hw:mem_page_size": "any"}
	mounted := host
	mounted.Shares = map[compute.ShareID]string{{UUID: id(0x50)}: "/var/lib/strongroom/mounts/one/mnt", {UUID: id(0x51)}: "/var/lib/strongroom/mounts/two/mnt"}
	takesLive, spare := plainServer(), host
	takesLive.Flavor.ExtraSpecs = map[string]string{"trait:" + compute.TraitLiveShares: "required"}
	spare.SparePorts = 4
	shown := spare
	shown.Screen = "/run/strongroom/" + id(1).String() + ".vnc/v"
	driven, drivenSATA := encryptedServer(), plainServer()
	driven.ConfigDrive, drivenSATA.ConfigDrive = true, true
	drivenSATA.Image.Properties = map[string]string{"hw_cdrom_bus": "sata"}
	decrypted := encryptedServer()
	for i, format := range []compute.DiskFormat{compute.FormatLUKSv2, compute.FormatLUKS, compute.FormatPlain} {
		decrypted.Disks[i].Format = format
	}
	device := host
	device.Devices = map[compute.DiskID]string{
		decrypted.Disks[0].ID: "/dev/mapper/" + id(1).String() + "_disk-dmcrypt", decrypted.Disks[2].ID: "/dev/mapper/" + id(1).String() + "_disk.swap-dmcrypt"}
	inPool, pool := encryptedSource, host
	inPool.ConfigDrive = true
	inPool.Disks = slices.Clone(inPool.Disks)
	inPool.Disks[1].Encrypted = false
	pool.Ceph = domain.Ceph{User: "strongroom", ConfFile: "/etc/ceph/ceph.conf"}
	pool.Pool = map[compute.DiskID]string{}
	for _, d := range inPool.Disks {
		pool.Pool[d.ID] = "vms/" + id(1).String() + "_" + d.Name()
	}
	plainUEFI, secure := host, host
	plainUEFI.UEFI = &domain.UEFI{Build: firmware.Build{Code: "/usr/share/OVMF/OVMF_CODE_4M.fd"}, NVRAM: filepath.Join(host.Dir, "nvram")}
	secure.UEFI = &domain.UEFI{Build: firmware.Build{Code: "/usr/share/OVMF/OVMF_CODE_4M.ms.fd", Secure: true}, NVRAM: filepath.Join(host.Dir, "nvram")}
	older := host
	older.Machine = compute.MachinePC
	windows, many := plainServer(), kvm
	windows.Flavor.VCPUs, windows.ConfigDrive = 4, true
	windows.Image.Devices, windows.Image.Properties = true, map[string]string{
		"os_type": "windows", "hw_cpu_max_sockets": "1", "hw_vif_multiqueue_enabled": "true", "hw_watchdog_action": "reset", "hw_qemu_guest_agent": "yes",
		"hw_pointer_model": "usbtablet", "hw_video_ram": "32",
	}
	windows.Networks = networked.Networks
	many.Interfaces, many.Screen = plugged.Interfaces, shown.Screen
	onSCSI, onSATA := encryptedServer(), plainServer()
	onSCSI.ConfigDrive, onSATA.ConfigDrive = true, true
	onSATA.Image.Devices, onSATA.Image.Properties = true, map[string]string{"hw_cdrom_bus": "sata", "hw_vif_model": "e1000", "hw_video_model": "none", "hw_input_bus": "virtio"}
	onSATA.Networks = cleaned.Networks
	for i := range onSCSI.Disks {
		onSCSI.Disks[i].Bus, onSCSI.Disks[i].DeviceName = compute.BusSCSI, compute.DeviceName(compute.BusSCSI, i)
	}
	onSATA.Disks[0].Bus, onSATA.Disks[0].DeviceName = compute.BusSATA, "/dev/sda"
	sata := onBridge
	sata.Screen = shown.Screen
	for name, c := range map[string]struct {
		server compute.Server
		host   domain.Shape
	}{
		"devices-windows":   {windows, many}, // K6
		"devices-scsi":      {onSCSI, host},  // K6
		"devices-sata":      {onSATA, sata},  // K6
		"pc-bios-tpm":       {withTPM(encryptedServer(), compute.TPM20, compute.TPMTIS), older},
		"uefi":              {plainServer(), plainUEFI},
		"uefi-secure-boot":  {withTPM(plainServer(), compute.TPM20, compute.TPMCRB), secure},
		"pool":              {inPool, pool},
		"shares":            {sharing, mounted}, // SH-10
		"shares-pages":      {onPages, mounted}, // SH-05
		"pages":             {pages, host},      // K6
		"shares-live":       {takesLive, spare},
		"screen":            {plainServer(), shown},
		"device":            {decrypted, device},
		"config-drive-luks": {driven, host},
		"config-drive-sata": {drivenSATA, host},
		"plain":             {plainServer(), host},
		"plain-kvm":         {plainServer(), kvm},
		"luks":              {encryptedServer(), host},
		"luks-backing":      {encryptedSource, host},
		"luks-container":    {container, host},
		"tpm-crb-2.0":       {withTPM(encryptedServer(), compute.TPM20, compute.TPMCRB), host},
		"tpm-tis-2.0":       {withTPM(plainServer(), compute.TPM20, compute.TPMTIS), host},
		"tpm-tis-1.2":       {withTPM(plainServer(), compute.TPM12, compute.TPMTIS), host},
		"network-and-kind":  {networked, plugged},
		"ports":             {ported, onBridges},
		"port-cleaned":      {cleaned, onBridge},
		"port-unfiltered":   {cleaned, unfiltered},
		"rescue":            {rescued(withTPM(encryptedSource, compute.TPM20, compute.TPMCRB), false), host},
		"rescue-luks":       {rescued(plainServer(), true), host},
	} {
		got, err := domain.XML(c.server, c.host)
		require.NoError(t, err, name)
		golden := filepath.Join("testdata", name+".xml")
		if *update {
			require.NoError(t, os.WriteFile(golden, []byte(got+"\n"), 0o644))
		}
		want, err := os.ReadFile(golden)
		require.NoError(t, err)
		require.Equal(t, string(want), got+"\n", name)
	}
}

func TestXMLRefuses(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*compute.Server){
		"disk without secret": func(s *compute.Server) { s.Disks[1].Secret = nil },
		"format":              func(s *compute.Server) { s.Disks[1].Format = "rot13" },
		"device not open":     func(s *compute.Server) { s.Disks[1].Format = compute.FormatLUKSv2 },
		"TPM without secret":  func(s *compute.Server) { s.TPM.Secret = nil },
		"source's secret":     func(s *compute.Server) { s.Disks[0].BackingSecret = nil },
		"source of LUKSv2":    func(s *compute.Server) { s.Image.Properties["os_encrypt_format"] = "luksv2" },
		"CD-ROM's bus": func(s *compute.Server) {
			s.ConfigDrive, s.Image.Properties = true, map[string]string{"hw_cdrom_bus": "ide"}
		},
		"share unmounted":   func(s *compute.Server) { s.Shares = []compute.ShareMapping{{Tag: "data"}} },
		"network unplugged": func(s *compute.Server) { s.Networks = []compute.Network{{UUID: id(6).String()}} },
	} {
		s := withTPM(encryptedServer(), compute.TPM20, compute.TPMCRB)
		s.Image.Properties = map[string]string{"os_encrypt_key_id": id(0x31).String()}
		s.Disks[0].BackingSecret = secretID(0x30)
		spoil(&s)
		_, err := domain.XML(s, domain.Shape{VirtType: "qemu", Machine: "q35", Backing: map[compute.DiskID]string{{UUID: id(3)}: "/base"}})
		require.True(t, compute.Is(err, compute.Invalid), "%s: %v", name, err)
	}
}
