package compute

import (
	"cmp"
	"slices"
)

// OpRebuild is the kind of a rebuild.
const OpRebuild OperationKind = "rebuild"

// Rebuild replaces a server's disks by new ones of an image.
var Rebuild = declare(Action[RebuildArguments]{Facts: Facts{
	Kind:          OpRebuild,
	Transition:    Transition{Task: TaskRebuilding, From: []VMState{VMActive, VMStopped, VMError}},
	NoShares:      true,
	Boots:         true,
	Notifications: notifications("rebuild"),
}})

// RebuildArguments are the arguments of a rebuild.
type RebuildArguments struct {
	Image             Image `json:"image"`
	PreserveEphemeral bool  `json:"preserve_ephemeral,omitempty"`
}

// RebuildRequest is what the operations row of a rebuild keeps of its request.
type RebuildRequest struct {
	RebuildArguments
	Change ServerChange `json:"change"`
}

// ServerChange is what a rebuild changes of a server's row beside its image. It is
// the user's own words, so it goes from the request to the row, past the workflow.
// nil leaves as it is; where null is a value, Set says whether there is one.
type ServerChange struct {
	Name        *string           `json:"name,omitempty"`
	Hostname    *string           `json:"hostname,omitempty"`
	Metadata    map[string]string `json:"metadata"` // {}: none
	DiskConfig  *string           `json:"disk_config,omitempty"`
	AccessIPv4  *string           `json:"access_ip_v4,omitempty"`
	AccessIPv6  *string           `json:"access_ip_v6,omitempty"`
	Description Setting           `json:"description"`
	KeyName     Setting           `json:"key_name"`
	KeyData     *string           `json:"key_data,omitempty"` // goes with KeyName
	UserData    Setting           `json:"user_data"`
}

// Setting is a text that may be set to null.
type Setting struct {
	Set  bool    `json:"set,omitempty"`
	Text *string `json:"text,omitempty"`
}

// RebuiltAs plans a server as the operation's rebuild makes it: the image, disks
// and a vTPM by the rules of a create. Disks that take the place of others have new
// ids and files, and no secrets yet. Flavor, host and networks stay.
//
// A vTPM is made where there was none, left out where nobody asks for one any
// more, and kept where the same one is asked for (TPM-29).
//
// A format that nobody asks for is host, the default of the server's host; where nobody asked
// for that of its present disks either, theirs stays, whatever the default is by now (EE-03, EE-42).
//
// Invalid: the image does not fit; Conflict: flavor and image disagree, the image
// asks for another vTPM than the server has, or an ephemeral disk cannot stay as it is.
func (s Server) RebuiltAs(op OperationID, in RebuildArguments, host DiskFormat) (Server, error) {
	if err := s.CheckNotRescued(); err != nil {
		return Server{}, err
	}
	if err := CheckImage(in.Image); err != nil {
		return Server{}, err
	}
	if err := CheckImageFits(s.Flavor, in.Image); err != nil {
		return Server{}, err
	}
	if err := CheckFirmware(s.Flavor, in.Image); err != nil {
		return Server{}, err
	}
	if err := CheckHardware(s.Flavor, in.Image); err != nil {
		return Server{}, err
	}
	enc, err := EncryptionOf(s.Flavor, in.Image)
	if err != nil {
		return Server{}, err
	}
	wanted, err := TPMOf(s.Flavor, in.Image)
	if err != nil {
		return Server{}, err
	}
	out := s
	out.Image = in.Image
	if out.TPM, err = keptTPM(s, wanted, in.Image); err != nil {
		return Server{}, err
	}
	if enc.Enabled && enc.Format == FormatNone {
		enc.Format = s.settledFormat(host)
	}
	root := PlanDisks(op, s.Flavor, in.Image, enc)[0]
	out.Disks = nil
	for _, d := range s.Disks {
		if d.Role == EphemeralDisk && in.PreserveEphemeral {
			if d.Encrypted != root.Encrypted || d.Format != root.Format {
				return Server{}, Errorf(Conflict, "Image %s asks for other encryption than the ephemeral disks have: they cannot be preserved.", in.Image.ID)
			}
			out.Disks = append(out.Disks, d)
			continue
		}
		out.Disks = append(out.Disks, replaced(d, root, op))
	}
	return out, nil
}

// settledFormat is the format of new disks where nobody asks for one.
func (s Server) settledFormat(host DiskFormat) DiskFormat {
	root, _ := s.RootDisk()
	had, err := EncryptionOf(s.Flavor, s.Image)
	if err != nil || !root.Encrypted || !had.Enabled || had.Format != FormatNone {
		return host
	}
	return cmp.Or(root.Format, host)
}

// replaced is the disk that takes the place of another one: encrypted as the new
// root disk is.
func replaced(d, root Disk, op OperationID) Disk {
	out := d
	if d.Role == RootDisk {
		out.SizeMB, out.Image, out.BackingSecret = root.SizeMB, root.Image, root.BackingSecret
	}
	out.ID = DiskID{op.Derive("disk/" + diskLabel(d))}
	out.Bus, out.DeviceName = root.Bus, DeviceName(root.Bus, d.letter())
	out.File = ""
	out.File = out.Name() + "." + out.ID.String()[:8]
	out.Encrypted, out.Format = root.Encrypted, root.Format
	out.Secret, out.EncryptionOptions, out.Whole = nil, nil, false
	return out
}

func keptTPM(s Server, wanted *TPM, img Image) (*TPM, error) {
	switch {
	case s.TPM == nil || wanted == nil:
		return wanted, nil
	case s.TPM.Version != wanted.Version || s.TPM.Model != wanted.Model:
		return nil, Errorf(Conflict, "Image %s asks for a vTPM %s (%s) and server %s has a vTPM %s (%s): a rebuild keeps the vTPM and cannot change it.",
			img.ID, wanted.Version, wanted.Model, s.ID, s.TPM.Version, s.TPM.Model)
	}
	return s.TPM, nil
}

// CheckRebuilder refuses, with Forbidden, who may not rebuild a server to what it
// is to be. Another user than its owner may not change how it is encrypted, nor
// delegate its keys, and new keys must be its own project's: secrets keep their
// owner (EE-34).
func (s Server) CheckRebuilder(will Server, asker Credential) error {
	if asker.ProjectID == s.ProjectID && asker.UserID == s.UserID {
		return nil
	}
	if s.encryptedOtherwise(will) {
		return Errorf(Forbidden, "Server %s can be rebuilt to an image with other encryption options only by the user who owns it.", s.ID)
	}
	if will.Delegates() && !s.Delegates() {
		return Errorf(Forbidden, "Server %s can be rebuilt to an image that needs its owner's delegation of keys only by the user who owns it.", s.ID)
	}
	ring := will.Keyring(asker)
	for _, d := range will.Disks {
		if d.Encrypted && d.Secret == nil && !s.mayOwnKeys(ring.Disks) {
			return s.notOurKeys("rebuild")
		}
	}
	if will.TPM != nil && s.TPM == nil && !s.mayOwnKeys(ring.TPM) {
		return s.notOurKeys("rebuild")
	}
	return nil
}

// CheckStaysEncrypted refuses, with Conflict, a rebuild that would write the disks of an encrypted
// server in clear text though nobody asks for that: neither flavor nor image asks for the encryption of
// what Nova's host configuration had encrypted, so neither can stop asking (EE-42, EE-48). legacy:
// it has a legacy key, which its disks do not have yet.
func (s Server) CheckStaysEncrypted(will Server, legacy bool) error {
	was, _ := s.RootDisk()
	is, _ := will.RootDisk()
	if is.Encrypted || !was.Encrypted && !legacy {
		return nil
	}
	if had, err := EncryptionOf(s.Flavor, s.Image); err == nil && had.Enabled {
		return nil
	}
	if said, err := agreed(will.Flavor, will.Image, "ephemeral_encryption", ParseBool); err == nil && said != nil {
		return nil
	}
	return Errorf(Conflict, "The disks of server %s are encrypted, which neither its flavor nor its image asks for, and image %s does not either: "+
		"rebuilt to it they would be in clear text. Set hw_ephemeral_encryption of the image to true, or to false if that is what you want.", s.ID, will.Image.ID)
}

func (s Server) mayOwnKeys(c Credential) bool {
	return c.ProjectID == s.ProjectID || c.ProjectID == DeploymentProject
}

func (s Server) notOurKeys(what string) error {
	return Errorf(Forbidden, "Server %s keeps its keys in project %s: only a token of that project can make new ones for a %s.", s.ID, s.ProjectID, what)
}

// encryptedOtherwise reports whether the root disks of two servers differ in how
// they are encrypted.
func (s Server) encryptedOtherwise(will Server) bool {
	was, _ := s.RootDisk()
	is, _ := will.RootDisk()
	return was.Encrypted != is.Encrypted || was.Format != is.Format || s.Image.IsEncrypted() != will.Image.IsEncrypted()
}

// OpeningSecrets lists the secrets that open a server's disks and vTPM as they are. That of the encrypted image of a disk on a device, or in a pool,
// is none of them: such a disk has all of its data in itself. Only an evacuate, which makes the disk anew, reads it.
func (s Server) OpeningSecrets() []SecretID {
	s.Disks = slices.Clone(s.Disks)
	for i, d := range s.Disks {
		if !d.HasBackingFile() {
			s.Disks[i].BackingSecret = nil
		}
	}
	return s.Secrets()
}

// Secrets lists the secrets that a server has for its disks and vTPM.
func (s Server) Secrets() []SecretID {
	var out []SecretID
	for _, d := range s.Disks {
		for _, id := range []*SecretID{d.Secret, d.BackingSecret} {
			if id != nil && !slices.Contains(out, *id) {
				out = append(out, *id)
			}
		}
	}
	if s.TPM != nil && s.TPM.Secret != nil {
		out = append(out, *s.TPM.Secret)
	}
	return out
}
