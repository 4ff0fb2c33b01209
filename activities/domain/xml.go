package domain

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"libvirt.org/go/libvirtxml"

	"strongroom/activities/firmware"
	"strongroom/compute"
)

// Shape is what a server's domain takes from its host.
type Shape struct {
	VirtType   string // kvm, qemu
	Machine    string
	Cache      string                     // of the disks
	Dir        string                     // the server's folder
	Devices    map[compute.DiskID]string  // paths of the disks that are block devices
	Pool       map[compute.DiskID]string  // images of the disks that are in a Ceph pool
	Ceph       Ceph                       // opens that pool
	Socket     string                     // of its serial console
	Screen     string                     // socket at which its screen is shown, "" for none
	Backing    map[compute.DiskID]string  // paths of the images that disks are overlays on
	Shares     map[compute.ShareID]string // where they are mounted
	Interfaces []Network                  // one for each of the server's networks
	Filter     string                     // libvirt's network filter of each, "" for none
	Operation  compute.OperationID        // that starts it
	Began      time.Time                  // when that did
	UEFI       *UEFI                      // nil: it begins with a BIOS
	SparePorts int                        // PCI ports for what is plugged in while it runs
}

// UEFI is the firmware of a domain.
type UEFI struct {
	firmware.Build
	NVRAM string // the file with its variables
}

// consoleLog is the file in a server's folder that keeps its serial output.
const consoleLog = "console.log"

// XML gives the domain of a server. Every disk's clusters that are its own are
// opened with its own secret (EE-09), a backing file with its copy (EE-11); the
// TPM is swtpm's, its state encrypted under the server's secret (TPM-03).
func XML(s compute.Server, h Shape) (string, error) {
	if len(h.Interfaces) != len(s.Networks) {
		return "", compute.Errorf(compute.Invalid, "server %s: %d interfaces for %d networks", s.ID, len(h.Interfaces), len(s.Networks))
	}
	d := libvirtxml.Domain{
		Type:       h.VirtType,
		Name:       s.InstanceName(),
		UUID:       s.ID.String(),
		Metadata:   metadata(s, starter{h.Operation, h.Began}),
		Memory:     &libvirtxml.DomainMemory{Value: uint(s.Flavor.MemoryMB), Unit: "MiB"},
		VCPU:       &libvirtxml.DomainVCPU{Placement: "static", Value: uint(s.Flavor.VCPUs)},
		OS:         &libvirtxml.DomainOS{Type: &libvirtxml.DomainOSType{Arch: "x86_64", Machine: h.Machine, Type: "hvm"}},
		Features:   &libvirtxml.DomainFeatureList{ACPI: &libvirtxml.DomainFeature{}, APIC: &libvirtxml.DomainFeatureAPIC{}},
		CPU:        &libvirtxml.DomainCPU{Mode: cpuMode(h.VirtType)},
		Clock:      &libvirtxml.DomainClock{Offset: "utc"},
		OnPoweroff: "destroy",
		OnReboot:   "restart",
		OnCrash:    "destroy",
		Devices: &libvirtxml.DomainDeviceList{
			Controllers: []libvirtxml.DomainController{{Type: "usb", Model: "none"}},
			MemBalloon:  &libvirtxml.DomainMemBalloon{Model: "virtio"},
			RNGs: []libvirtxml.DomainRNG{{Model: "virtio", Backend: &libvirtxml.DomainRNGBackend{
				Random: &libvirtxml.DomainRNGBackendRandom{Device: "/dev/urandom"}}}},
		},
	}
	addSMBIOS(&d)
	addUEFI(&d, h.UEFI)
	if h.VirtType == "kvm" {
		d.Clock.Timer = []libvirtxml.DomainTimer{{Name: "pit", TickPolicy: "delay"}, {Name: "rtc", TickPolicy: "catchup"}, {Name: "hpet", Present: "no"}}
	}
	wants := s.Hardware()
	addHardware(&d, wants)
	for _, v := range s.Attached() {
		dev, err := diskXML(s, v, h)
		if err != nil {
			return "", err
		}
		d.Devices.Disks = append(d.Devices.Disks, dev)
	}
	if s.ConfigDrive {
		if err := addConfigDrive(d.Devices, s, h); err != nil {
			return "", err
		}
	}
	addDiskControllers(d.Devices)
	for i, n := range s.Networks {
		d.Devices.Interfaces = append(d.Devices.Interfaces, interfaceXML(s.ID, wants.NIC, i, n, h.Interfaces[i], h.Filter))
	}
	if s.TPM != nil {
		dev, err := tpmXML(s)
		if err != nil {
			return "", err
		}
		d.Devices.TPMs = []libvirtxml.DomainTPM{dev}
	}
	if err := addShares(&d, s, h); err != nil {
		return "", err
	}
	d.MemoryBacking = memoryOf(s)
	d.Devices.Serials, d.Devices.Consoles = serialXML(h)
	addScreen(d.Devices, h.Screen, wants)
	addPorts(d.Devices, h.SparePorts)
	return d.Marshal()
}

// addSMBIOS has the firmware tell the guest what cloud-init and others know a cloud of this API by: without it they do not
// ask 169.254.169.254. It is the same on all hosts and in all releases: a guest that moves while it runs keeps it.
func addSMBIOS(d *libvirtxml.Domain) {
	d.OS.SMBios = &libvirtxml.DomainSMBios{Mode: "sysinfo"}
	d.SysInfo = []libvirtxml.DomainSysInfo{{SMBIOS: &libvirtxml.DomainSysInfoSMBIOS{System: &libvirtxml.DomainSysInfoSystem{Entry: []libvirtxml.DomainSysInfoEntry{
		{Name: "manufacturer", Value: "OpenStack Foundation"}, {Name: "product", Value: "OpenStack Compute"},
		{Name: "serial", Value: d.UUID}, {Name: "uuid", Value: d.UUID}, {Name: "family", Value: "Virtual Machine"},
	}}}}}
}

// addUEFI has the machine begin with UEFI. For Secure Boot nobody but the firmware itself may write
// to the variables: it does in system management mode.
func addUEFI(d *libvirtxml.Domain, u *UEFI) {
	if u == nil {
		return
	}
	d.OS.Loader = &libvirtxml.DomainLoader{Path: u.Code, Readonly: "yes", Type: "pflash"}
	d.OS.NVRam = &libvirtxml.DomainNVRam{NVRam: u.NVRAM}
	if u.Secure {
		d.OS.Loader.Secure = "yes"
		d.Features.SMM = &libvirtxml.DomainFeatureSMM{State: "on"}
	}
}

// addPorts gives the machine as many PCI ports as its devices take, and some that are free: a device is plugged into
// none but a port of its own, and libvirt adds hardly any by itself.
func addPorts(d *libvirtxml.DomainDeviceList, spare int) {
	if spare == 0 {
		return
	}
	taken := len(d.Interfaces) + len(d.Filesystems) + len(d.RNGs) + 1 // the balloon
	for _, disk := range d.Disks {
		if disk.Target.Bus == "virtio" && disk.Address == nil {
			taken++
		}
	}
	for i := range taken + spare {
		index := uint(i + 1) // after the root's
		d.Controllers = append(d.Controllers, libvirtxml.DomainController{Type: "pci", Index: &index, Model: "pcie-root-port"})
	}
}

// cpuMode is the most that a guest can be given: all that QEMU can emulate, or
// the nearest to the host's CPU that libvirt can name and so move elsewhere.
func cpuMode(virtType string) string {
	if virtType == "kvm" {
		return "host-model"
	}
	return "maximum"
}

func diskXML(s compute.Server, v compute.Disk, h Shape) (libvirtxml.DomainDisk, error) {
	dev := libvirtxml.DomainDisk{
		Device: "disk",
		Driver: &libvirtxml.DomainDiskDriver{Name: "qemu", Type: "qcow2", Cache: h.Cache, Discard: "unmap"},
		Source: &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: filepath.Join(h.Dir, v.Name())}},
		Target: &libvirtxml.DomainDiskTarget{Dev: strings.TrimPrefix(v.DeviceName, "/dev/"), Bus: v.Bus},
		Serial: v.Serial(),
	}
	if slot, ok := v.PCISlot(); ok { // where the server's metadata says it is
		dev.Address = onFirstBus(slot)
	}
	if v.BootIndex >= 0 {
		dev.Boot = &libvirtxml.DomainDeviceBoot{Order: uint(v.BootIndex) + 1}
	}
	if v.OnDevice() { // the host decrypts it
		dev.Driver.Type, dev.Driver.Cache, dev.Driver.Discard = "raw", "none", ""
		dev.Source = &libvirtxml.DomainDiskSource{Block: &libvirtxml.DomainDiskSourceBlock{Dev: h.Devices[v.ID]}}
		if h.Devices[v.ID] == "" {
			return dev, compute.Errorf(compute.Invalid, "disk %s of the format %s is not open", v.ID, v.Format)
		}
		return dev, nil
	}
	if v.Encrypted {
		if v.Secret == nil || v.Format != compute.FormatLUKS {
			return dev, compute.Errorf(compute.Invalid, "disk %s is encrypted and has no LUKS secret", v.ID)
		}
		dev.Source.Encryption = luks(*v.Secret)
	}
	if image := h.Pool[v.ID]; image != "" { // which leans on nothing
		usePool(&dev, image, h.Ceph)
		return dev, nil
	}
	img := s.SourceOf(v)
	if img == nil {
		// It leans on nothing, whatever its header says: QEMU can write that, and a guest
		// may have broken into QEMU (M4).
		dev.BackingStore = &libvirtxml.DomainDiskBackingStore{}
		return dev, nil
	}
	var err error
	dev.BackingStore, err = backingXML(*img, v, h.Backing[v.ID])
	return dev, err
}

// backingXML names the file under a root or rescue disk: libvirt would find it by itself,
// but not its secret.
func backingXML(img compute.Image, v compute.Disk, file string) (*libvirtxml.DomainDiskBackingStore, error) {
	format, err := img.BackingFormat()
	if err != nil {
		return nil, err
	}
	if img.IsEncrypted() != (v.BackingSecret != nil) {
		return nil, compute.Errorf(compute.Invalid, "disk %s: its source is encrypted: %t, and the secret for it is %v", v.ID, img.IsEncrypted(), v.BackingSecret)
	}
	if format == compute.ImageLUKS {
		format = compute.ImageRaw // a container's bytes, says libvirt, that are encrypted
	}
	source := &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{
		File: file,
		// libvirt would give it to QEMU's user, who could write to what others' disks lie on (M5).
		SecLabel: []libvirtxml.DomainDeviceSecLabel{{Model: "dac", Relabel: "no"}},
	}}
	if v.BackingSecret != nil {
		source.Encryption = luks(*v.BackingSecret)
	}
	return &libvirtxml.DomainDiskBackingStore{
		Format: &libvirtxml.DomainDiskFormat{Type: format}, Source: source, BackingStore: &libvirtxml.DomainDiskBackingStore{},
	}, nil
}

func luks(id compute.SecretID) *libvirtxml.DomainDiskEncryption {
	return &libvirtxml.DomainDiskEncryption{
		Format: "luks", Engine: "qemu",
		Secrets: []libvirtxml.DomainDiskSecret{{Type: "passphrase", UUID: id.String()}},
	}
}

func tpmXML(s compute.Server) (libvirtxml.DomainTPM, error) {
	t := s.TPM
	if t.Secret == nil {
		return libvirtxml.DomainTPM{}, compute.Errorf(compute.Invalid, "server %s: its TPM has no secret", s.ID)
	}
	return libvirtxml.DomainTPM{Model: string(t.Model), Backend: &libvirtxml.DomainTPMBackend{
		Emulator: &libvirtxml.DomainTPMBackendEmulator{
			Version: string(t.Version),
			// libvirt never removes it: it is a thing of its own.
			PersistentState: "yes",
			Encryption:      &libvirtxml.DomainTPMBackendEncryption{Secret: t.Secret.String()},
		},
	}}, nil
}

// serialXML is one serial port: a socket to talk to the guest, and a file that
// keeps what it said, also over restarts.
func serialXML(h Shape) ([]libvirtxml.DomainSerial, []libvirtxml.DomainConsole) {
	port := uint(0)
	source := &libvirtxml.DomainChardevSource{UNIX: &libvirtxml.DomainChardevSourceUNIX{Mode: "bind", Path: h.Socket}}
	log := &libvirtxml.DomainChardevLog{File: filepath.Join(h.Dir, consoleLog), Append: "on"}
	return []libvirtxml.DomainSerial{{Source: source, Log: log, Target: &libvirtxml.DomainSerialTarget{Port: &port}}},
		[]libvirtxml.DomainConsole{{Source: source, Log: log, Target: &libvirtxml.DomainConsoleTarget{Type: "serial", Port: &port}}}
}

func interfaceXML(server compute.ServerID, card compute.NIC, index int, n compute.Network, plug Network, filter string) libvirtxml.DomainInterface {
	dev := libvirtxml.DomainInterface{
		MAC:    &libvirtxml.DomainInterfaceMAC{Address: n.MAC},
		Source: &libvirtxml.DomainInterfaceSource{Network: &libvirtxml.DomainInterfaceSourceNetwork{Network: plug.Name}},
	}
	dev.Model, dev.Driver = cardXML(card)
	if plug.Bridge != "" {
		dev.Source = &libvirtxml.DomainInterfaceSource{Bridge: &libvirtxml.DomainInterfaceSourceBridge{Bridge: plug.Bridge}}
	}
	if n.MAC == "" { // the same at every start
		sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d/%s", server, index, n.UUID))
		dev.MAC.Address = fmt.Sprintf("52:54:00:%02x:%02x:%02x", sum[0], sum[1], sum[2])
	}
	if n.Port != nil {
		return portXML(dev, n, filter)
	}
	if filter != "" { // libvirt fills in the MAC address, and learns the IP address
		dev.FilterRef = &libvirtxml.DomainInterfaceFilterRef{Filter: filter}
	}
	return dev
}

// portXML is an interface on a port: Neutron's agents find the device by the names that it
// has here. Its service filters its traffic, unless it says that hosts do.
func portXML(dev libvirtxml.DomainInterface, n compute.Network, filter string) libvirtxml.DomainInterface {
	if n.Port.HostFilter && filter != "" {
		dev.FilterRef = &libvirtxml.DomainInterfaceFilterRef{Filter: CleanTraffic}
		for _, a := range n.Port.Addresses { // known ones are not learnt
			dev.FilterRef.Parameters = append(dev.FilterRef.Parameters, libvirtxml.DomainInterfaceFilterParam{Name: "IP", Value: a.IP})
		}
	}
	dev.Target = &libvirtxml.DomainInterfaceTarget{Dev: n.Port.ID.TapName()}
	if n.Port.Type == compute.VIFOpenVSwitch {
		dev.VirtualPort = &libvirtxml.DomainInterfaceVirtualPort{Params: &libvirtxml.DomainInterfaceVirtualPortParams{
			OpenVSwitch: &libvirtxml.DomainInterfaceVirtualPortParamsOpenVSwitch{InterfaceID: n.Port.ID.String()},
		}}
	}
	if n.Port.MTU > 0 {
		dev.MTU = &libvirtxml.DomainInterfaceMTU{Size: uint(n.Port.MTU)}
	}
	return dev
}

// metadata tells who looks at the host whose domain this is, and which operation started it.
func metadata(s compute.Server, by starter) *libvirtxml.DomainMetadata {
	var b strings.Builder
	b.WriteString(`<strongroom:server xmlns:strongroom="urn:strongroom:server:1">`)
	for _, e := range []struct{ name, text string }{{"name", s.Name}, {"project", s.ProjectID}, {"user", s.UserID}, {"flavor", s.Flavor.Name}, {"image", s.Image.ID.String()}} {
		b.WriteString("<strongroom:" + e.name + ">" + escaped(e.text) + "</strongroom:" + e.name + ">")
	}
	b.WriteString("</strongroom:server>")
	if by.op != "" {
		b.WriteString(by.markXML())
	}
	return &libvirtxml.DomainMetadata{XML: b.String()}
}
