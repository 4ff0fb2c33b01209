package compute

import (
	"slices"
	"strings"
)

// PlanLiveMigrate plans a live migration. has is what the server has on the ledger.
func (s Server) PlanLiveMigrate(has []Thing, only *HostID) MovePlan {
	p := s.PlanMove(s, has, false, only)
	p.Stops, p.KeptKeys, p.Apart = false, true, s.TPM != nil
	p.Data = append([]Carried{atMost("memory", int64(s.Flavor.MemoryMB)<<20)}, p.Data...)
	return p
}

// PlanEvacuate plans the operation's evacuate.
func (s Server) PlanEvacuate(op OperationID, in EvacuateArguments, has []Thing) (MovePlan, error) {
	will, err := s.EvacuatedAs(op)
	if err != nil {
		return MovePlan{}, err
	}
	p := MovePlan{Server: will, Keys: will.EvacuationKeys(s.BootsAfter(in)), Places: true, Not: s.Occupied(has, false), Only: in.Host, SeeksTPM: s.HasTPMState(), Seeks: s.KeepsDisks(in), Shared: in.Shared != nil && *in.Shared}
	if root, ok := will.RootDisk(); ok {
		p.Data, p.Image = []Carried{atMost(carriedImage, will.Image.SizeBytes)}, &will.Image.ID
		enc, err := will.Image.Encryption()
		if err != nil {
			return p, err
		}
		if enc != nil && root.BackingSecret == nil && !slices.Contains(p.Keys, enc.Secret) { // it is copied
			p.Keys = append(p.Keys, enc.Secret)
		}
	}
	p.Lost = append(carried(s.Disks, ""), s.carriedNVRAM("")...)
	if s.HasTPMState() {
		what := carriedTPM
		if p.Backup = s.Backup(); p.Backup != nil {
			p.Data, what = append(p.Data, Carried{What: carriedTPM}), carriedTPM+", since its backup"
		}
		p.Lost = append(p.Lost, Carried{What: what})
	}
	return p, nil
}

// WithoutBackup is the plan of an evacuate where the object that was the backup of the vTPM's state is
// not there, or not what was stored.
func (p MovePlan) WithoutBackup() MovePlan {
	p = p.InPlace()
	p.Lost, p.Backup = append(p.Lost, Carried{What: carriedTPM}), nil
	return p
}

// InPlace is the plan for a host that shares the storage of TPM states with the server's own: that
// of its vTPM neither travels nor is lost (TPM-39).
func (p MovePlan) InPlace() MovePlan {
	stays := func(c Carried) bool { return strings.HasPrefix(c.What, carriedTPM) }
	p.Data = slices.DeleteFunc(slices.Clone(p.Data), stays)
	p.Lost, p.Backup = slices.DeleteFunc(slices.Clone(p.Lost), stays), nil
	return p
}

// WithDisks is the plan of an evacuate to a host that shares the storage of the disks: they stay, and what their server had beside them. was is the
// server as it is.
func (p MovePlan) WithDisks(was Server) MovePlan {
	p.Server = p.Server.WithDisksOf(was)
	p.Keys = slices.DeleteFunc(slices.Clone(p.Keys), func(id SecretID) bool { return !slices.Contains(was.Secrets(), id) })
	p.Lost = slices.DeleteFunc(slices.Clone(p.Lost), func(c Carried) bool { return !strings.HasPrefix(c.What, carriedTPM) })
	if root, _ := was.RootDisk(); root.Image == nil {
		p.Image = nil
		p.Data = slices.DeleteFunc(slices.Clone(p.Data), func(c Carried) bool { return c.What == carriedImage })
	}
	return p
}

// BootsAfter reports whether an evacuate starts the server.
func (s Server) BootsAfter(in EvacuateArguments) bool { return !in.Stopped && s.VMState != VMStopped }

// PlanOffload plans that a shelved server leaves its host.
func (s Server) PlanOffload(has []Thing) MovePlan {
	p := MovePlan{Server: s, Stored: true, Fails: mayRun(has)}
	for _, d := range s.Disks {
		if d.Shelved == nil {
			p.Fails = append(p.Fails, "Disk "+d.Label()+" is kept in no image.")
		}
	}
	if s.TPM != nil && s.StoredTPM() == nil {
		p.Fails = append(p.Fails, "The state of the vTPM is kept nowhere.")
	}
	if s.NVRAM() != "" && s.StoredNVRAM() == nil {
		p.Fails = append(p.Fails, "The UEFI variables are kept nowhere.")
	}
	return p
}

// PlanConfirm plans that what a server was before it was moved is given up. It must have been
// moved (CheckMoved), as for PlanRevert.
func (s Server) PlanConfirm(has []Thing) MovePlan {
	const before = ", from before the move"
	p := MovePlan{Server: s, Goes: s.Host, Lost: append(carried(s.Former.Disks, before), s.Before().carriedNVRAM(before)...), Fails: mayRun(has)}
	if s.Former.TPM != nil {
		p.Lost = append(p.Lost, Carried{What: carriedTPM + before})
	}
	return p
}

// PlanRevert plans that what a server was before it was moved comes back.
func (s Server) PlanRevert() MovePlan {
	const since = ", since the move"
	was := s.Before()
	p := MovePlan{Server: was, Readers: []Server{was, s}, Keys: s.RevertKeys(), Stops: s.Runs(), Goes: was.Host, Lost: append(carried(s.Disks, since), s.carriedNVRAM(since)...)}
	if s.TPM != nil {
		p.Lost = append(p.Lost, Carried{What: carriedTPM + since})
	}
	for _, host := range []*HostID{s.Host, was.Host} {
		if host != nil && !slices.Contains(p.Needs, *host) {
			p.Needs = append(p.Needs, *host)
		}
	}
	return p
}

// RevertKeys are the keys that a revert reads: those with which the server comes up, as it was
// or, when the revert is undone, as it is. One that was off and is off needs none.
func (s Server) RevertKeys() []SecretID {
	var needs []SecretID
	if was := s.Before(); was.VMState != VMStopped {
		needs = was.OpeningSecrets()
	}
	if !s.Runs() {
		return needs
	}
	for _, id := range s.OpeningSecrets() {
		if !slices.Contains(needs, id) {
			needs = append(needs, id)
		}
	}
	return needs
}

// mayRun says that another host may still run the server, by what is on the ledger.
func mayRun(has []Thing) []string {
	if slices.ContainsFunc(has, func(t Thing) bool { return t.Kind == ThingRunningDomain }) {
		return []string{"A host did not answer and may still run the server: try again when it is back, or when it was forgotten."}
	}
	return nil
}

// carriedNVRAM are the variables of its UEFI, if it has one.
func (s Server) carriedNVRAM(which string) []Carried {
	if s.NVRAM() == "" {
		return nil
	}
	return []Carried{{What: carriedNVRAM + which}}
}

// carried are the data of disks.
func carried(disks []Disk, which string) []Carried {
	var out []Carried
	for _, d := range disks {
		out = append(out, atMost("disk "+d.Label()+which, d.SizeMB<<20))
	}
	return out
}
