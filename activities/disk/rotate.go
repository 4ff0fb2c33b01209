package disk

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"

	"strongroom/activities/disk/luks"
	"strongroom/activities/secret"
	"strongroom/compute"
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

// KeySlots is the activity disk.KeySlots. The disks' server may run meanwhile, as with
// all that changes the keys of a disk: QEMU reads the header when it opens the file, and
// writes to it only when it is told to amend it, which nobody does. Corrupt: a disk is not there, or has no
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
	if err = leadsNowhere(path); err == nil {
		err = a.reads(ctx, c, qcow2Node(path, "key", nil))
	}
	if err != nil {
		return AddKeyResult{}, failed(ctx, err, "disk %s with secret %s", in.Disk.ID, in.Secret)
	}
	a.Logger.InfoContext(ctx, "added a key to a disk", "server", in.Server, "disk", in.Disk.ID, "secret", in.Secret)
	options := maps.Clone(in.Disk.EncryptionOptions)
	if options == nil {
		options = map[string]string{}
	}
	rounds, err := roundsOf(add)
	options["iterations"] = strconv.Itoa(rounds)
	return AddKeyResult{EncryptionOptions: options}, err
}

// roundsOf is luks.Rounds of a passphrase.
func roundsOf(p *secret.Passphrase) (rounds int, err error) {
	err = p.Use(func(value []byte) error { rounds = luks.Rounds(value); return nil })
	return rounds, err
}

// eraseSlots erases key slots, as Remove says.
func (a *Activities) eraseSlots(ctx context.Context, t compute.Thing) error {
	server, file, old, ok := compute.KeySlotsOf(t.Name)
	if !ok {
		return compute.Errorf(compute.Invalid, "%q is no name of key slots", t.Name)
	}
	slots, err := compute.ParseSlots(t.Reference)
	if err != nil {
		return err
	}
	path, err := a.filePath(server, file)
	if err != nil {
		return err
	}
	at, err := a.placeOf(server, path)
	if err != nil {
		return err
	}
	err = locked(ctx, path, func() error {
		return at.onHeader(func(h luks.Header) error {
			return h.EraseSlots(func(slot int) bool { return slices.Contains(slots, slot) == old })
		})
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return headerFailure(ctx, err, "disk "+file+" of server "+server.String())
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
	err = locked(ctx, path, func() error { return at.onHeader(do) })
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return compute.Errorf(compute.Corrupt, "disk %s of server %s is not on this host", d.ID, server)
	case errors.Is(err, luks.ErrPassphrase):
		return compute.Errorf(compute.Corrupt, "disk %s: secret %s does not open it", d.ID, d.Secret)
	}
	return headerFailure(ctx, err, "disk "+d.ID.String())
}

// locked does something while it holds the lock of a file.
func locked(ctx context.Context, path string, do func() error) error {
	unlock, err := lockFile(ctx, path, false)
	if err != nil {
		return err
	}
	defer unlock()
	return do()
}

// headerFailure gives the kind to a failure of something that was done to a LUKS header.
func headerFailure(ctx context.Context, err error, disk string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errFixedKeys), errors.Is(err, luks.ErrFull):
		return compute.Errorf(compute.Conflict, "%s: %w", disk, err)
	case errors.Is(err, luks.ErrForeign), errors.Is(err, luks.ErrCost), errors.Is(err, luks.ErrLast), errors.Is(err, errNoHeader),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF): // the file ends within its header
		return compute.Errorf(compute.Corrupt, "%s: %w", disk, err)
	}
	return failed(ctx, err, "%s: its LUKS header", disk)
}
