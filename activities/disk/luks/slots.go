package luks

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"slices"
)

// Where a slot's entry is in the header, and the parts of it that change.
const (
	firstEntry = 208
	entryBytes = 48
	stateBytes = 4
)

// AddSlot ensures that a second passphrase opens the disk, and gives its slot.
// before are the slots that were active when the operation began; one of them opens
// with the first passphrase, and none of them is touched. A slot that an attempt
// before left, whole or torn, is taken for this one's.
//
// The disk may be in use meanwhile: who has it open does not look at its header
// again. ErrPassphrase: the first passphrase opens none of the slots; ErrFull.
func (h Header) AddSlot(before []int, have, add []byte) (int, error) {
	p, newHash, err := h.read()
	if err != nil {
		return 0, err
	}
	master, err := h.master(p, before, have, newHash)
	if err != nil {
		return 0, err
	}
	defer clear(master)
	free := -1
	for i, s := range p.Slots {
		if slices.Contains(before, i) {
			continue
		}
		if s.State == slotActive {
			opened, err := h.unlock(p, i, add, newHash)
			clear(opened)
			if !errors.Is(err, ErrPassphrase) {
				return i, err
			}
			if err := h.erase(p, i); err != nil {
				return 0, err
			}
		}
		if free < 0 {
			free = i
		}
	}
	if free < 0 {
		return 0, ErrFull
	}
	return free, h.fill(p, free, master, add, newHash)
}

// master finds the slot that a passphrase opens.
func (h Header) master(p partition, among []int, passphrase []byte, newHash func() hash.Hash) ([]byte, error) {
	for _, i := range among {
		if i < 0 || i >= slots || p.Slots[i].State != slotActive {
			continue
		}
		master, err := h.unlock(p, i, passphrase, newHash)
		if !errors.Is(err, ErrPassphrase) {
			return master, err
		}
	}
	return nil, ErrPassphrase
}

// fill writes a slot. Its state comes last, and is within one sector of the disk:
// the slot is there, whole, or it is not. Until then it shows what it is going to
// be, so that what was cut off here is found and wiped.
func (h Header) fill(p partition, i int, master, passphrase []byte, newHash func() hash.Hash) error {
	s := p.Slots[i]
	s.State, s.Iterations = slotDisabled, uint32(Rounds(passphrase))
	_, _ = rand.Read(s.Salt[:]) // never fails
	material, err := keyMaterial(master, passphrase, s, newHash)
	if err != nil {
		return err
	}
	if err := h.writeEntry(i, s); err != nil {
		return err
	}
	if err := h.write(material, int64(s.Sector)*sectorSize); err != nil {
		return err
	}
	return h.writeState(i, slotActive)
}

// EraseSlots ensures that the slots for which gone says so open nothing any more:
// their key material is overwritten. So is that of slots that were never finished.
// ErrLast, having done nothing: no other slot is active.
func (h Header) EraseSlots(gone func(slot int) bool) error {
	p, _, err := h.read()
	if err != nil {
		return err
	}
	active := p.active()
	if slices.ContainsFunc(active, gone) && !slices.ContainsFunc(active, func(i int) bool { return !gone(i) }) {
		return ErrLast
	}
	for i, s := range p.Slots {
		unfinished := s.State != slotActive && s.Iterations != 0
		if unfinished || s.State == slotActive && gone(i) {
			if err := h.erase(p, i); err != nil {
				return err
			}
		}
	}
	return nil
}

// erase closes a slot, wipes its key material, and only then forgets that there was
// some: what is cut off here is done by the next erase.
func (h Header) erase(p partition, i int) error {
	if err := h.writeState(i, slotDisabled); err != nil {
		return err
	}
	noise := make([]byte, p.materialBytes(i))
	_, _ = rand.Read(noise) // never fails
	if err := h.write(noise, int64(p.Slots[i].Sector)*sectorSize); err != nil {
		return err
	}
	return h.writeEntry(i, slot{State: slotDisabled, Sector: p.Slots[i].Sector, Stripes: p.Slots[i].Stripes})
}

func (h Header) writeEntry(i int, s slot) error {
	var entry bytes.Buffer
	if err := binary.Write(&entry, binary.BigEndian, s); err != nil {
		return err
	}
	return h.write(entry.Bytes(), firstEntry+int64(i)*entryBytes)
}

func (h Header) writeState(i int, state uint32) error {
	return h.write(binary.BigEndian.AppendUint32(make([]byte, 0, stateBytes), state), firstEntry+int64(i)*entryBytes)
}

// write writes a part of the header, and returns when it is on disk: what comes
// after counts on it.
func (h Header) write(part []byte, at int64) error {
	if _, err := h.File.WriteAt(part, h.Offset+at); err != nil {
		return fmt.Errorf("luks: header: %w", err)
	}
	if err := h.File.Sync(); err != nil {
		return fmt.Errorf("luks: header: %w", err)
	}
	return nil
}
