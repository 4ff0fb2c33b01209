package compute

import (
	"strconv"
	"strings"
)

// LegacyEncryption is how hosts were set up to encrypt disks before each disk had a
// key of its own: dm-crypt in plain mode, one key for all disks of a server.
type LegacyEncryption struct {
	Cipher  string // in dm-crypt's words, cipher-mode-ivmode
	KeySize int    // bits; XTS uses half of them for each of its two keys
}

// DefaultLegacyEncryption is what hosts used that were not configured otherwise.
var DefaultLegacyEncryption = LegacyEncryption{Cipher: "aes-xts-plain64", KeySize: 512}

// Options gives the encryption options of a disk (EE-08), in QEMU's words where it
// has them. Invalid: a cipher or a key size that dm-crypt would not understand.
func (l LegacyEncryption) Options() (map[string]string, error) {
	parts := strings.SplitN(l.Cipher, "-", 3)
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return nil, Errorf(Invalid, "legacy.cipher %q: it must be cipher-mode-ivmode, like aes-xts-plain64", l.Cipher)
	}
	bits := l.KeySize
	if parts[1] == "xts" {
		bits /= 2
	}
	if bits < 64 || bits%8 != 0 {
		return nil, Errorf(Invalid, "legacy.key_size %d: it must be the key's size in bits, like 512", l.KeySize)
	}
	return map[string]string{
		"format": string(FormatPlain), "key-size": strconv.Itoa(l.KeySize), "hash-alg": "ripemd160", // as hosts say of their plain disks
		"cipher-alg": parts[0] + "-" + strconv.Itoa(bits), "cipher-mode": parts[1], "ivgen-alg": parts[2],
	}, nil
}

// WithLegacyKey gives a server's disks with the one key that they had together
// (EE-35). Disks that have it already stay as they are. Conflict: a disk has
// another key or format, or there is no disk.
func (s Server) WithLegacyKey(key SecretID, options map[string]string) ([]Disk, error) {
	if len(s.Disks) == 0 {
		return nil, Errorf(Conflict, "server %s has a legacy key and no local disk", s.ID)
	}
	out := make([]Disk, len(s.Disks))
	for i, d := range s.Disks {
		switch {
		case d.Secret != nil && *d.Secret != key:
			return nil, Errorf(Conflict, "disk %s of server %s has a key of its own beside the server's legacy key", diskLabel(d), s.ID)
		case d.Encrypted && d.Format != FormatNone && d.Format != FormatPlain:
			return nil, Errorf(Conflict, "disk %s of server %s is encrypted as %s, which the legacy key cannot open", diskLabel(d), s.ID, d.Format)
		}
		d.Encrypted, d.Secret, d.Format, d.EncryptionOptions = true, &key, FormatPlain, options
		out[i] = d
	}
	return out, nil
}
