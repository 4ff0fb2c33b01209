package compute

import "slices"

// The kinds of a suspension and of its end.
const (
	OpSuspend OperationKind = "suspend"
	OpResume  OperationKind = "resume"
)

// Suspend writes the memory of a server's guest to its host's disk and turns its machine off.
var Suspend = declare(Action[None]{Facts: Facts{
	Kind:          OpSuspend, // its undo lets the guest go on, which takes its keys
	NoShares:      true,
	Transition:    Transition{Task: TaskSuspending, From: []VMState{VMActive}},
	Notifications: notifications("suspend"),
}})

// Resume lets a suspended guest go on where it was.
var Resume = declare(Action[None]{Facts: Facts{
	Kind:          OpResume,
	Transition:    Transition{Task: TaskResuming, From: []VMState{VMSuspended}},
	Resumes:       true,
	Notifications: notifications("resume"),
}})

// TraitEncryptedMemory is of a host on which the memory of suspended guests is on an encrypted volume.
const TraitEncryptedMemory = "CUSTOM_STRONGROOM_SUSPEND_ENCRYPTED"

// CheckSuspend refuses, with Conflict, to suspend a server with something encrypted on a host with these traits: its guest's
// memory, with what the guest read from an encrypted disk and the keys that it has of it, would lie in clear on the host's disk.
func (s Server) CheckSuspend(traits []string) error {
	has := s.secrecy()
	if has == "" || slices.Contains(traits, TraitEncryptedMemory) {
		return nil
	}
	return Errorf(Conflict, "Cannot 'suspend' instance %s: it has %s, and the memory of its guest would lie in clear on the host's disk. "+
		"Pause it, shut it down or shelve it.", s.ID, has)
}

// MemoryIsSecret reports whether the memory of the server's guest may not lie in clear on a disk.
func (s Server) MemoryIsSecret() bool { return s.secrecy() != "" }

// secrecy names what the server has that is encrypted; "": nothing.
func (s Server) secrecy() string {
	switch {
	case s.TPM != nil:
		return "a vTPM"
	case slices.ContainsFunc(s.Disks, func(d Disk) bool { return d.Encrypted || d.BackingSecret != nil }):
		return "encrypted disks"
	}
	return ""
}
