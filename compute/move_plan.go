package compute

import "slices"

// MovePlan is what a move of a server needs, as its operation would begin it.
type MovePlan struct {
	Server   Server     // as it is to be
	Readers  []Server   // with whose credentials keys are read, see KeyCredential; nil: Server
	Keys     []SecretID // that are read before anything moves
	Stops    bool       // its guest is shut down
	Kept     bool       // it is kept as images and an object
	Stored   bool       // images and an object keep it, which must be there
	Places   bool       // it gets a host, which is none of Not
	Not      []HostID
	Only     *HostID  // nil: any other
	Goes     *HostID  // where it is afterwards, if no host is chosen; nil: on none
	KeptKeys bool     // keys that whoever asks may not read are its host's to hand on, which keeps them
	Apart    bool     // not to a host that shares the storage of TPM states with its own
	SeeksTPM bool     // hosts that share the storage of TPM states with its own come first
	Seeks    bool     // and those that share the storage of its disks, before all others; otherwise it goes to none of these
	Shared   bool     // it goes to none that does not
	Needs    []HostID // that must answer, and are not chosen
	Data     []Carried
	Image    *ImageID   // that the root disk is made anew of, which must be there; nil: it is copied
	Lost     []Carried  // what nobody has afterwards
	Backup   *TPMBackup // that the state of the vTPM comes of; nil: none
	Fails    []string   // why the operation would fail
}

// Carried is something that travels.
type Carried struct {
	What  string `json:"what"`
	Bytes *int64 `json:"bytes"` // at most, if not Exact; nil: not known, and little
	Exact bool   `json:"exact"`
}

const (
	carriedTPM   = "state of the vTPM"
	carriedNVRAM = "UEFI variables"
	carriedImage = "image under the root disk"
)

func atMost(what string, bytes int64) Carried { return Carried{What: what, Bytes: &bytes} }

// PlanMove plans a resize or a migration of a server to what it is to be. has is what it has on
// the ledger; sameHost: it may stay on its host, and nothing travels then.
func (s Server) PlanMove(will Server, has []Thing, sameHost bool, only *HostID) MovePlan {
	p := MovePlan{Server: will, Readers: s.MoveReaders(will), Keys: s.MoveKeys(will), Stops: s.VMState != VMStopped, Places: true, Not: s.Occupied(has, sameHost), Only: only}
	for _, d := range will.Disks {
		if was := s.DiskFor(d); was != nil {
			p.Data = append(p.Data, atMost("disk "+d.Label(), was.SizeMB<<20))
		}
	}
	if root, ok := will.RootDisk(); ok && root.Image != nil {
		p.Data = append(p.Data, atMost(carriedImage, will.Image.SizeBytes))
	}
	if s.NVRAM() != "" {
		p.Data = append(p.Data, Carried{What: carriedNVRAM})
	}
	if s.SameTPM(will) && !s.HasNewTPM() {
		p.Data = append(p.Data, Carried{What: carriedTPM})
	}
	return p
}

// MoveKeys are the keys that a resize or a migration reads: all of them to start the guest, and
// those of disks that grow or are made anew. A server that is off is moved with none.
func (s Server) MoveKeys(will Server) []SecretID {
	if s.VMState != VMStopped {
		return s.OpeningSecrets()
	}
	var needs []SecretID
	for _, d := range will.Disks {
		if was := s.DiskFor(d); d.Secret != nil && (was == nil || was.SizeMB != d.SizeMB) {
			needs = append(needs, *d.Secret)
		}
	}
	return needs
}

// MoveReaders say with which credentials keys are read before a resize or a migration (KeyCredential): as the server
// is to be and, where it has a key no more, as it is. What its owner is about to delegate he reads himself.
func (s Server) MoveReaders(will Server) []Server {
	if will.Delegates() && !s.Delegates() {
		return []Server{s, will}
	}
	return []Server{will, s}
}

// DiskFor is the server's disk that one of what it is to be is made of; nil: it is made anew.
func (s Server) DiskFor(d Disk) *Disk {
	for _, was := range s.Disks {
		if was.ID == d.ID && (d.Role != SwapDisk || was.SizeMB == d.SizeMB) {
			return &was
		}
	}
	return nil
}

// Occupied are the hosts that a server does not go to: its own, unless it may stay there, and
// those that have something of it that waits to be removed, under the names of what would come.
func (s Server) Occupied(has []Thing, sameHost bool) []HostID {
	var out []HostID
	if s.Host != nil && !sameHost {
		out = append(out, *s.Host)
	}
	for _, t := range has {
		if host, onHost := t.Host(); onHost && (s.Host == nil || host != *s.Host) && !slices.Contains(out, host) {
			out = append(out, host)
		}
	}
	return out
}

// PlanShelve plans a shelve.
func (s Server) PlanShelve() MovePlan {
	p := MovePlan{Server: s, Keys: s.ShelveKeys(), Stops: s.VMState != VMStopped && s.VMState != VMSuspended, Kept: true}
	for _, d := range s.Disks {
		p.Data = append(p.Data, atMost("disk "+d.Label(), d.SizeMB<<20))
	}
	p.Data = append(p.Data, s.carriedNVRAM("")...)
	if s.TPM != nil {
		p.Data = append(p.Data, Carried{What: carriedTPM})
	}
	return p
}

// ShelveKeys are the keys with which a shelve copies the server's disks. The vTPM's state stays
// encrypted.
func (s Server) ShelveKeys() []SecretID {
	return slices.DeleteFunc(s.OpeningSecrets(), func(id SecretID) bool { return s.TPM != nil && s.TPM.Secret != nil && *s.TPM.Secret == id })
}

// PlanUnshelve plans the operation's unshelve: a server that is still on its host just starts.
func (s Server) PlanUnshelve(op OperationID, in UnshelveArguments) (MovePlan, error) {
	if !s.IsOffloaded() {
		return MovePlan{Server: s, Keys: s.OpeningSecrets()}, nil
	}
	will, err := s.Unshelved(op, in)
	p := MovePlan{Server: will, Keys: will.OpeningSecrets(), Stored: true, Places: true, Only: in.Host}
	for _, d := range s.Disks {
		if d.Shelved != nil {
			p.Data = append(p.Data, Carried{What: "disk " + d.Label(), Bytes: &d.Shelved.SizeBytes, Exact: true})
		}
	}
	p.Data = append(p.Data, s.carriedNVRAM("")...)
	if s.TPM != nil {
		p.Data = append(p.Data, Carried{What: carriedTPM})
	}
	return p, err
}
