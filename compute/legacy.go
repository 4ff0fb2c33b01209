package compute

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// DMCrypt is how the kernel encrypts a volume: a new one of the format luksv2 or plain, or one that the legacy
// implementation made in plain mode, with one key for all disks of a server.
type DMCrypt struct {
	Cipher  string // in dm-crypt's words, cipher-mode-ivmode
	KeySize int    // bits; XTS uses half of them for each of its two keys
	Hash    string // by which cryptsetup made the key of the passphrase
}

// DefaultLegacyEncryption is what hosts used that were not configured otherwise. Nova named
// no hash: it is the one that cryptsetup had by default in plain mode, up to 2.6; since 2.7
// that is sha256.
var DefaultLegacyEncryption = DMCrypt{Cipher: "aes-xts-plain64", KeySize: 512, Hash: "ripemd160"}

var (
	dmCipher = regexp.MustCompile(`^[a-z0-9_]+-[a-z0-9_]+-[a-z0-9_:]+$`)
	dmHash   = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*$`)
)

// String is in cryptsetup's words.
func (l DMCrypt) String() string {
	return fmt.Sprintf("cipher %s, key size %d and hash %s", l.Cipher, l.KeySize, l.Hash)
}

// ForgivesIV reports whether a wrong IV mode leaves all but the first block of each sector
// readable, as it does in CBC and CFB.
func (l DMCrypt) ForgivesIV() bool {
	_, mode, _ := strings.Cut(l.Cipher, "-")
	return strings.HasPrefix(mode, "cbc-") || strings.HasPrefix(mode, "cfb-")
}

// DMCryptOf reads the options that Options gave, or a host for a disk that it made.
// Corrupt: they do not say how to open it.
func DMCryptOf(options map[string]string) (DMCrypt, error) {
	at := strings.LastIndex(options["cipher-alg"], "-")
	size, err := strconv.Atoi(options["key-size"])
	if at < 0 || err != nil {
		return DMCrypt{}, Errorf(Corrupt, "its encryption options have no cipher and key size")
	}
	l := DMCrypt{
		Cipher:  options["cipher-alg"][:at] + "-" + options["cipher-mode"] + "-" + options["ivgen-alg"],
		KeySize: size, Hash: options["hash-alg"],
	}
	if _, err := l.Options(); err != nil {
		return l, Errorf(Corrupt, "its encryption options: %w", err)
	}
	return l, nil
}

// Options gives the encryption options of a disk (EE-08), in QEMU's words where it
// has them. Invalid: a cipher, a key size or a hash that cryptsetup would not understand.
func (l DMCrypt) Options() (map[string]string, error) {
	parts := strings.SplitN(l.Cipher, "-", 3)
	if !dmCipher.MatchString(l.Cipher) {
		return nil, Errorf(Invalid, "legacy.cipher %q: it must be cipher-mode-ivmode, like aes-xts-plain64", l.Cipher)
	}
	bits := l.KeySize
	if parts[1] == "xts" {
		bits /= 2
	}
	if bits < 64 || bits%8 != 0 {
		return nil, Errorf(Invalid, "legacy.key_size %d: it must be the key's size in bits, like 512", l.KeySize)
	}
	if !dmHash.MatchString(l.Hash) {
		return nil, Errorf(Invalid, "legacy.hash %q: it must be the name of a hash, like ripemd160 or sha256", l.Hash)
	}
	return map[string]string{
		"format": string(FormatPlain), "key-size": strconv.Itoa(l.KeySize), "hash-alg": l.Hash, // as hosts say of their plain disks
		"cipher-alg": parts[0] + "-" + strconv.Itoa(bits), "cipher-mode": parts[1], "ivgen-alg": parts[2],
	}, nil
}

// WithLegacyKey gives a server's disks with the one key that they had together
// (EE-35). A disk whose own options are on record, as an import writes them, keeps them
// (EE-42); options is for the others. Conflict: a disk has another key or format, or there
// is no disk.
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
		d.Encrypted, d.Secret, d.Format = true, &key, FormatPlain
		if len(d.EncryptionOptions) == 0 {
			d.EncryptionOptions = options
		}
		out[i] = d
	}
	return out, nil
}
