package compute

import (
	"maps"
	"slices"
)

// The kinds of a shelve, of what it leaves on its host being given up, and of the way back.
const (
	OpShelve        OperationKind = "shelve"
	OpShelveOffload OperationKind = "shelveOffload"
	OpUnshelve      OperationKind = "unshelve"
)

// Shelve keeps a server's disks as images and its vTPM's state as an object (EE-25, TPM-21).
var Shelve = declare(Action[ShelveArguments]{Facts: Facts{
	Kind:          OpShelve,
	Transition:    Transition{Task: TaskShelving, From: []VMState{VMActive, VMStopped, VMPaused, VMSuspended}},
	NoShares:      true,
	Notifications: notifications("shelve"),
}})

// ShelveOffload gives up what a shelved server has on its host.
var ShelveOffload = declare(Action[None]{Facts: Facts{
	Kind:          OpShelveOffload,
	Transition:    Transition{Task: TaskShelvingOffloading, From: []VMState{VMShelved}},
	Notifications: notifications("shelve_offload"),
}})

// Unshelve runs a shelved server again: where it was or, once offloaded, on any host. One
// that is in ERROR while it is shelved comes back by it, too (CheckUnshelve).
var Unshelve = declare(Action[UnshelveArguments]{Facts: Facts{
	Kind:          OpUnshelve,
	Transition:    Transition{Task: TaskUnshelving, From: []VMState{VMShelved, VMShelvedOffloaded, VMError}},
	Boots:         true,
	Notifications: notifications("unshelve"),
}})

// NeverOffload as ShelveArguments.OffloadAfter leaves a shelved server on its host.
const NeverOffload = -1

// ShelveArguments are the arguments of a shelve.
type ShelveArguments struct {
	// OffloadAfter is how long the server stays on its host, in seconds; 0: not at all,
	// NeverOffload: until somebody asks for it.
	OffloadAfter int `json:"offload_after"`
}

// UnshelveArguments are the arguments of an unshelve. The targets are for an offloaded
// server.
type UnshelveArguments struct {
	Host  *HostID `json:"host,omitempty"`  // nil: any
	Zone  *string `json:"zone,omitempty"`  // nil: the one that the server is pinned to; "": any
	Unpin bool    `json:"unpin,omitempty"` // the server is pinned to no zone from here on
}

// ShelvedDisk is the image that has the data of a shelved server's disk, as it was stored.
type ShelvedDisk struct {
	Image     ImageID `json:"image"`
	SizeBytes int64   `json:"size_bytes"`
	SHA256    string  `json:"sha256,omitempty"` // hex; one of the two, as the image store keeps it
	SHA512    string  `json:"sha512,omitempty"`
}

// Record is what must be known of the image to download it.
func (d ShelvedDisk) Record() Image {
	return Image{ID: d.Image, SizeBytes: d.SizeBytes, SHA256: d.SHA256, SHA512: d.SHA512, DiskFormat: ImageQcow2}
}

// StoredTPM is the object that has the state of a shelved server's vTPM (TPM-22).
type StoredTPM struct {
	Object string `json:"object"`
	SHA256 string `json:"sha256"` // hex, of the whole
}

// StoredTPM gives where the state of the server's vTPM is while it is shelved; nil: nowhere.
func (s Server) StoredTPM() *StoredTPM {
	if s.System[SystemTPMObject] == "" {
		return nil
	}
	return &StoredTPM{Object: s.System[SystemTPMObject], SHA256: s.System[SystemTPMObjectSHA256]}
}

// TPMObject names the object that an operation keeps the state of the server's vTPM in.
func TPMObject(s ServerID, op OperationID) string {
	return tpmObjectPrefix + s.String() + "/" + op.Derive("object/tpm/"+s.String()).String()
}

const tpmObjectPrefix = "tpm/"

// IsStoredIn reports whether an object keeps something of the server while it is shelved.
func (s Server) IsStoredIn(object string) bool {
	if state := s.StoredTPM(); state != nil && state.Object == object {
		return true
	}
	nvram := s.StoredNVRAM()
	return nvram != nil && nvram.Object == object
}

// CheckShelve refuses, with Conflict, a server whose disks cannot be kept as images and
// made of them again. Corrupt: its record does not say with which firmware it begins.
func (s Server) CheckShelve() error {
	if err := s.CheckNotRescued(); err != nil {
		return err
	}
	if _, ok := s.RootDisk(); !ok {
		return Errorf(Conflict, "server %s has no local root disk", s.ID)
	}
	if s.IsShelved() {
		return s.WhileShelved(OpShelve)
	}
	if s.HasNewTPM() {
		return Errorf(Conflict, "The vTPM of server %s has no state that could be kept: it has not been started since it was evacuated or resized. Start it first.", s.ID)
	}
	for _, d := range s.Disks {
		if d.OnDevice() {
			return Errorf(Conflict, "Server %s cannot be shelved: its %s disk is a logical volume of its host (encryption format %s), "+
				"which is not kept as an image with the same key.", s.ID, d.Label(), d.Format)
		}
	}
	_, err := s.Firmware()
	return err
}

// IsShelved reports whether images keep the server's data, whatever its vm_state was set to.
func (s Server) IsShelved() bool {
	return slices.ContainsFunc(s.Disks, func(d Disk) bool { return d.Shelved != nil })
}

// IsOffloaded reports whether a shelved server is on no host.
func (s Server) IsOffloaded() bool { return s.VMState == VMShelvedOffloaded || s.Host == nil }

// IsWhole reports whether a shelved server has all of its data on its host, by what is on
// the ledger.
func (s Server) IsWhole(has []Thing) bool {
	is := func(kind ThingKind, name string) bool {
		return slices.ContainsFunc(has, func(t Thing) bool {
			return t.Kind == kind && t.Name == name && t.Place == s.Host.String() && t.State == ThingPresent
		})
	}
	for _, d := range s.Disks {
		if !is(ThingDiskFile, s.ID.String()+"/"+d.Name()) {
			return false
		}
	}
	if nvram := s.NVRAM(); nvram != "" && !is(ThingDiskFile, s.ID.String()+"/"+nvram) {
		return false
	}
	return s.TPM == nil || is(ThingTPMState, s.ID.String())
}

// WhileShelved is the refusal of an action on a shelved server whose vm_state does not forbid
// it, since it was reset: on its host it has nothing, or what is given up.
func (s Server) WhileShelved(kind OperationKind) error {
	return Errorf(Conflict, "Cannot '%s' instance %s while it is shelved. Unshelve it first; where its status does not allow that, an administrator sets it to ERROR.", kind, s.ID)
}

// CheckUnshelve refuses, with Conflict, a server in ERROR whose data no images keep.
func (s Server) CheckUnshelve() error {
	if s.VMState == VMError && slices.ContainsFunc(s.Disks, func(d Disk) bool { return d.Shelved == nil }) {
		return Unshelve.wrongState(s.ID, "vm_state", string(s.VMState))
	}
	return nil
}

// ShelveImage is the record of the image that keeps a disk of the server: that of a snapshot,
// with the vTPM that the server has (TPM-23).
func (s Server) ShelveImage(d Disk, op OperationID) Image {
	name := s.Name + "-shelved"
	if d.Role != RootDisk {
		name += "-" + d.Name()
	}
	img := SnapshotImage(s, SnapshotArguments{Image: ImageID{op.Derive("image/shelve/" + d.ID.String())}, Name: name})
	delete(img.Properties, "hw_tpm_version")
	delete(img.Properties, "hw_tpm_model")
	if s.TPM != nil {
		img.Properties["hw_tpm_version"], img.Properties["hw_tpm_model"] = string(s.TPM.Version), string(s.TPM.Model)
	}
	return img
}

// CheckShelvedImage refuses, with Conflict, an image of a shelved server that asks for
// another vTPM than the one whose state is kept: it would be lost in it (decision 17).
func (tpm *TPM) CheckShelvedImage(img Image) error {
	has := TPM{}
	if tpm != nil {
		has = *tpm
	}
	version, model := has.Version, has.Model
	var err error
	if text := img.Properties["hw_tpm_version"]; text != "" {
		if version, err = ParseTPMVersion(text); err != nil {
			return Errorf(Conflict, "Image %s has an invalid hw_tpm_version property. %w", img.ID, err)
		}
	}
	if text := img.Properties["hw_tpm_model"]; text != "" {
		if model, err = ParseTPMModel(text); err != nil {
			return Errorf(Conflict, "Image %s has an invalid hw_tpm_model property. %w", img.ID, err)
		}
	}
	switch {
	case version == has.Version && model == has.Model:
		return nil
	case tpm == nil:
		return Errorf(Conflict, "Image %s asks for a vTPM %s, which the shelved server did not have.", img.ID, version)
	}
	return Errorf(Conflict, "Image %s asks for a vTPM %s (%s), and the state that is kept is that of a vTPM %s (%s). "+
		"Set its properties hw_tpm_version and hw_tpm_model back.", img.ID, version, model, has.Version, has.Model)
}

// Unshelved gives an offloaded server as it is to be on its next host. Its disks keep their
// ids, so that the guest finds them again, and their keys; each has all of its data in itself.
// Files have new names: what the server had on a host before may still wait to be removed there.
func (s Server) Unshelved(op OperationID, in UnshelveArguments) (Server, error) {
	out := s
	out.Host = nil
	out.Disks = nil
	for _, d := range s.Disks {
		if d.Shelved == nil {
			return out, Errorf(Corrupt, "disk %s of server %s is kept nowhere", d.ID, s.ID)
		}
		d.File = ""
		d.File = d.Name() + "." + op.Derive("disk/" + d.Label()).String()[:8]
		d.Image, d.Source, d.BackingSecret, d.Whole = nil, nil, nil, false
		out.Disks = append(out.Disks, d)
	}
	if in.Zone != nil {
		out.System = maps.Clone(s.System)
		if out.System == nil {
			out.System = map[string]string{}
		}
		out.System[SystemPinnedZone] = *in.Zone
	}
	return out, nil
}

// OwnersCredential is the credential for what is made in the project of the server's owner,
// whoever asks: that of a user of the project, what the owner delegated, or strongroom's own
// role there.
func (s Server) OwnersCredential(asked Credential) Credential {
	switch {
	case asked.ProjectID == s.ProjectID:
		return asked
	case s.Delegates():
		return s.Delegated()
	}
	return MemberCredential(s.ProjectID)
}
