package compute

import (
	"cmp"
	"regexp"
	"strings"
)

// imageProperty is what a server takes from a property of its image.
type imageProperty struct {
	name string
	knownSpec
	does string // for people: docs/images.md has it
}

// novaImageProperties are the properties of images that Nova knows, but for those with a parameter in their names, those that its own services write
// (img_signature…, base_…) and those older names of what has no effect here (vmware_disktype, vmware_ostype). By some of them its users ask for
// what a guest relies on: encrypted or locked memory, CPUs of its own, another processor, other devices. Servers have what had says, by themselves
// or since Hardware gives it to them; what an image asks for beyond that is refused, as it is of flavors, and not passed over (K6).
var novaImageProperties = []imageProperty{
	{"architecture", enumSpec(architectures, "x86_64", "i686"), "the older name of hw_architecture"},
	{"block_device_mapping", noDevices, "[]: an image of a server on volumes is none that servers have here"},
	{"hw_architecture", enumSpec(architectures, "x86_64", "i686"), "x86_64, i686"},
	{"hw_auto_disk_config", boolSpec(true, false), "yes, no: nothing, as it is another hypervisor's"},
	{"hw_boot_menu", knownSpecs["hw:boot_menu"], "no: there is none"},
	{"hw_cdrom_bus", enumSpec(novaDiskBuses, novaDiskBuses...), "scsi, sata: the bus of the config drive (metadata.md)"},
	{"hw_cpu_cores", knownSpecs["hw:cpu_cores"], "cores of a socket, a wish"},
	{"hw_cpu_max_cores", knownSpecs["hw:max_cpu_cores"], "at most so many, within the flavor's hw:max_cpu_cores"},
	{"hw_cpu_max_sockets", knownSpecs["hw:max_cpu_sockets"], "at most so many, within the flavor's hw:max_cpu_sockets"},
	{"hw_cpu_max_threads", knownSpecs["hw:max_cpu_threads"], "at most so many, within the flavor's hw:max_cpu_threads"},
	{"hw_cpu_policy", knownSpecs["hw:cpu_policy"], "shared: no CPU is a guest's own"},
	{"hw_cpu_realtime_mask", knownSpecs["hw:cpu_realtime_mask"], "any: nothing, as no CPU is a realtime one"},
	{"hw_cpu_sockets", knownSpecs["hw:cpu_sockets"], "sockets, a wish"},
	{"hw_cpu_thread_policy", knownSpecs["hw:cpu_thread_policy"], "prefer: nothing"},
	{"hw_cpu_threads", knownSpecs["hw:cpu_threads"], "threads of a core, a wish"},
	{"hw_disk_bus", enumSpec(novaDiskBuses, diskBuses...), "virtio, scsi, sata: the bus of the server's disks"},
	{"hw_disk_type", textSpec(true), "any: nothing, as it is another hypervisor's"},
	{"hw_emulation_architecture", enumSpec(architectures, "x86_64", "i686"), "x86_64, i686"},
	{"hw_emulator_threads_policy", knownSpecs["hw:emulator_threads_policy"], "share: nothing"},
	{"hw_ephemeral_encryption", textSpec(true), "encrypted disks (encryption.md)"},
	{"hw_ephemeral_encryption_format", textSpec(true), "in which format (encryption.md)"},
	{"hw_firmware_stateless", boolSpec(false), "no: UEFI keeps its variables"},
	{"hw_firmware_type", textSpec(true), "bios, uefi (firmware.md)"},
	{"hw_floppy_bus", enumSpec(novaDiskBuses, novaDiskBuses...), "any: nothing, as there are no floppy disks"},
	{"hw_input_bus", knownSpecs["hw:input_bus"], "usb, virtio: an absolute pointer, a tablet, on this bus"},
	{"hw_ipxe_boot", boolSpec(false), "no: another hypervisor's"},
	{"hw_locked_memory", knownSpecs["hw:locked_memory"], "no: memory is not locked"},
	{"hw_machine_type", textSpec(true), "q35, pc, or one version of them (firmware.md)"},
	{"hw_maxphysaddr_bits", knownSpecs["hw:maxphysaddr_bits"], "all are refused"},
	{"hw_maxphysaddr_mode", knownSpecs["hw:maxphysaddr_mode"], "all are refused"},
	{"hw_mem_encryption", knownSpecs["hw:mem_encryption"], "no: memory is not encrypted"},
	{"hw_mem_encryption_model", textSpec(false), "all are refused"},
	{"hw_mem_page_size", formSpec(pageSizeFormat, true), "small, large, any, 4KiB, 2MiB, 1GiB: the pages of its host that its memory is on, where the flavor's hw:mem_page_size is large or any"},
	{"hw_numa_nodes", knownSpecs["hw:numa_nodes"], "all are refused, and so are hw_numa_cpus.N and hw_numa_mem.N"},
	{"hw_pci_numa_affinity_policy", knownSpecs["hw:pci_numa_affinity_policy"], "required, preferred, legacy, socket: nothing, as there are no devices of the host"},
	{"hw_pmu", knownSpecs["hw:pmu"], "all are refused"},
	{"hw_pointer_model", enumSpec(enum{"usbtablet"}, "usbtablet"), "usbtablet: a tablet on USB, unless hw_input_bus names another bus"},
	{"hw_qemu_guest_agent", boolSpec(true, false), "yes, no: the channel that QEMU's guest agent looks for; strongroom asks no agent"},
	{"hw_redirected_usb_ports", intSpec(0, isZero), "0: there are none"},
	{"hw_rescue_bus", enumSpec(novaDiskBuses, diskBuses...), "virtio, scsi, sata: the bus of a rescue disk that is made of the image; else hw_disk_bus says it"},
	{"hw_rescue_device", enumSpec(enum{"cdrom", "disk", "floppy"}, "disk"), "disk: nothing, as a rescue disk is one"},
	{"hw_rng_model", enumSpec(enum{"virtio"}, "virtio"), "virtio: nothing, as all servers have it"},
	{"hw_scsi_model", enumSpec(scsiModels, "virtio-scsi"), "virtio-scsi: nothing, as the controller of disks on SCSI is one"},
	{"hw_serial_port_count", knownSpecs["hw:serial_port_count"], "1: nothing"},
	{"hw_sound_model", textSpec(false), "all are refused"},
	{"hw_time_hpet", boolSpec(false), "no: with KVM there is none"},
	{"hw_tpm_model", textSpec(true), "a vTPM (vtpm.md)"},
	{"hw_tpm_version", textSpec(true), "a vTPM (vtpm.md)"},
	{"hw_usb_model", textSpec(false), "all are refused"},
	{"hw_video_model", enumSpec(novaVideoCards, videoCards...), "vga, virtio, cirrus, bochs, none: the video card, where hosts show screens (consoles.md)"},
	{"hw_video_ram", intSpec(1, always), "MiB of memory of a card vga or bochs, within the flavor's hw_video:ram_max_mb, without which it has no say"},
	{"hw_vif_model", enumSpec(novaNICs, nicModels...), "virtio, e1000, e1000e, rtl8139: interfaces, those that are attached later, too"},
	{"hw_vif_multiqueue_enabled", knownSpecs["hw:vif_multiqueue_enabled"], "yes, no: a virtio interface has a queue for each CPU, at most 16"},
	{"hw_viommu_model", knownSpecs["hw:viommu_model"], "all are refused"},
	{"hw_virtio_packed_ring", knownSpecs["hw:virtio_packed_ring"], "no: rings are split ones"},
	{"hw_vm_mode", enumSpec(vmModes, "hvm"), "hvm: nothing"},
	{"hw_watchdog_action", knownSpecs["hw:watchdog_action"], "pause, poweroff, reset, none: a watchdog, an i6300esb, that does this to a silent guest; disabled: none"},
	{"hypervisor_type", enumSpec(hypervisors, "kvm", "qemu"), "the older name of img_hv_type"},
	{"img_block_device_mapping", noDevices, "[]: as block_device_mapping"},
	{"img_config_drive", textSpec(true), "mandatory, optional (metadata.md)"},
	{"img_hide_hypervisor_id", boolSpec(false), "no: a guest sees that it is one"},
	{"img_hv_requested_version", textSpec(true), "any: nothing"},
	{"img_hv_type", enumSpec(hypervisors, "kvm", "qemu"), "kvm, qemu"},
	{"img_linked_clone", boolSpec(true, false), "yes, no: nothing, as it is another hypervisor's"},
	{"img_mappings", noDevices, "[]: as block_device_mapping"},
	{"ipxe_boot", boolSpec(false), "the older name of hw_ipxe_boot"},
	{"mappings", noDevices, "[]: the older name of img_mappings"},
	{"os_admin_user", textSpec(true), "any: nothing, as no password is set in a guest"},
	{"os_command_line", textSpec(true), "any: nothing, as a guest's own boot loader says it"},
	{"os_distro", textSpec(true), "any: nothing, as it is for people"},
	{"os_require_quiesce", boolSpec(false), "no: an image of a running server is as its disks are at one moment"},
	{"os_secure_boot", textSpec(true), "disabled, optional, required (firmware.md)"},
	{"os_skip_agent_inject_files_at_boot", boolSpec(true, false), "yes, no: nothing, as it is another hypervisor's"},
	{"os_skip_agent_inject_ssh", boolSpec(true, false), "yes, no: nothing, as it is another hypervisor's"},
	{"os_type", enumSpec(enum{"linux", "windows"}, "linux", "windows"), "linux: nothing; windows: the machine's clock is the local time of its host, and with KVM it has the hypervisor that Windows knows"},
	{"vm_mode", enumSpec(vmModes, "hvm"), "the older name of hw_vm_mode"},
	{"vmware_adaptertype", textSpec(false), "all are refused: it is an older name of hw_scsi_model, and of hw_disk_bus ide; say hw_disk_bus"},
}

// noDevices is of a list of block devices. A server is not made of an image that is nothing but such a list.
var noDevices = knownSpec{check: func(string) error { return nil }, had: func(value string) bool { return value == "[]" }}

// knownProperties has each by its name.
var knownProperties = func() map[string]knownSpec {
	all := map[string]knownSpec{}
	for _, p := range novaImageProperties {
		all[p.name] = p.knownSpec
	}
	return all
}()

// The words that Nova knows.
var (
	architectures = enum{
		"aarch64", "alpha", "armv6", "armv7l", "armv7b", "cris", "i686", "ia64", "lm32", "loongarch64", "m68k", "microblaze", "microblazeel", "mips", "mipsel",
		"mips64", "mips64el", "openrisc", "parisc", "parisc64", "ppc", "ppcle", "ppc64", "ppc64le", "ppcemb", "s390", "s390x", "sh4", "sh4eb", "sparc", "sparc64",
		"unicore32", "x86_64", "xtensa", "xtensaeb",
	}
	vmModes     = enum{"hvm", "xen", "uml", "exe"}
	hypervisors = enum{
		"bhyve", "docker", "fake", "hyperv", "ironic", "kqemu", "kvm", "lxc", "lxd", "openvz", "parallels", "vz", "phyp", "qemu", "test", "uml", "vbox", "vmware", "xen", "zvm",
	}
)

// The devices that Nova knows.
var (
	novaDiskBuses  = enum{"fdc", "ide", "sata", "scsi", "usb", "virtio", "xen", "lxc", "uml"}
	scsiModels     = enum{"buslogic", "ibmvscsi", "lsilogic", "lsisas1068", "lsisas1078", "virtio-scsi", "vmpvscsi"}
	novaVideoCards = enum{"cirrus", "gop", "none", "qxl", "virtio", "vga", "vmvga", "xen", "bochs"}
	novaNICs       = enum{
		"legacy", "e1000", "e1000e", "igb", "lan9118", "ne2k_pci", "netfront", "pcnet", "rtl8139", "spapr-vlan", "sriov", "virtio", "vmxnet", "vmxnet3",
		"virtualpcnet32", "virtualsriovethernetcard", "virtualvmxnet", "virtualvmxnet3",
	}
)

// otherWords are other spellings of these, as Nova reads them.
var otherWords = map[string]string{
	"amd64": "x86_64", "i386": "i686", "i486": "i686", "i586": "i686", "x86_32": "i686", "x86_32p": "i686", "hv": "hvm", "baremetal": "hvm", "pv": "xen", "xapi": "xen",
	"virtuale1000": "e1000", "virtuale1000e": "e1000e",
}

// spelled gives the value of a property as Nova spells it.
func spelled(property, value string) string {
	switch property {
	case "hw_architecture", "architecture", "hw_emulation_architecture", "hw_vm_mode", "vm_mode", "img_hv_type", "hypervisor_type", "hw_vif_model", "os_type":
		word := strings.ToLower(value)
		return cmp.Or(otherWords[word], word)
	}
	return value
}

// numaProperty is of those that say which CPUs and how much memory a node has.
var numaProperty = regexp.MustCompile(`\Ahw_numa_(cpus|mem)\.\d+\z`)

// mostImageText is the limit in bytes of the properties and tags of a server's image: about 128 properties with names and values of 255, as in Nova. They are
// part of the inputs and results of activities (K15).
const mostImageText = 64 << 10

// CheckImage refuses an image that asks for what servers cannot have here, whose properties cannot be understood, or that has more of them than a
// server keeps. An empty value counts as nothing. Invalid.
func CheckImage(img Image) error {
	properties := sorted(img.Properties)
	text := 0
	for _, tag := range img.Tags {
		text += len(tag)
	}
	for _, property := range properties {
		text += len(property) + len(img.Properties[property])
	}
	if text > mostImageText {
		return Errorf(Invalid, "Image %s has %d KiB of properties and tags; a server keeps %d KiB at most.", img.Name, text>>10, mostImageText>>10)
	}
	for _, property := range properties {
		value := img.Properties[property]
		spec, known := knownProperties[property]
		switch {
		case value == "":
		case numaProperty.MatchString(property):
			return Errorf(Invalid, "Image %s asks for what servers cannot have here: %s=%s.", img.Name, property, value)
		case !known:
		default:
			word := spelled(property, value)
			if err := spec.check(word); err != nil {
				return Errorf(Invalid, "Image %s has an invalid %s property. %w", img.Name, property, err)
			}
			if !spec.had(word) {
				return Errorf(Invalid, "Image %s asks for what servers cannot have here: %s=%s.", img.Name, property, value)
			}
		}
	}
	return nil
}
