package compute

import (
	"slices"
	"strings"
)

// OpRotateKeys is the kind of a rotation of keys, an action of strongroom's own.
const OpRotateKeys OperationKind = "rotateKeys"

// RotateKeys gives encrypted disks new passphrases. A header is changed beside a
// guest that runs as well as without one.
var RotateKeys = declare(Action[RotateArguments]{Facts: Facts{
	Kind:       OpRotateKeys,
	Transition: Transition{Task: TaskRotatingKeys, From: []VMState{VMActive, VMStopped, VMPaused}},
}})

// RotateArguments are the arguments of a rotation of keys.
type RotateArguments struct {
	Disks []string `json:"disks,omitempty"` // labels: root, ephemeral0, swap; none: every encrypted disk
}

// DisksToRotate gives the disks whose keys a rotation changes.
//
// Invalid: a label that is no disk's, or one said twice; Conflict: a disk that is
// not encrypted, or not in a format that has key slots.
func (s Server) DisksToRotate(labels []string) ([]Disk, error) {
	if err := s.CheckNotRescued(); err != nil {
		return nil, err
	}
	var disks []Disk
	for i, label := range labels {
		at := slices.IndexFunc(s.Disks, func(d Disk) bool { return diskLabel(d) == label })
		switch {
		case at < 0:
			return nil, Errorf(Invalid, "Server %s has no disk '%s'. It has: %s.", s.ID, label, strings.Join(s.diskLabels(), ", "))
		case slices.Contains(labels[:i], label):
			return nil, Errorf(Invalid, "Disk '%s' is named twice.", label)
		case !s.Disks[at].Encrypted:
			return nil, Errorf(Conflict, "Disk '%s' of server %s is not encrypted: it has no key to rotate.", label, s.ID)
		}
		disks = append(disks, s.Disks[at])
	}
	if len(labels) == 0 {
		disks = slices.DeleteFunc(slices.Clone(s.Disks), func(d Disk) bool { return !d.Encrypted })
	}
	if len(disks) == 0 {
		return nil, Errorf(Conflict, "Server %s has no encrypted disk: there is no key to rotate.", s.ID)
	}
	for _, d := range disks {
		if d.Format != FormatLUKS || d.Secret == nil {
			return nil, Errorf(Conflict, "Disk '%s' of server %s is encrypted as %q: only the keys of luks disks can be rotated.", diskLabel(d), s.ID, d.Format)
		}
	}
	return disks, nil
}

func (s Server) diskLabels() []string {
	var labels []string
	for _, d := range s.Disks {
		labels = append(labels, diskLabel(d))
	}
	return labels
}

// CheckRotator refuses, with Forbidden, who cannot make secrets that are the
// server's owner's: a key that belongs to somebody else's project would lock the
// owner out.
func (s Server) CheckRotator(asked Credential) error {
	if s.diskSecurity() == SecurityUser && asked.ProjectID != s.ProjectID {
		return Errorf(Forbidden, "The keys of server %s belong to its owner (secret security \"user\"): only somebody of his project can rotate them.", s.ID)
	}
	return nil
}

// Rotated is a disk after its rotation: the secret that opens it from now on, and
// how it is really encrypted (EE-08).
type Rotated struct {
	Secret  SecretID          `json:"secret"`
	Options map[string]string `json:"options"`
}
