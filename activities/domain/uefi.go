package domain

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"libvirt.org/go/libvirtxml"

	"strongroom/activities/firmware"
	"strongroom/compute"
)

func (a *Activities) firmware() firmware.Host {
	return firmware.Host{Dir: a.FirmwareDir, Machine: a.Machine}
}

// uefi gives the firmware of a server, nil for a BIOS. Its variables are there, or it is Corrupt:
// libvirt would make new ones without a word. Conflict: they are another build's.
func (a *Activities) uefi(s compute.Server) (*UEFI, error) {
	file := s.NVRAM()
	if file == "" {
		return nil, nil
	}
	build, err := a.firmware().Of(s.Firmware(), s.MachineType())
	if err != nil {
		return nil, compute.Errorf(compute.KindOf(err), "server %s: %w", s.ID, err)
	}
	path := filepath.Join(a.InstancesDir, s.ID.String(), file)
	switch _, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, compute.Errorf(compute.Corrupt, "server %s: its UEFI variables are missing", s.ID)
	case err != nil:
		return nil, compute.Errorf(compute.Unavailable, "server %s: its UEFI variables: %w", s.ID, err)
	}
	if err := build.CheckVars(path); err != nil {
		return nil, compute.Errorf(compute.KindOf(err), "server %s: %w", s.ID, err)
	}
	return &UEFI{Build: build, NVRAM: path}, nil
}

func isSecure(d libvirtxml.Domain) bool {
	return d.OS != nil && d.OS.Loader != nil && d.OS.Loader.Secure == "yes"
}

// uefiTraits gives the traits of the UEFI that guests can begin with here. Secure Boot needs a QEMU
// whose guests cannot write to the keys.
func (a *Activities) uefiTraits(machine libvirtxml.DomainCaps) (traits []string) {
	for _, t := range []struct {
		secure compute.SecureBoot
		trait  string
		can    bool
	}{{compute.SecureBootDisabled, compute.TraitUEFI, true}, {compute.SecureBootRequired, compute.TraitSecureBoot, keepsKeys(machine)}} {
		if _, err := a.firmware().Of(compute.Firmware{UEFI: true, SecureBoot: t.secure}, ""); err == nil && t.can {
			traits = append(traits, t.trait)
		}
	}
	return traits
}

// keepsKeys reports whether QEMU keeps guests from writing to the variables of their firmware.
func keepsKeys(machine libvirtxml.DomainCaps) bool {
	if machine.OS == nil || machine.OS.Loader == nil {
		return false
	}
	for _, e := range machine.OS.Loader.Enums {
		if e.Name == "secure" && slices.Contains(e.Values, "yes") {
			return true
		}
	}
	return false
}
