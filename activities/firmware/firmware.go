// Package firmware finds the UEFI of a compute host for its guests, by the descriptions that come
// with it: those that libvirt and QEMU's tools read.
package firmware

import (
	"encoding/json"
	"os"
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
	Secure bool   // it starts what is signed alone, by the keys in Vars
}

// CheckVars refuses, with Conflict, the variables of a server that are not as large as the build's: it would
// look for them in another place, and find none.
func (b Build) CheckVars(file string) error {
	is, err := os.Stat(file)
	if err != nil {
		return compute.Errorf(compute.Unavailable, "its UEFI variables: %w", err)
	}
	want, err := os.Stat(b.Vars)
	if err != nil {
		return compute.Errorf(compute.Unavailable, "firmware of this host: %w", err)
	}
	if is.Size() != want.Size() {
		return compute.Errorf(compute.Conflict, "its UEFI variables have %d bytes, and those of this host's firmware %s have %d", is.Size(), b.Code, want.Size())
	}
	return nil
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

// Of gives the build for a server that asks for UEFI and for a machine type, "" for the host's.
// NoHost: the host has none for it.
func (h Host) Of(want compute.Firmware, machine string) (Build, error) {
	machine = h.MachineOf(machine)
	if want.SecureBoot != compute.SecureBootDisabled {
		build, err := h.find(machine, true)
		if err == nil || want.SecureBoot == compute.SecureBootRequired {
			return build, err
		}
	}
	return h.find(machine, false)
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

// find gives the first build in the order of the names of their descriptions, as libvirt does.
func (h Host) find(machine string, secure bool) (Build, error) {
	dir := h.Dir
	if dir == "" {
		dir = Folder
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json")) // sorted
	if err != nil {
		return Build{}, compute.Errorf(compute.NoHost, "firmware of this host: %w", err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // an operator switches one off with a link to nothing
		}
		var d description
		if json.Unmarshal(text, &d) == nil && d.fits(machine, secure) {
			return Build{Code: d.Mapping.Executable.Filename, Vars: d.Mapping.Template.Filename, Secure: secure}, nil
		}
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
		m.Executable.Format != "raw", m.Template.Format != "raw", !isThere(m.Executable.Filename), !isThere(m.Template.Filename):
		return false
	case slices.Contains(d.Features, "secure-boot") != secure, slices.Contains(d.Features, "enrolled-keys") != secure:
		return false
	case secure && !slices.Contains(d.Features, "requires-smm"): // the guest could write to the keys
		return false
	}
	prefix := "pc-i440fx-"
	if strings.Contains(machine, compute.MachineQ35) {
		prefix = "pc-q35-"
	}
	for _, t := range d.Targets {
		if t.Architecture == "x86_64" && slices.ContainsFunc(t.Machines, func(m string) bool { return strings.HasPrefix(m, prefix) }) {
			return true
		}
	}
	return false
}

func isThere(path string) bool {
	info, err := os.Stat(path)
	return filepath.IsAbs(path) && err == nil && info.Mode().IsRegular()
}
