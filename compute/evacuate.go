package compute

import (
	"maps"
	"slices"
)

// OpEvacuate is the kind of an evacuate.
const OpEvacuate OperationKind = "evacuate"

// Evacuate has a server run on another host, since its own one is down and will not run it
// any more. What was on that host's disks is lost to it, unless the new host shares their storage.
var Evacuate = declare(Action[EvacuateArguments]{Facts: Facts{
	Kind:          OpEvacuate,
	Transition:    Transition{Task: TaskRebuilding, From: []VMState{VMActive, VMStopped, VMError}},
	NoShares:      true,
	Boots:         true,
	Notifications: notifications("rebuild"),
}})

// EvacuateArguments are the arguments of an evacuate.
type EvacuateArguments struct {
	Host    *HostID `json:"host,omitempty"`    // nil: any other than it is on
	Stopped bool    `json:"stopped,omitempty"` // it is not started, also if it ran
	// Shared says whether the new host is to be one that shares the storage of the server's disks; nil: one that does is preferred.
	Shared *bool `json:"shared,omitempty"`
}

// InvalidShared is Nova's word on an evacuate that was told wrongly whether the disks are on shared storage.
const InvalidShared = "Invalid state of instance files on shared storage"

// SharedDiskStorage is why a server does not move to a host: what it has there and where it is would be one.
const SharedDiskStorage = "Servers do not move between hosts that share the storage of their disks. Evacuate it once its host is down, or move it to a host that does not share it."

// KeepsDisks reports whether the disks of a server can be kept by an evacuate, and are to be: all are files.
func (s Server) KeepsDisks(in EvacuateArguments) bool {
	return (in.Shared == nil || *in.Shared) && !slices.ContainsFunc(s.Disks, Disk.OnDevice)
}

// WithDisksOf is what an evacuate makes of a server whose disks are kept: with those that it has, and the same keys.
func (s Server) WithDisksOf(was Server) Server {
	s.Disks = slices.Clone(was.Disks)
	return s
}

// EvacuatedAs plans a server as the operation's evacuate makes it: its disks made anew of its
// image and empty, each with the key that it has (EE-29), and its vTPM with the key that it has
// and the state of its backup, if there is one: that on its host is lost (TPM-30).
//
// Conflict: it is rescued, or it was resized or migrated and nobody has decided on that; Corrupt: its record does not
// say with which firmware it begins.
func (s Server) EvacuatedAs(op OperationID) (Server, error) {
	if err := s.CheckNotRescued(); err != nil {
		return Server{}, err
	}
	if s.Former != nil {
		return Server{}, Errorf(Conflict, "Server %s was resized or migrated before, which is neither confirmed nor reverted.", s.ID)
	}
	if _, ok := s.RootDisk(); !ok {
		return Server{}, Errorf(Conflict, "server %s has no local root disk", s.ID)
	}
	if _, err := s.Firmware(); err != nil {
		return Server{}, err
	}
	enc, err := EncryptionOf(s.Flavor, s.Image)
	if err != nil {
		return Server{}, err
	}
	root := PlanDisks(op, s.Flavor, s.Image, enc)[0]
	out := s
	out.Disks = nil
	for _, d := range s.Disks {
		if d.Role == RootDisk {
			d.Image, d.Source = root.Image, nil
			if d.SizeMB == 0 {
				d.SizeMB, d.MaxMB = root.SizeMB, root.MaxMB
			}
		}
		d.EncryptionOptions = nil
		out.Disks = append(out.Disks, d)
	}
	out = out.WithUnbooted(true)
	if s.Backup() != nil {
		return out.WithNewTPM(false), nil
	}
	return out.WithTPMLost(), nil
}

// CheckEvacuator refuses, with Forbidden, who may not evacuate a server to what it is to be:
// the key of an encrypted image that went when the server was unshelved is made again, and keys
// are their owner's project's.
func (s Server) CheckEvacuator(will Server, asker Credential) error {
	root, _ := will.RootDisk()
	if will.Image.IsEncrypted() && root.BackingSecret == nil && !s.mayOwnKeys(will.Keyring(asker).Disks) {
		return s.notOurKeys("evacuate")
	}
	return nil
}

// EvacuationKeys are the secrets that must be readable to evacuate a server: those of its
// disks, and to start it that of its vTPM, too.
func (s Server) EvacuationKeys(boots bool) []SecretID {
	if !boots {
		s.TPM = nil
	}
	return s.Secrets()
}

// SystemNewTPM is the key of a server's system metadata that says that its vTPM has no state
// yet: the next boot makes it.
const SystemNewTPM = "tpm_new"

// HasNewTPM reports whether the server's vTPM has no state yet.
func (s Server) HasNewTPM() bool { return s.TPM != nil && s.System[SystemNewTPM] != "" }

// HasTPMState reports whether the server has a vTPM with a state.
func (s Server) HasTPMState() bool { return s.TPM != nil && !s.HasNewTPM() }

// WithNewTPM is the server with a vTPM that has no state yet, or has one.
func (s Server) WithNewTPM(isNew bool) Server {
	s.System = maps.Clone(s.System)
	if s.System == nil {
		s.System = map[string]string{}
	}
	delete(s.System, SystemNewTPM)
	if isNew {
		s.System[SystemNewTPM] = "yes"
		if s.TPM != nil {
			fresh := *s.TPM
			fresh.Endorsed = ""
			s.TPM = &fresh
		}
	}
	return s
}

// TPMLost tells a server's user what an evacuate or a rebuild has cost; "" without a vTPM, or where that had no
// state yet. how says what became of the state ("was lost with its host"): names of hosts are their operator's.
func (s Server) TPMLost(how string) string {
	if !s.HasTPMState() {
		return ""
	}
	return "The state of the vTPM of server " + s.ID.String() + " " + how + ": it is new and empty, with the same key. " +
		"What the guest had sealed to it or kept in it is gone."
}
