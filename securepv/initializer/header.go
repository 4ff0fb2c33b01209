package initializer

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

// The layout of a LUKS2 header: two copies of the metadata, each a block and a text of JSON, then
// the key slots. Source: LUKS2 On-Disk Format Specification 1.1.4.
const (
	blockBytes    = 4096
	metadataBytes = 16 << 10 // of one copy; cryptsetup's default
	headerBytes   = 16 << 20 // cryptsetup's default; where the data begin
	materialBytes = 96 * 4000
)

var (
	magic       = [6]byte{'L', 'U', 'K', 'S', 0xba, 0xbe}
	secondMagic = [6]byte{'S', 'K', 'U', 'L', 0xba, 0xbe}
)

// block is how a copy of the metadata begins, big endian.
type block struct {
	Magic       [6]byte
	Version     uint16
	Bytes       uint64
	Sequence    uint64
	Label       [48]byte
	Checksum    [32]byte
	Salt        [64]byte
	UUID        [40]byte
	Subsystem   [48]byte
	Offset      uint64
	Padding     [184]byte
	Sum         [64]byte
	PaddingTo4K [7 * 512]byte
}

const sumAt = 448

// header is one that was read: its metadata, and the whole of it with both copies alike.
type header struct {
	uuid     string
	sequence uint64
	slot     string   // the number of the one key slot
	area     [2]int64 // its key material: from, bytes
	argon2id bool
	copies   []byte // both copies of the metadata, alike
	damaged  bool   // one of those that were read was not as it is here
}

// parseHeader takes the newer of the two copies whose checksum is right, as cryptsetup does, and
// checks it. An interrupted change of the header leaves one that is older, or damaged.
func parseHeader(copies []byte) (*header, error) {
	if len(copies) < 2*metadataBytes {
		return nil, fmt.Errorf("LUKS2 header: it ends after %d bytes", len(copies))
	}
	copies = bytes.Clone(copies[:2*metadataBytes])
	first, firstErr := readBlock(copies, magic, 0)
	second, secondErr := readBlock(copies, secondMagic, metadataBytes)
	use, b := copies[:metadataBytes], first
	switch {
	case firstErr != nil && secondErr != nil:
		return nil, fmt.Errorf("LUKS2 header: %w; its second copy: %w", firstErr, secondErr)
	case firstErr != nil, secondErr == nil && second.Sequence > first.Sequence:
		use, b = copies[metadataBytes:], second
	}
	area := bytes.Clone(use[blockBytes:])
	text, _, _ := bytes.Cut(area, []byte{0})
	h := &header{uuid: string(bytes.TrimRight(b.UUID[:], "\x00")), sequence: b.Sequence, copies: copies}
	if err := h.check(text); err != nil {
		return nil, fmt.Errorf("LUKS2 header: %w", err)
	}
	h.damaged = firstErr != nil || secondErr != nil || first.Sequence != second.Sequence ||
		!bytes.Equal(copies[blockBytes:metadataBytes], copies[metadataBytes+blockBytes:])
	if h.damaged {
		writeBlock(copies, b, magic, 0, area)
		writeBlock(copies, b, secondMagic, metadataBytes, area)
	}
	return h, nil
}

// readBlock reads a copy of the metadata and its checksum.
func readBlock(image []byte, want [6]byte, at int64) (b block, err error) {
	copyBytes := image[at : at+metadataBytes]
	if err := binary.Read(bytes.NewReader(copyBytes), binary.BigEndian, &b); err != nil {
		return b, err
	}
	switch {
	case b.Magic != want:
		return b, errors.New("it does not begin as one")
	case b.Version != 2:
		return b, fmt.Errorf("its version is %d, not 2", b.Version)
	case b.Bytes != metadataBytes:
		return b, fmt.Errorf("its metadata have %d bytes, not %d", b.Bytes, metadataBytes)
	case b.Offset != uint64(at):
		return b, fmt.Errorf("it says that it is at %d, and is at %d", b.Offset, at)
	case string(bytes.TrimRight(b.Checksum[:], "\x00")) != "sha256":
		return b, errors.New("its checksum is no sha256")
	case sumOf(copyBytes) != [32]byte(b.Sum[:32]):
		return b, errors.New("its checksum is wrong: it was damaged or changed")
	}
	return b, nil
}

func sumOf(copyBytes []byte) [32]byte {
	all := bytes.Clone(copyBytes)
	clear(all[sumAt : sumAt+64])
	return sha256.Sum256(all)
}

func writeBlock(image []byte, b block, as [6]byte, at int64, area []byte) {
	b.Magic, b.Offset, b.Sum = as, uint64(at), [64]byte{}
	var head bytes.Buffer
	_ = binary.Write(&head, binary.BigEndian, b) // of fixed size
	copy(image[at:], head.Bytes())
	copy(image[at+blockBytes:at+metadataBytes], area)
	sum := sumOf(image[at : at+metadataBytes])
	copy(image[at+sumAt:], sum[:])
}

// metadata is the JSON of a header that the initializer makes. No other field may be there, nor
// one of these twice or in other letters: cryptsetup might read it otherwise than it is read here.
type metadata struct {
	Keyslots map[string]struct {
		Type    string `json:"type"`
		KeySize int    `json:"key_size"`
		AF      struct {
			Type    string `json:"type"`
			Stripes int    `json:"stripes"`
			Hash    string `json:"hash"`
		} `json:"af"`
		Area struct {
			Type       string `json:"type"`
			Offset     string `json:"offset"`
			Size       string `json:"size"`
			Encryption string `json:"encryption"`
			KeySize    int    `json:"key_size"`
		} `json:"area"`
		KDF kdf `json:"kdf"`
	} `json:"keyslots"`
	Tokens   map[string]struct{} `json:"tokens"`
	Segments map[string]struct {
		Type       string   `json:"type"`
		Offset     string   `json:"offset"`
		Size       string   `json:"size"`
		Flags      []string `json:"flags"`
		IVTweak    string   `json:"iv_tweak"`
		Encryption string   `json:"encryption"`
		SectorSize int      `json:"sector_size"`
		Integrity  struct {
			Type              string `json:"type"`
			JournalEncryption string `json:"journal_encryption"`
			JournalIntegrity  string `json:"journal_integrity"`
			KeySize           int    `json:"key_size"` // of newer releases of cryptsetup
		} `json:"integrity"`
	} `json:"segments"`
	Digests map[string]struct {
		Type       string   `json:"type"`
		Keyslots   []string `json:"keyslots"`
		Segments   []string `json:"segments"`
		Hash       string   `json:"hash"`
		Iterations int      `json:"iterations"`
		Salt       []byte   `json:"salt"`
		Digest     []byte   `json:"digest"`
	} `json:"digests"`
	Config struct {
		JSONSize     string `json:"json_size"`
		KeyslotsSize string `json:"keyslots_size"`
	} `json:"config"`
}

type kdf struct {
	Type       string `json:"type"`
	Time       int    `json:"time"`
	Memory     int    `json:"memory"` // KiB
	CPUs       int    `json:"cpus"`
	Hash       string `json:"hash"`
	Iterations int    `json:"iterations"`
	Salt       []byte `json:"salt"`
}

// What a header may make its reader spend: the container has 100 MiB.
const (
	mostMemory     = 64 << 10 // KiB
	mostTime       = 10_000
	mostIterations = 50_000_000
)

// rule is one thing that must hold of a header.
type rule struct {
	holds bool
	says  string
}

// check compares the metadata with what the initializer makes: whoever keeps the volume may have
// written others, as ones that encrypt nothing.
func (h *header) check(text []byte) error {
	var m metadata
	if err := json.Unmarshal(text, &m, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("its metadata: %w", err)
	}
	if len(m.Keyslots) != 1 || len(m.Segments) != 1 || len(m.Digests) != 1 || len(m.Tokens) != 0 {
		return fmt.Errorf("it has %d key slots, %d segments, %d digests and %d tokens, not 1, 1, 1 and 0",
			len(m.Keyslots), len(m.Segments), len(m.Digests), len(m.Tokens))
	}
	s, d := m.Segments["0"], m.Digests["0"]
	for h.slot = range m.Keyslots {
	}
	k := m.Keyslots[h.slot]
	from, fromErr := strconv.ParseInt(k.Area.Offset, 10, 64)
	size, sizeErr := strconv.ParseInt(k.Area.Size, 10, 64)
	h.area, h.argon2id = [2]int64{from, size}, k.KDF.Type == "argon2id"
	rules := []rule{
		{s.Type == "crypt", "its segment is of the type crypt"},
		{s.Offset == strconv.Itoa(headerBytes) && s.Size == "dynamic", "its segment goes from 16 MiB to the end"},
		{len(s.Flags) == 0, "its segment has no flags"},
		{s.IVTweak == "0", "its segment's iv_tweak is 0"},
		{s.Encryption == "aes-xts-plain64", "its segment is encrypted with aes-xts-plain64"},
		{s.SectorSize == 4096, "its sectors have 4096 bytes"},
		{s.Integrity.Type == "hmac(sha256)", "its integrity is hmac(sha256)"},
		{s.Integrity.JournalEncryption == "none" && s.Integrity.JournalIntegrity == "none", "its journal is not protected again"},
		{s.Integrity.KeySize == 0 || s.Integrity.KeySize == 32, "its integrity key has 32 bytes"},
		{k.Type == "luks2" && k.KeySize == 96, "its key slot is of the type luks2 with a key of 96 bytes"},
		{k.Area.Type == "raw" && k.Area.Encryption == "aes-xts-plain64" && k.Area.KeySize == 64, "its key material is encrypted with aes-xts-plain64"},
		{fromErr == nil && sizeErr == nil && from >= 2*metadataBytes && size >= materialBytes && size <= headerBytes && from+size <= headerBytes, "its key material is in the header"},
		{k.AF.Type == "luks1" && k.AF.Stripes == 4000 && k.AF.Hash == "sha256", "its key material is split in 4000 with sha256"},
		{k.KDF.affordable(), "its key derivation is argon2id or pbkdf2, with a salt and a cost that the container has"},
		{d.Type == "pbkdf2" && d.Hash == "sha256" && d.Iterations > 0 && d.Iterations <= mostIterations && len(d.Salt) > 0 && len(d.Digest) > 0, "its digest is pbkdf2 with sha256"},
		{len(d.Keyslots) == 1 && d.Keyslots[0] == h.slot, "its digest is that of its key slot"},
		{len(d.Segments) == 1 && d.Segments[0] == "0", "its digest is that of its segment"},
		{m.Config.JSONSize == strconv.Itoa(metadataBytes-blockBytes), "its metadata have 12288 bytes"},
		{m.Config.KeyslotsSize == strconv.Itoa(headerBytes-2*metadataBytes), "its key slots have 16744448 bytes"},
	}
	for _, r := range rules {
		if !r.holds {
			return fmt.Errorf("it is none that the initializer makes, for it does not hold that %s", r.says)
		}
	}
	return nil
}

func (k kdf) affordable() bool {
	switch {
	case len(k.Salt) < 16:
		return false
	case k.Type == "argon2id":
		return k.Time > 0 && k.Time <= mostTime && k.Memory > 0 && k.Memory <= mostMemory && k.CPUs > 0 && k.CPUs <= 4 && k.Hash == "" && k.Iterations == 0
	case k.Type == "pbkdf2":
		return k.Hash == "sha256" && k.Iterations > 0 && k.Iterations <= mostIterations && k.Time == 0 && k.Memory == 0 && k.CPUs == 0
	}
	return false
}

// opened reports whether a mapping is of a header.
func (h *header) opened(m *Mapping) bool { return m.UUID == strings.ReplaceAll(h.uuid, "-", "") }

// hasMagic reports whether a volume's beginning is that of a LUKS header, or of a second copy.
func hasMagic(begin []byte) bool {
	return bytes.HasPrefix(begin, magic[:]) || len(begin) > metadataBytes && bytes.HasPrefix(begin[metadataBytes:], secondMagic[:])
}

// device is what headers are written to.
type device interface {
	io.WriterAt
	Sync() error
}

// write writes a header: first its key material, then the second copy of its metadata, then the
// first, whose first block comes last. So at any time a reader finds this header or what was there.
func (h *header) write(to device, material []byte, step func(string)) error {
	parts := []struct {
		what string
		part []byte
		at   int64
	}{
		{"key material", material, h.area[0]},
		{"second copy", h.copies[metadataBytes:], metadataBytes},
		{"first copy but for its first block", h.copies[blockBytes:metadataBytes], blockBytes},
		{"first block", h.copies[:blockBytes], 0},
	}
	for _, p := range parts {
		if len(p.part) == 0 {
			continue
		}
		if err := writeSync(to, p.part, p.at); err != nil {
			return fmt.Errorf("write %s of the header: %w", p.what, err)
		}
		step(p.what)
	}
	return nil
}

func writeSync(to device, part []byte, at int64) error {
	if _, err := to.WriteAt(part, at); err != nil {
		return err
	}
	return to.Sync()
}
