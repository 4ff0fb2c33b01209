package luks

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // what older headers hash with; it is theirs to choose
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"

	"golang.org/x/crypto/xts"
)

// Why a header cannot be worked with.
var (
	// ErrForeign: it is no LUKS 1 header, or one with a cipher that is not AES-XTS.
	ErrForeign = errors.New("luks: not a LUKS 1 header with AES in XTS mode")
	// ErrPassphrase: no key slot opens with the passphrase.
	ErrPassphrase = errors.New("luks: the passphrase opens no key slot")
	// ErrFull: all eight slots are in use.
	ErrFull = errors.New("luks: no key slot is free")
	// ErrLast: with the slot that is to go nothing would open the disk any more.
	ErrLast = errors.New("luks: the last key slot stays")
)

// Header is a LUKS header that is in use, in a file that may hold other things too.
type Header struct {
	File   File
	Offset int64 // of the header in the file
	Room   int64 // bytes that belong to it
}

// File is where a header is.
type File interface {
	io.ReaderAt
	io.WriterAt
	Sync() error
}

var hashes = map[string]func() hash.Hash{"sha1": sha1.New, "sha256": sha256.New, "sha512": sha512.New}

// read reads the header and sees that all that it points at is within its room.
func (h Header) read() (partition, func() hash.Hash, error) {
	var p partition
	err := binary.Read(io.NewSectionReader(h.File, h.Offset, h.Room), binary.BigEndian, &p)
	if err != nil {
		return p, nil, fmt.Errorf("luks: header: %w", err)
	}
	newHash := hashes[text(p.Hash[:])]
	if p.Magic != magic || p.Version != version || text(p.Cipher[:]) != Cipher || text(p.Mode[:]) != Mode ||
		newHash == nil || p.KeyBytes != 32 && p.KeyBytes != 64 {
		return p, nil, ErrForeign
	}
	if err := p.affordable(); err != nil {
		return p, nil, err
	}
	for i, s := range p.Slots {
		end := int64(s.Sector)*sectorSize + p.materialBytes(i)
		if s.Sector == 0 || s.Stripes == 0 || s.Stripes > mostStripes || end > h.Room {
			return p, nil, fmt.Errorf("%w: key slot %d", ErrForeign, i)
		}
	}
	return p, newHash, nil
}

func text(field []byte) string {
	value, _, _ := bytes.Cut(field, []byte{0})
	return string(value)
}

// materialBytes is the size of a slot's key material on disk.
func (p partition) materialBytes(i int) int64 {
	return int64(p.KeyBytes) * int64(p.Slots[i].Stripes)
}

// Slots gives the numbers of the active key slots.
func (h Header) Slots() ([]int, error) {
	p, _, err := h.read()
	if err != nil {
		return nil, err
	}
	return p.active(), nil
}

func (p partition) active() []int {
	var out []int
	for i, s := range p.Slots {
		if s.State == slotActive {
			out = append(out, i)
		}
	}
	return out
}

// unlock gives the master key if the passphrase opens the slot, ErrPassphrase if not.
func (h Header) unlock(p partition, i int, passphrase []byte, newHash func() hash.Hash) ([]byte, error) {
	material := make([]byte, p.materialBytes(i))
	defer clear(material)
	if _, err := h.File.ReadAt(material, h.Offset+int64(p.Slots[i].Sector)*sectorSize); err != nil {
		return nil, fmt.Errorf("luks: key material: %w", err)
	}
	if err := crypt(material, passphrase, p.Slots[i], int(p.KeyBytes), newHash, (*xts.Cipher).Decrypt); err != nil {
		return nil, err
	}
	master := merge(material, int(p.KeyBytes), newHash)
	digest := stretch(master, p.DigestSalt[:], int(p.DigestIterations), digestBytes, newHash)
	if subtle.ConstantTimeCompare(digest, p.Digest[:]) != 1 {
		clear(master)
		return nil, ErrPassphrase
	}
	return master, nil
}
