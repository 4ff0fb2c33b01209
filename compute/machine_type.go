package compute

import (
	"regexp"
	"strings"
)

// The machine types that flavors and images may name (hw:machine_type, hw_machine_type), beside those of one
// version, as pc-q35-7.2: the newest version that the host's QEMU has of each.
const (
	MachineQ35 = "q35"
	MachinePC  = "pc"
)

const (
	versionFormat = `pc-(q35|i440fx)-[0-9]{1,3}(\.[0-9]{1,3}){1,2}`
	machineFormat = `(q35|pc|` + versionFormat + `)`
)

// machineOfVersion is what QEMU calls a machine type of one version.
var machineOfVersion = regexp.MustCompile(`\A` + versionFormat + `\z`)

// traitMachine begins the traits of hosts that have machine types of one version.
const traitMachine = "CUSTOM_STRONGROOM_MACHINE_"

// MachineTraits are those of hosts that have machine types, of which such of no version, which all have, and others
// than these count for nothing.
func MachineTraits(machines []string) (traits []string) {
	for _, m := range machines {
		if machineOfVersion.MatchString(m) {
			traits = append(traits, traitMachine+strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(m)))
		}
	}
	return traits
}

// MachineFamily is q35 for a machine type of any version that is one, and pc for the others.
func MachineFamily(machine string) string {
	if machine == MachineQ35 || strings.HasPrefix(machine, "pc-q35-") {
		return MachineQ35
	}
	return MachinePC
}

func parseMachineType(text string) (string, error) {
	if word := strings.TrimSpace(text); word == MachineQ35 || word == MachinePC || machineOfVersion.MatchString(word) {
		return word, nil
	}
	return "", Errorf(Invalid, "Invalid machine type '%s'. Allowed values: q35, pc, and those of one version, as pc-q35-7.2 and pc-i440fx-7.2.", text)
}

// machineOf reads the machine type that flavor and image together ask for; nil: the host's. Invalid: one that is not
// offered, or they disagree.
func machineOf(f Flavor, img Image) (*string, error) {
	return agreedOn(f, img, "hw:machine_type", "hw_machine_type", Invalid, parseMachineType)
}

// MachineType is the machine type that the server's flavor or image names, "" for its host's. One
// that is not offered, which a server may have been imported with, counts as none.
func (s Server) MachineType() string {
	machine, err := machineOf(s.Flavor, s.Image)
	if err != nil || machine == nil {
		return ""
	}
	return *machine
}
