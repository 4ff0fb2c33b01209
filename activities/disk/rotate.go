package disk

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"

	"strongroom/activities/disk/luks"
	"strongroom/compute"
)

// The registered names of what changes the keys of disks that are there. The disk's
// server may run meanwhile: QEMU reads the header when it opens the file, and
// writes to it only when it is told to amend it, which nobody does.
const (
	KeySlots  = "disk.KeySlots"
	AddKey    = "disk.AddKey"
	EraseKeys = "disk.EraseKeys"
)

// KeySlotsInput asks for the key slots of a server's disks.
type KeySlotsInput struct {
	Server compute.ServerID `json:"server"`
	Disks  []compute.Disk   `json:"disks"`
}

// KeySlotsResult has the numbers of the active slots, by disk id.
type KeySlotsResult struct {
	Slots map[string][]int `json:"slots"`
}

// AddKeyInput asks that a second secret opens a disk.
type AddKeyInput struct {
	Credential compute.Credential `json:"credential"` // to read both secrets with
	Server     compute.ServerID   `json:"server"`
	Disk       compute.Disk       `json:"disk"` // with the secret that opens it
	Secret     compute.SecretID   `json:"secret"`
	Before     []int              `json:"before"` // the slots that were active when the operation began: not to be touched
}

// AddKeyResult tells how the disk is encrypted for the new secret (EE-08).
type AddKeyResult struct {
	EncryptionOptions map[string]string `json:"encryption_options"`
}

// EraseKeysInput asks that key slots of a disk open it no more: those of Slots, or
// with Others all but those.
type EraseKeysInput struct {
	Server compute.ServerID `json:"server"`
	Disk   compute.Disk     `json:"disk"`
	Slots  []int            `json:"slots"`
	Others bool             `json:"others,omitempty"`
}

// KeySlots is the activity disk.KeySlots. Corrupt: a disk is not there, or has no
// LUKS header; Conflict: it is no file, and its keys are not rotated.
func (a *Activities) KeySlots(ctx context.Context, in KeySlotsInput) (KeySlotsResult, error) {
	out := KeySlotsResult{Slots: map[string][]int{}}
	for _, d := range in.Disks {
		err := a.withHeader(ctx, in.Server, d, func(h luks.Header) (err error) {
			out.Slots[d.ID.String()], err = h.Slots()
			return err
		})
		if err != nil {
			return KeySlotsResult{}, err
		}
	}
	return out, nil
}

// AddKey is the activity disk.AddKey: it ensures that a second secret opens the
// disk, and that QEMU agrees. Whatever cuts it off, the first secret opens the disk
// all the time. Corrupt: the first secret does not open it, or the disk is not
// there; Conflict: it has no free slot; otherwise as the key manager says.
func (a *Activities) AddKey(ctx context.Context, in AddKeyInput) (AddKeyResult, error) {
	if in.Disk.Secret == nil {
		return AddKeyResult{}, compute.Errorf(compute.Invalid, "disk %s names no secret that opens it", in.Disk.ID)
	}
	have, err := a.Keys.Passphrase(ctx, in.Credential, *in.Disk.Secret)
	if err != nil {
		return AddKeyResult{}, err
	}
	defer have.Wipe()
	add, err := a.Keys.Passphrase(ctx, in.Credential, in.Secret)
	if err != nil {
		return AddKeyResult{}, err
	}
	defer add.Wipe()
	err = a.withHeader(ctx, in.Server, in.Disk, func(h luks.Header) error {
		return have.Use(func(first []byte) error {
			return add.Use(func(second []byte) error {
				_, err := h.AddSlot(in.Before, first, second)
				return err
			})
		})
	})
	if err != nil {
		return AddKeyResult{}, err
	}
	path, err := a.diskPath(in.Server, in.Disk)
	if err != nil {
		return AddKeyResult{}, err
	}
	var c Command
	c.lend("key", add)
	if err := a.reads(ctx, c, qcow2Node(path, "key", nil)); err != nil {
		return AddKeyResult{}, failed(ctx, err, "disk %s with secret %s", in.Disk.ID, in.Secret)
	}
	a.Logger.InfoContext(ctx, "added a key to a disk", "server", in.Server, "disk", in.Disk.ID, "secret", in.Secret)
	options := maps.Clone(in.Disk.EncryptionOptions)
	if options == nil {
		options = map[string]string{}
	}
	options["iterations"] = strconv.Itoa(luks.Iterations)
	return AddKeyResult{EncryptionOptions: options}, nil
}

// EraseKeys is the activity disk.EraseKeys. It needs no secret: slots go by their
// numbers. A disk that is not there has none. Corrupt, having done nothing: no
// other slot would open the disk.
func (a *Activities) EraseKeys(ctx context.Context, in EraseKeysInput) error {
	path, err := a.diskPath(in.Server, in.Disk)
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return a.withHeader(ctx, in.Server, in.Disk, func(h luks.Header) error {
		return h.EraseSlots(func(slot int) bool { return slices.Contains(in.Slots, slot) != in.Others })
	})
}

// errFixedKeys: the keys of disks there are not changed.
var errFixedKeys = errors.New("its keys cannot be rotated")

// withHeader does something to the LUKS header of a disk while it holds the disk's lock.
func (a *Activities) withHeader(ctx context.Context, server compute.ServerID, d compute.Disk, do func(luks.Header) error) error {
	path, err := a.diskPath(server, d)
	if err != nil {
		return err
	}
	at, err := a.place(server, d)
	if err != nil {
		return err
	}
	unlock, err := lockFile(ctx, path, false)
	if err == nil {
		defer unlock()
		err = at.onHeader(do)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errFixedKeys):
		return compute.Errorf(compute.Conflict, "disk %s: %w", d.ID, err)
	case errors.Is(err, fs.ErrNotExist):
		return compute.Errorf(compute.Corrupt, "disk %s of server %s is not on this host", d.ID, server)
	case errors.Is(err, luks.ErrFull):
		return compute.Errorf(compute.Conflict, "disk %s: %w", d.ID, err)
	case errors.Is(err, luks.ErrPassphrase):
		return compute.Errorf(compute.Corrupt, "disk %s: secret %s does not open it", d.ID, d.Secret)
	case errors.Is(err, luks.ErrForeign), errors.Is(err, luks.ErrLast), errors.Is(err, errNoHeader):
		return compute.Errorf(compute.Corrupt, "disk %s: %w", d.ID, err)
	}
	return failed(ctx, err, "disk %s: its LUKS header", d.ID)
}
