package compute

import (
	"cmp"
	"slices"
)

// OpResize is the kind of a resize.
const OpResize OperationKind = "resize"

// Resize gives a server another flavor, on its host or on another one, until it is confirmed
// or reverted.
var Resize = declare(Action[ResizeArguments]{Facts: Facts{
	Kind:          OpResize,
	Transition:    Transition{Task: TaskResizePrep, From: []VMState{VMActive, VMStopped}},
	NoShares:      true,
	Boots:         true,
	Notifications: notifications("resize"),
}})

// ResizeArguments are the arguments of a resize.
type ResizeArguments struct {
	Flavor       Flavor  `json:"flavor"`
	DiskConfig   *string `json:"disk_config,omitempty"` // nil: as before
	SameHost     bool    `json:"same_host,omitempty"`   // it may stay on its host
	ConfirmAfter int     `json:"confirm_after"`         // seconds until it is confirmed by itself; 0: never
}

// CheckResize reports whether a server may go to another flavor (EE-33). A flavor that asks for
// no format leaves it as it is, whoever decided on it (EE-42). Invalid: it is the same flavor, or
// the new one contradicts itself; Conflict: the disks would have to be encrypted, decrypted or
// converted, or their keys would get another owner.
func (s Server) CheckResize(to Flavor) error {
	from, img := s.Flavor, s.Image
	if from.ID == to.ID {
		return Errorf(Invalid, "When resizing, instances must change flavor!")
	}
	had, err := EncryptionOf(from, img)
	if err != nil {
		return err
	}
	wants, err := EncryptionOf(to, img)
	if err != nil {
		return err
	}
	has := had.Format
	if root, ok := s.RootDisk(); ok && had.Enabled {
		has = cmp.Or(root.Format, has)
	}
	if had.Enabled != wants.Enabled || wants.Format != FormatNone && wants.Format != has {
		return Errorf(Conflict, "Flavor %s and flavor %s differ in the encryption of disks (%s and %s): "+
			"a resize does not encrypt, decrypt or convert disks. Make an image of the server and create a new one from it.",
			from.Name, to.Name, cmp.Or(has, "none"), wants)
	}
	before, err := DiskSecurity(from)
	if err != nil {
		return err
	}
	after, err := DiskSecurity(to)
	if err != nil {
		return err
	}
	if wants.Enabled && before != after && (before == SecurityDeployment || after == SecurityDeployment) {
		return Errorf(Conflict, "Flavor %s and flavor %s differ in who owns the keys of disks (%s and %s).", from.Name, to.Name, before, after)
	}
	if err := CheckHardware(to, img); err != nil {
		return err
	}
	if err := s.checkGetsPages(to); err != nil {
		return err
	}
	return s.checkSameFirmware(to)
}

const cannotResize = "Server disk was unable to be resized because: "

// ResizedTo plans a server as the operation's resize to a flavor makes it. Disks keep their ids
// and keys and are as large as the flavor says. Swap of another size is made anew, since what is in it is worth nothing once the guest is off. A vTPM is made where
// there was none, left out where nobody asks for one any more, and has the key that it had. The state of one that is made,
// or is another one (TPM-18, TPM-19), is made when the guest boots: by the resize, or, of a server that is off, later.
//
// Invalid: the same flavor, a disk would have to shrink, or the vTPM's key would get another
// owner; Conflict: as CheckResize says, or the server cannot be moved.
func (s Server) ResizedTo(op OperationID, f Flavor) (Server, error) {
	if err := s.CheckResize(f); err != nil {
		return Server{}, err
	}
	if f.RootGB == 0 && s.Flavor.RootGB > 0 {
		return Server{}, Errorf(Invalid, cannotResize+"Resize to zero disk flavor is not allowed.")
	}
	if err := s.CheckMovable(); err != nil {
		return Server{}, err
	}
	out := s
	wanted, err := TPMOf(f, s.Image)
	if err != nil {
		return Server{}, err
	}
	if out.TPM, err = s.resizedTPM(wanted); err != nil {
		return Server{}, err
	}
	if s.VMState == VMStopped && !s.SameTPM(out) {
		out = out.WithNewTPM(out.TPM != nil)
	}
	enc, err := EncryptionOf(f, s.Image)
	if err != nil {
		return Server{}, err
	}
	traits, err := TraitsOf(f, s.Image, enc, out.TPM)
	if err != nil {
		return Server{}, err
	}
	out.Flavor, out.Traits, out.Forbidden = f, traits.Required, traits.Forbidden
	out.Disks, err = s.resizedDisks(PlanDisks(op, f, s.Image, enc))
	return out, err
}

func (s Server) resizedTPM(wanted *TPM) (*TPM, error) {
	if s.TPM == nil || wanted == nil {
		return wanted, nil
	}
	if s.TPM.Security != wanted.Security && (s.TPM.Security == SecurityDeployment || wanted.Security == SecurityDeployment) {
		return nil, Errorf(Invalid, "Resize between TPM secret security %s and %s is not supported.", s.TPM.Security, wanted.Security)
	}
	out := *wanted
	out.Secret = s.TPM.Secret
	if s.SameTPM(Server{TPM: &out}) {
		out.Endorsed = s.TPM.Endorsed
	}
	return &out, nil
}

// resizedDisks gives the server's disks as planned, those of a new server of the flavor, say.
func (s Server) resizedDisks(planned []Disk) ([]Disk, error) {
	of := func(all []Disk, role DiskRole) *Disk {
		i := slices.IndexFunc(all, func(d Disk) bool { return d.Role == role })
		if i < 0 {
			return nil
		}
		return &all[i]
	}
	root, ephemeral, swap := of(planned, RootDisk), of(planned, EphemeralDisk), of(planned, SwapDisk)
	more := int64(0)
	if ephemeral != nil {
		more = ephemeral.SizeMB
	}
	if more -= int64(s.Flavor.EphemeralGB) * 1024; more < 0 {
		return nil, errShrinks
	}
	var out []Disk
	for _, d := range s.Disks {
		switch {
		case d.Role == RootDisk:
			size, err := resizedRoot(d, *root)
			if err != nil {
				return nil, err
			}
			d.SizeMB = size
		case d.Role == EphemeralDisk && d.Index == 0:
			d.SizeMB += more
		case d.Role == SwapDisk && swap == nil:
			continue
		case d.Role == SwapDisk && swap.SizeMB != int64(s.Flavor.SwapMB):
			d.SizeMB = swap.SizeMB
		}
		out = append(out, d)
	}
	if more > 0 && of(s.Disks, EphemeralDisk) == nil {
		ephemeral.SizeMB = more
		out = appendDisk(out, *ephemeral)
	}
	if swap != nil && of(s.Disks, SwapDisk) == nil {
		out = appendDisk(out, *swap)
	}
	return out, nil
}

var errShrinks = Errorf(Invalid, cannotResize+"Unable to resize disk down.")

// resizedRoot is the size of the root disk.
func resizedRoot(d, planned Disk) (int64, error) {
	if planned.SizeMB < d.SizeMB {
		return 0, errShrinks
	}
	return planned.SizeMB, nil
}

// appendDisk adds a disk to those of a server, encrypted as they are, with the next device
// name that is free.
func appendDisk(disks []Disk, d Disk) []Disk {
	last := 0
	for _, other := range disks {
		last = max(last, other.letter())
	}
	d.Bus, d.DeviceName = disks[0].Bus, DeviceName(disks[0].Bus, last+1)
	d.Encrypted, d.Format = disks[0].Encrypted, disks[0].Format
	return append(disks, d)
}

// CheckMover refuses, with Forbidden, who may not move a server to what it is to be: new keys
// must be its own project's, and only its owner delegates its keys.
func (s Server) CheckMover(will Server, asker Credential) error {
	if asker.ProjectID == s.ProjectID && asker.UserID == s.UserID {
		return nil
	}
	if will.Delegates() && !s.Delegates() {
		return Errorf(Forbidden, "Server %s can be resized to a flavor that needs its owner's delegation of keys only by the user who owns it.", s.ID)
	}
	ring := will.Keyring(asker)
	for _, d := range will.Disks {
		if d.Encrypted && d.Secret == nil && !s.mayOwnKeys(ring.Disks) {
			return s.notOurKeys("resize")
		}
	}
	if will.TPM != nil && s.TPM == nil && !s.mayOwnKeys(ring.TPM) {
		return s.notOurKeys("resize")
	}
	return nil
}
