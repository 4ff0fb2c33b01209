package compute

import "slices"

// ConsoleLogFile is the file in a server's folder that keeps its serial output.
const ConsoleLogFile = "console.log"

// Uses reports whether a server, as it is on a host, is made of a thing on the ledger.
// What it was made of before and does not use any more is known by kind, place and name,
// so that a disk on one host is not taken for its copy on another.
func (s Server) Uses(host HostID, t Thing) bool {
	uses := of(t.Kind).uses
	return uses != nil && (!t.OnHost() || t.Place == host.String()) && uses(s, t)
}

// files lists the ledger's names of the files of a server.
func (s Server) files() []string {
	names := s.BootFiles()
	if nvram := s.NVRAM(); nvram != "" {
		names = append(names, nvram)
	}
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

// usesShare reports whether a thing is of one of the server's shares.
func (s Server) usesShare(t Thing) bool { return slices.Contains(s.shareUses(), t.Name) }

// usesPort reports whether a thing is one of the server's ports.
func (s Server) usesPort(t Thing) bool {
	return slices.ContainsFunc(s.Networks, func(n Network) bool { return n.PortExists() && t.isPort(*n.Port.ID, s.ID) })
}

func (t Thing) isPort(id PortID, server ServerID) bool {
	return t.Kind == ThingPort && (t.Reference == id.String() || t.Name == PortUse(id, server))
}

// ThingsOfPort gives those of a server's things that are one of its ports.
func ThingsOfPort(has []Thing, id PortID, server ServerID) []Thing {
	return slices.DeleteFunc(slices.Clone(has), func(t Thing) bool { return !t.isPort(id, server) })
}
