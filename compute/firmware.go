package compute

import "strings"

// SecureBoot says whether a server's firmware starts what is signed alone (os:secure_boot, os_secure_boot).
type SecureBoot string

// The words of flavors and images for it. Optional is: where the host can.
const (
	SecureBootDisabled SecureBoot = "disabled"
	SecureBootOptional SecureBoot = "optional"
	SecureBootRequired SecureBoot = "required"
)

// Firmware is what a server's machine begins with. The zero value is BIOS.
type Firmware struct {
	UEFI       bool       `json:"uefi"`
	SecureBoot SecureBoot `json:"secure_boot,omitempty"` // of UEFI
}

// The traits of hosts that have firmware, as os-traits names them.
const (
	TraitUEFI       = "COMPUTE_FIRMWARE_UEFI"
	TraitSecureBoot = "COMPUTE_SECURITY_UEFI_SECURE_BOOT"
)

const propertyFirmware = "hw_firmware_type"

// FirmwareOf reads the firmware that flavor and image together ask for: the image's
// hw_firmware_type, the flavor's os:secure_boot and the image's os_secure_boot. Secure Boot
// that is optional is none where the firmware is BIOS.
//
// Invalid: an unknown value, flavor and image disagree (as in Nova, whose answer to that is no 409), or Secure Boot
// is required of a BIOS.
func FirmwareOf(f Flavor, img Image) (Firmware, error) {
	uefi, err := parseFirmwareType(img.Properties[propertyFirmware])
	if err != nil {
		return Firmware{}, Errorf(Invalid, "Image %s has an invalid hw_firmware_type property. %w", img.Name, err)
	}
	secure, err := agreedOn(f, img, "os:secure_boot", "os_secure_boot", Invalid, parseSecureBoot)
	switch {
	case err != nil:
		return Firmware{}, err
	case uefi && secure == nil:
		return Firmware{UEFI: true, SecureBoot: SecureBootDisabled}, nil
	case uefi:
		return Firmware{UEFI: true, SecureBoot: *secure}, nil
	case secure != nil && *secure == SecureBootRequired:
		return Firmware{}, Errorf(Invalid, "Secure Boot is required, and image %s does not ask for UEFI: set its property hw_firmware_type to uefi.", img.Name)
	}
	return Firmware{}, nil
}

func parseFirmwareType(text string) (uefi bool, err error) {
	switch strings.TrimSpace(text) {
	case "", "bios":
		return false, nil
	case "uefi":
		return true, nil
	}
	return false, Errorf(Invalid, "Invalid firmware type '%s'. Allowed values: bios, uefi.", text)
}

func parseSecureBoot(text string) (SecureBoot, error) {
	switch word := SecureBoot(strings.TrimSpace(text)); word {
	case SecureBootDisabled, SecureBootOptional, SecureBootRequired:
		return word, nil
	}
	return "", Errorf(Invalid, "Invalid secure boot policy '%s'. Allowed values: required, disabled, optional.", text)
}

// CheckFirmware refuses what FirmwareOf does, and a machine type that is not offered or has no
// Secure Boot where that is required.
func CheckFirmware(f Flavor, img Image) error {
	firmware, err := FirmwareOf(f, img)
	if err != nil {
		return err
	}
	machine, err := machineOf(f, img)
	if err != nil {
		return err
	}
	if firmware.SecureBoot == SecureBootRequired && machine != nil && MachineFamily(*machine) != MachineQ35 {
		return Errorf(Invalid, "Secure Boot is required, and machine type '%s' has none: it needs q35.", *machine)
	}
	return nil
}

// Firmware is that of the server. Corrupt: its record does not say which, or contradicts itself, which no rule lets
// pass (CheckFirmware). A BIOS in its place would start what is not signed.
func (s Server) Firmware() (Firmware, error) {
	firmware, err := FirmwareOf(s.Flavor, s.Image)
	if err != nil {
		return Firmware{}, Errorf(Corrupt, "server %s: its record does not say with which firmware it begins: %w", s.ID, err)
	}
	return firmware, nil
}

// hasBIOS reports whether the server begins with a BIOS for sure.
func (s Server) hasBIOS() bool {
	firmware, err := s.Firmware()
	return err == nil && !firmware.UEFI
}

// firmwareTraits are those that the server's host must have for its machine and its firmware: all of them, where its
// record does not say which.
func (s Server) firmwareTraits() []string {
	traits := MachineTraits([]string{s.MachineType()})
	switch f, err := s.Firmware(); {
	case err != nil, f.SecureBoot == SecureBootRequired:
		return append(traits, TraitUEFI, TraitSecureBoot)
	case f.UEFI:
		return append(traits, TraitUEFI)
	}
	return traits
}

// checkSameFirmware refuses, with Conflict, a flavor that asks for other firmware than the server has.
func (s Server) checkSameFirmware(to Flavor) error {
	is, err := FirmwareOf(to, s.Image)
	if err != nil {
		return err
	}
	was, err := s.Firmware()
	if err != nil {
		return err
	}
	if was != is {
		return Errorf(Conflict, "Flavor %s and flavor %s differ in Secure Boot (%s and %s): a resize does not change a server's firmware. Rebuild it, or create a new one.",
			s.Flavor.Name, to.Name, was.SecureBoot, is.SecureBoot)
	}
	if to.ExtraSpecs["hw:machine_type"] == "" { // what a server was imported with stays as it is
		return nil
	}
	return CheckFirmware(to, s.Image)
}
