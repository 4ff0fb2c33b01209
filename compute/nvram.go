package compute

import (
	"slices"
	"strings"
)

// nvramFile begins the name of the file with the variables of a server's UEFI.
const nvramFile = "nvram"

// IsNVRAM reports whether a file in a server's folder has the variables of its UEFI.
func IsNVRAM(file string) bool { return file == nvramFile || strings.HasPrefix(file, nvramFile+".") }

// NVRAM is the file in the server's folder that has the variables of its UEFI; "" for a BIOS. Where its record
// does not say which firmware it has, it may have that file, which then stays.
func (s Server) NVRAM() string {
	if s.hasBIOS() {
		return ""
	}
	return s.NVRAMOfRoot()
}

// NVRAMOfRoot is the file that has, or would have, the variables of the UEFI with which the server's root disk boots;
// "" where it has no such disk. It goes with the root disk, and so has a name of its own where that has: what boots
// another root disk boots with other variables, and both exist beside each other until it is decided which stay.
func (s Server) NVRAMOfRoot() string {
	at := slices.IndexFunc(s.Disks, func(d Disk) bool { return d.Role == RootDisk })
	if at < 0 {
		return ""
	}
	return nvramFile + strings.TrimPrefix(s.Disks[at].Name(), "disk")
}

// StoredNVRAM is the object that has the variables of a shelved server's UEFI.
type StoredNVRAM struct {
	Object string `json:"object"`
	SHA256 string `json:"sha256"` // hex, of the whole
}

// StoredNVRAM gives where the variables of the server's UEFI are while it is shelved; nil: nowhere.
func (s Server) StoredNVRAM() *StoredNVRAM {
	if s.System[SystemNVRAMObject] == "" {
		return nil
	}
	return &StoredNVRAM{Object: s.System[SystemNVRAMObject], SHA256: s.System[SystemNVRAMObjectSHA256]}
}

// NVRAMObject names the object that an operation keeps the variables of the server's UEFI in.
func NVRAMObject(s ServerID, op OperationID) string {
	return nvramObjectPrefix + s.String() + "/" + op.Derive("object/nvram/"+s.String()).String()
}

const nvramObjectPrefix = "nvram/"
