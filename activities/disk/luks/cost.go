package luks

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// What a header may ask of whoever tries a passphrase on it. Its maker chose it.
const (
	// MostRounds is some ten seconds of one CPU: several times what cryptsetup and
	// QEMU ask for where they choose.
	MostRounds  = 50_000_000
	mostStripes = 16_000
	leastKey    = 16
	mostKey     = 128 // bytes: two keys of the longest cipher, and as much again
)

// Why a header is refused.
var (
	// ErrCost: to try a passphrase would cost more than MostRounds, or too much memory.
	ErrCost = errors.New("luks: the header asks for too much work to be opened")
	// ErrVersion: it is a LUKS header of another version than 1.
	ErrVersion = errors.New("luks: the header is not of version 1")
	// ErrDamaged: the header is cut off or points outside of its room.
	ErrDamaged = errors.New("luks: the header is damaged")
)

// Check looks at a LUKS 1 header before anything works for it: any cipher, as others
// may read those that this package does not. room are the bytes from the header's
// begin to the end of what belongs to it.
func Check(r io.ReaderAt, offset, room int64) error {
	p, err := readForeign(r, offset, room)
	if err != nil {
		return err
	}
	for _, i := range p.active() {
		if end := int64(p.Slots[i].Sector)*sectorSize + p.materialBytes(i); p.Slots[i].Stripes == 0 || end > room {
			return fmt.Errorf("%w: key slot %d is empty or ends outside", ErrDamaged, i)
		}
	}
	return nil
}

// CheckHead is Check of what is at a container's begin, where no more of it is there yet.
func CheckHead(r io.ReaderAt) error {
	_, err := readForeign(r, 0, payloadSector*sectorSize)
	return err
}

func readForeign(r io.ReaderAt, offset, room int64) (p partition, err error) {
	if err := binary.Read(io.NewSectionReader(r, offset, room), binary.BigEndian, &p); err != nil {
		return p, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if p.Magic != magic {
		return p, fmt.Errorf("%w: it does not begin as one", ErrDamaged)
	}
	if p.Version != version {
		return p, fmt.Errorf("%w: it says %d", ErrVersion, p.Version)
	}
	return p, p.affordable()
}

// affordable bounds all that it takes to try a passphrase on every active slot.
func (p partition) affordable() error {
	if p.KeyBytes < leastKey || p.KeyBytes > mostKey {
		return fmt.Errorf("%w: a key of %d bytes", ErrCost, p.KeyBytes)
	}
	for _, i := range p.active() {
		if s := p.Slots[i]; s.Stripes > mostStripes {
			return fmt.Errorf("%w: %d stripes", ErrCost, s.Stripes)
		}
	}
	if rounds := p.rounds(); rounds > MostRounds {
		return fmt.Errorf("%w: %d rounds of hashing", ErrCost, rounds)
	}
	return nil
}

// rounds counts the rounds of hashing: each slot's for each piece of its key, those that
// put its stripes together, and those of the master key's digest, which every
// slot is compared with.
func (p partition) rounds() uint64 {
	hashBytes := uint32(digestBytes) // the shortest, of a hash that is not known here
	if newHash := hashes[text(p.Hash[:])]; newHash != nil {
		hashBytes = uint32(newHash().Size())
	}
	pieces := uint64((p.KeyBytes + hashBytes - 1) / hashBytes)
	sum := uint64(0)
	for _, i := range p.active() {
		s := p.Slots[i]
		sum += pieces*(uint64(s.Iterations)+uint64(s.Stripes)) + uint64(p.DigestIterations)
	}
	return sum
}
