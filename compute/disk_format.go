package compute

import "slices"

// IsOpen reports whether it is still to be decided as what a disk is encrypted: the host that
// its server lands on does (EE-03). No disk is made before.
func (d Disk) IsOpen() bool { return d.Encrypted && d.Format == FormatNone }

// LeavesFormat reports whether a server has disks whose format its host decides.
func (s Server) LeavesFormat() bool { return slices.ContainsFunc(s.Disks, Disk.IsOpen) }

// InFormat is the server with the disks whose format was left open in that of its host. Disks
// that have a format keep it until they are deleted (EE-42).
func (s Server) InFormat(host DiskFormat) Server {
	disks := s.Disks
	s.Disks = nil
	for _, d := range disks {
		if d.IsOpen() {
			d.Format = host
		}
		s.Disks = append(s.Disks, d)
	}
	return s
}

// formatTraits are those of the formats that a server's host must be able to open: of its
// disks, whoever decided on them, and of its config drive, which is a LUKS file beside
// encrypted disks. Where a format is open any host will do that can make its own default.
func (s Server) formatTraits() []string {
	var out []string
	for _, d := range s.Disks {
		if !d.Encrypted {
			continue
		}
		out = append(out, TraitEncryption)
		if !d.IsOpen() {
			out = append(out, formatTraits[d.Format])
		}
		if s.ConfigDrive && d.Role == RootDisk {
			out = append(out, formatTraits[FormatLUKS])
		}
	}
	return out
}

// Opens reports whether a host with these traits can make and open disks of a format.
func Opens(traits []string, f DiskFormat) bool { return slices.Contains(traits, formatTraits[f]) }
