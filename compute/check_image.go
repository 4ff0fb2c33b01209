package compute

import (
	"cmp"
	"regexp"
	"strings"
)

// imageAsks are properties of images by which Nova's users ask for what a guest relies on: encrypted or locked memory, CPUs of its own, another
// processor. Servers have what had says; what an image asks for beyond that is refused, as it is of flavors, and not passed over (K6).
var imageAsks = map[string]knownSpec{
	"hw_mem_encryption":           knownSpecs["hw:mem_encryption"],
	"hw_locked_memory":            knownSpecs["hw:locked_memory"],
	"hw_cpu_policy":               knownSpecs["hw:cpu_policy"],
	"hw_cpu_thread_policy":        knownSpecs["hw:cpu_thread_policy"],
	"hw_emulator_threads_policy":  knownSpecs["hw:emulator_threads_policy"],
	"hw_numa_nodes":               knownSpecs["hw:numa_nodes"],
	"hw_pci_numa_affinity_policy": knownSpecs["hw:pci_numa_affinity_policy"],
	"hw_viommu_model":             knownSpecs["hw:viommu_model"],
	"hw_maxphysaddr_mode":         knownSpecs["hw:maxphysaddr_mode"],
	"hw_maxphysaddr_bits":         knownSpecs["hw:maxphysaddr_bits"],
	"hw_architecture":             enumSpec(architectures, "x86_64", "i686"),
	"architecture":                enumSpec(architectures, "x86_64", "i686"), // the older name
	"hw_emulation_architecture":   enumSpec(architectures, "x86_64", "i686"),
	"hw_vm_mode":                  enumSpec(vmModes, "hvm"),
	"vm_mode":                     enumSpec(vmModes, "hvm"),
	"img_hide_hypervisor_id":      boolSpec(false),
	"img_hv_type":                 enumSpec(hypervisors, "kvm", "qemu"),
	"hypervisor_type":             enumSpec(hypervisors, "kvm", "qemu"),
}

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

// otherWords are other spellings of these, as Nova reads them.
var otherWords = map[string]string{
	"amd64": "x86_64", "i386": "i686", "i486": "i686", "i586": "i686", "x86_32": "i686", "x86_32p": "i686", "hv": "hvm", "baremetal": "hvm", "pv": "xen", "xapi": "xen",
}

// spelled gives the value of a property as Nova spells it.
func spelled(property, value string) string {
	switch property {
	case "hw_architecture", "architecture", "hw_emulation_architecture", "hw_vm_mode", "vm_mode", "img_hv_type", "hypervisor_type":
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
		spec, known := imageAsks[property]
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
