package compute

import "slices"

// ConsoleLogFile is the file in a server's folder that keeps its serial output.
const ConsoleLogFile = "console.log"

// Uses reports whether a server, as it is on a host, is made of a thing on the ledger.
// What it was made of before and does not use any more is known by kind, place and name,
// so that a disk on one host is not taken for its copy on another.
func (s Server) Uses(host HostID, t Thing) bool {
	here := t.Place == host.String()
	switch t.Kind {
	case ThingDomain:
		return here && t.Name == s.InstanceName()
	case ThingDiskFile:
		return here && slices.Contains(s.files(), t.Name)
	case ThingCachedImage:
		return here && slices.Contains(s.cacheUses(), t.Name)
	case ThingTPMState:
		return here && s.TPM != nil && t.Name == s.ID.String()
	case ThingShareMount:
		return here && slices.Contains(s.shareUses(), t.Name)
	case ThingShareAccess:
		return slices.Contains(s.shareUses(), t.Name)
	case ThingKeySecret:
		return slices.ContainsFunc(s.Secrets(), func(id SecretID) bool { return id.String() == t.Reference })
	case ThingTrust:
		return s.Delegates()
	case ThingObject:
		b := s.Backup()
		return b != nil && t.Name == b.Object
	case ThingRunningDomain, ThingHypervisorSecret, ThingKeySlot, ThingImage:
	}
	return false
}

// files lists the ledger's names of the files of a server.
func (s Server) files() []string {
	names := s.BootFiles()
	for _, d := range s.Disks {
		names = append(names, d.Name())
	}
	for i, name := range names {
		names[i] = s.ID.String() + "/" + name
	}
	return names
}

// BootFiles are the files that a server has from its first boot on a host on.
func (s Server) BootFiles() []string {
	if s.ConfigDrive {
		return []string{ConsoleLogFile, ConfigDriveFile}
	}
	return []string{ConsoleLogFile}
}

// cacheUses lists the ledger's names of the uses that its disks make of a host's copies
// of encrypted images.
func (s Server) cacheUses() []string {
	var out []string
	for _, d := range s.Disks {
		img := d.Source
		if d.Role == RootDisk && d.Image != nil { // else it has all of its data in itself
			img = &s.Image
		}
		if img == nil || !img.IsEncrypted() {
			continue
		}
		if use, err := img.CacheUse(s.ProjectID, s.ID, d); err == nil {
			out = append(out, use)
		}
	}
	return out
}
