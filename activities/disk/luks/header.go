package luks

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"io"

	"github.com/google/uuid"
	"golang.org/x/crypto/xts"
)

// What every header of this package says.
const (
	Cipher   = "aes"
	Mode     = "xts-plain64"
	Hash     = "sha256"
	KeyBytes = 64 // two AES-256 keys
)

// The layout: a partition header, then the key material of eight slots, each
// at a page's boundary, then the payload.
const (
	sectorSize    = 512
	slots         = 8
	stripes       = 4000
	firstSlot     = 4096 / sectorSize
	slotSectors   = 504 // KeyBytes*stripes, rounded up to a page
	payloadSector = firstSlot + slots*slotSectors

	// Bytes is how much room a header takes.
	Bytes = payloadSector * sectorSize
)

const (
	version      = 1
	slotActive   = 0x00AC71F3
	slotDisabled = 0x0000DEAD
	digestBytes  = 20
	saltBytes    = 32
)

var magic = [6]byte{'L', 'U', 'K', 'S', 0xba, 0xbe}

// partition is the first structure on disk, big endian.
type partition struct {
	Magic            [6]byte
	Version          uint16
	Cipher           [32]byte
	Mode             [32]byte
	Hash             [32]byte
	PayloadSector    uint32
	KeyBytes         uint32
	Digest           [digestBytes]byte
	DigestSalt       [saltBytes]byte
	DigestIterations uint32
	UUID             [40]byte
	Slots            [slots]slot
}

type slot struct {
	State      uint32
	Iterations uint32
	Salt       [saltBytes]byte
	Sector     uint32
	Stripes    uint32
}

// Write writes a header with a new random master key that the passphrase opens.
// Whatever was encrypted under an earlier header there is lost: it is for disks
// that hold nothing yet.
func Write(w io.WriterAt, offset int64, passphrase []byte) error {
	master := make([]byte, KeyBytes)
	defer clear(master)
	_, _ = rand.Read(master) // never fails
	return writeHeader(w, offset, master, passphrase)
}

func writeHeader(w io.WriterAt, offset int64, master, passphrase []byte) error {
	p := newPartition(master, Rounds(passphrase))
	material, err := keyMaterial(master, passphrase, p.Slots[0], sha256.New)
	if err != nil {
		return err
	}
	var header bytes.Buffer
	if err := binary.Write(&header, binary.BigEndian, p); err != nil {
		return err
	}
	// The key material first: a header that names a slot has it.
	if _, err := w.WriteAt(material, offset+int64(p.Slots[0].Sector)*sectorSize); err != nil {
		return fmt.Errorf("luks: key material: %w", err)
	}
	if _, err := w.WriteAt(header.Bytes(), offset); err != nil {
		return fmt.Errorf("luks: header: %w", err)
	}
	return nil
}

func newPartition(master []byte, rounds int) partition {
	p := partition{
		Magic: magic, Version: version, PayloadSector: payloadSector, KeyBytes: KeyBytes, DigestIterations: roundsOfRandom,
	}
	copy(p.Cipher[:], Cipher)
	copy(p.Mode[:], Mode)
	copy(p.Hash[:], Hash)
	copy(p.UUID[:], uuid.NewString())
	_, _ = rand.Read(p.DigestSalt[:])
	copy(p.Digest[:], stretch(master, p.DigestSalt[:], roundsOfRandom, digestBytes, sha256.New))
	for i := range p.Slots {
		p.Slots[i] = slot{State: slotDisabled, Sector: uint32(firstSlot + i*slotSectors), Stripes: stripes}
	}
	p.Slots[0].State, p.Slots[0].Iterations = slotActive, uint32(rounds)
	_, _ = rand.Read(p.Slots[0].Salt[:])
	return p
}

// keyMaterial is the master key, split against forensics and encrypted with a
// key from the passphrase.
func keyMaterial(master, passphrase []byte, s slot, newHash func() hash.Hash) ([]byte, error) {
	material := split(master, int(s.Stripes), newHash)
	err := crypt(material, passphrase, s, len(master), newHash, (*xts.Cipher).Encrypt)
	return material, err
}

// crypt encrypts or decrypts key material, in place.
func crypt(material, passphrase []byte, s slot, keyBytes int, newHash func() hash.Hash,
	do func(c *xts.Cipher, to, from []byte, sector uint64),
) error {
	derived := stretch(passphrase, s.Salt[:], int(s.Iterations), keyBytes, newHash)
	defer clear(derived)
	cipher, err := xts.NewCipher(newAES, derived)
	if err != nil {
		return fmt.Errorf("luks: %w", err)
	}
	for sector := 0; sector*sectorSize < len(material); sector++ {
		block := material[sector*sectorSize : min((sector+1)*sectorSize, len(material))]
		do(cipher, block, block, uint64(sector))
	}
	return nil
}
