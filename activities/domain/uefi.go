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
// libvirt would make new ones without a word. So it is where there are some and its record says BIOS, which would start
// what is not signed. Conflict: they are another build's.
func (a *Activities) uefi(s compute.Server) (*UEFI, error) {
	want, err := s.Firmware()
	if err != nil {
		return nil, err
	}
	file := s.NVRAMOfRoot()
	if file == "" {
		if want.UEFI {
			return nil, compute.Errorf(compute.Corrupt, "server %s: it begins with UEFI, and has no root disk that its variables belong to", s.ID)
		}
		return nil, nil
	}
	path := filepath.Join(a.InstancesDir, s.ID.String(), file)
	switch is, err := os.Lstat(path); {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, compute.Errorf(compute.Unavailable, "server %s: its UEFI variables: %w", s.ID, err)
	case want.UEFI && err != nil:
		return nil, compute.Errorf(compute.Corrupt, "server %s: its UEFI variables are missing", s.ID)
	case !want.UEFI && err == nil:
		return nil, compute.Errorf(compute.Corrupt, "server %s: its record says that it begins with a BIOS, and it has UEFI variables (%s)", s.ID, file)
	case !want.UEFI:
		return nil, nil
	case !is.Mode().IsRegular() || is.Size() == 0:
		return nil, compute.Errorf(compute.Corrupt, "server %s: its UEFI variables are empty, or no file", s.ID)
	default:
		build, err := a.firmware().For(want, s.MachineType(), is.Size())
		if err != nil {
			return nil, compute.Errorf(compute.KindOf(err), "server %s: %w", s.ID, err)
		}
		return &UEFI{Build: build, NVRAM: path}, nil
	}
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
