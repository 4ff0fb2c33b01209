// Package firmware finds the UEFI of a compute host for its guests, by the descriptions that come
// with it: those that libvirt and QEMU's tools read.
package firmware

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"strongroom/compute"
)

// Folder is where distributions describe what QEMU's guests can begin with.
const Folder = "/usr/share/qemu/firmware"

// Host is what a host has.
type Host struct {
	Dir     string // of the descriptions; "": Folder
	Machine string // the machine type of servers that ask for none; "": q35
}

// Build is a build of UEFI in two files, whole flash images of one size.
type Build struct {
	Code   string // what runs; nobody writes to it
	Vars   string // what the variables of a new machine are copied of
	Bytes  int64  // of Vars, and so of the variables of every machine with this build
	Secure bool   // it starts what is signed alone, by the keys in Vars
}

// MachineOf is the machine type of a server here.
func (h Host) MachineOf(named string) string {
	switch {
	case named != "":
		return named
	case h.Machine != "":
		return h.Machine
	}
	return compute.MachineQ35
}

// Of gives the build for a new machine of a server that asks for UEFI and for a machine type, "" for the host's.
// NoHost: the host has none for it; Corrupt: nobody knows what it asks for.
func (h Host) Of(want compute.Firmware, machine string) (Build, error) {
	return h.For(want, machine, 0)
}

// For is Of for a server whose variables have so many bytes: a build with a template of another size would look for them
// in another place, and find none. Conflict: the host has builds for it, and each is of another size.
func (h Host) For(want compute.Firmware, machine string, bytes int64) (Build, error) {
	machine = h.MachineOf(machine)
	switch {
	case !want.UEFI:
		return Build{}, compute.Errorf(compute.Corrupt, "it begins with a BIOS")
	case want.SecureBoot == compute.SecureBootRequired:
		return h.find(machine, true, bytes)
	case want.SecureBoot == compute.SecureBootDisabled:
		return h.find(machine, false, bytes)
	case want.SecureBoot != compute.SecureBootOptional: // which is less than what may be meant
		return Build{}, compute.Errorf(compute.Corrupt, "%q does not say whether it has Secure Boot", want.SecureBoot)
	}
	build, err := h.find(machine, true, bytes)
	if err == nil {
		return build, nil
	}
	build, plain := h.find(machine, false, bytes)
	if compute.Is(plain, compute.NoHost) {
		return build, err
	}
	return build, plain
}

// description is of one build, as docs/interop/firmware.json of QEMU says.
type description struct {
	InterfaceTypes []string `json:"interface-types"`
	Mapping        struct {
		Device     string `json:"device"`
		Mode       string `json:"mode"` // split, where nothing is said
		Executable file   `json:"executable"`
		Template   file   `json:"nvram-template"`
	} `json:"mapping"`
	Targets []struct {
		Architecture string   `json:"architecture"`
		Machines     []string `json:"machines"`
	} `json:"targets"`
	Features []string `json:"features"`
}

type file struct {
	Filename string `json:"filename"`
	Format   string `json:"format"`
}

// find gives the first build in the order of the names of their descriptions, as libvirt does, of those whose template
// has so many bytes; 0: any.
func (h Host) find(machine string, secure bool, bytes int64) (Build, error) {
	var other *Build
	dir := h.Dir
	if dir == "" {
		dir = Folder
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json")) // sorted
	if err != nil {
		return Build{}, compute.Errorf(compute.NoHost, "firmware of this host: %w", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // an operator switches one off with a link to nothing
		}
		var d description
		if json.Unmarshal(text, &d) != nil || !d.fits(machine, secure) {
			continue
		}
		build := Build{Code: d.Mapping.Executable.Filename, Vars: d.Mapping.Template.Filename, Bytes: size(d.Mapping.Template.Filename), Secure: secure}
		if bytes == 0 || build.Bytes == bytes {
			return build, nil
		}
		if other == nil {
			other = &build
		}
	}
	if other != nil {
		return Build{}, compute.Errorf(compute.Conflict, "its UEFI variables have %d bytes, and those of this host's firmware %s have %d", bytes, other.Code, other.Bytes)
	}
	what := "UEFI"
	if secure {
		what = "UEFI with Secure Boot"
	}
	return Build{}, compute.Errorf(compute.NoHost, "this host has no %s for machine type %s (package ovmf)", what, machine)
}

// fits reports whether a build is what is looked for. One for Secure Boot has keys: without them
// its firmware starts anything.
func (d description) fits(machine string, secure bool) bool {
	m := d.Mapping
	switch {
	case !slices.Contains(d.InterfaceTypes, "uefi"), m.Device != "flash", m.Mode != "" && m.Mode != "split",
		m.Executable.Format != "raw", m.Template.Format != "raw", size(m.Executable.Filename) == 0, size(m.Template.Filename) == 0:
		return false
	case slices.Contains(d.Features, "secure-boot") != secure, slices.Contains(d.Features, "enrolled-keys") != secure:
		return false
	case secure && !slices.Contains(d.Features, "requires-smm"): // the guest could write to the keys
		return false
	}
	for _, t := range d.Targets {
		if t.Architecture == "x86_64" && slices.ContainsFunc(t.Machines, func(m string) bool { return isFor(m, machine) }) {
			return true
		}
	}
	return false
}

// isFor reports whether a pattern of a description is about a machine type: for one of no version, about any version.
func isFor(pattern, machine string) bool {
	switch machine {
	case compute.MachineQ35:
		return strings.HasPrefix(pattern, "pc-q35-")
	case compute.MachinePC:
		return strings.HasPrefix(pattern, "pc-i440fx-")
	}
	matches, err := path.Match(pattern, machine)
	return err == nil && matches
}

// size is that of a file, 0 where there is none.
func size(path string) int64 {
	info, err := os.Stat(path)
	if !filepath.IsAbs(path) || err != nil || !info.Mode().IsRegular() {
		return 0
	}
	return info.Size()
}
