package disk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"strongroom/activities/disk/luks"
	"strongroom/activities/secret"
	"strongroom/compute"
)

// How volumes are encrypted that are made here. Those of the format plain have no header
// that says so: the options of their disk do, which stay with it (EE-42).
const (
	deviceCipher  = "aes-xts-plain64"
	deviceKeyBits = 512
	plainHash     = "ripemd160"
)

const luks2Header = compute.HeaderLUKS2MB * mib

// mappingFolder is where the device mapper's devices are.
const mappingFolder = "/dev/mapper/"

// mappingSuffix makes a mapping's name of its volume's, as Nova did.
const mappingSuffix = "-dmcrypt"

func (v volume) mapping() string { return v.name + mappingSuffix }

func (v volume) opened() string { return mappingFolder + v.mapping() }

func (v volume) isOpen() bool {
	_, err := os.Lstat(v.opened())
	return err == nil
}

// The exit codes of cryptsetup that are looked at.
const (
	cryptsetupWrongKey = 2
	cryptsetupNone     = 4
	cryptsetupBusy     = 5
)

func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

func (a *Activities) cryptsetup(ctx context.Context, args ...string) ([]byte, error) {
	return a.Runner.Run(ctx, Command{Name: "cryptsetup", Args: args})
}

// formatVolume writes the header of a LUKS2 volume. As for LUKS1 a random passphrase
// needs no long hashing. Sectors of 512 bytes are what images are made for.
func (a *Activities) formatVolume(ctx context.Context, v volume, key *secret.Passphrase) error {
	rounds, err := roundsOf(key)
	if err != nil {
		return err
	}
	_, err = a.Runner.Run(ctx, Command{
		Name: "cryptsetup",
		Args: []string{
			"luksFormat", "--batch-mode", "--type", "luks2", "--cipher", deviceCipher, "--key-size", strconv.Itoa(deviceKeyBits),
			"--sector-size", "512", "--offset", strconv.Itoa(luks2Header / 512),
			"--hash", luks.Hash, "--pbkdf", "pbkdf2", "--pbkdf-force-iterations", strconv.Itoa(rounds), "--key-file", fd(0), v.path(),
		},
		Passphrases: []*secret.Passphrase{key},
	})
	return err
}

// tryKey sees that a passphrase opens a LUKS2 volume.
func (a *Activities) tryKey(ctx context.Context, v volume, key *secret.Passphrase) error {
	_, err := a.Runner.Run(ctx, Command{
		Name:        "cryptsetup",
		Args:        []string{"open", "--test-passphrase", "--type", "luks2", "--key-file", fd(0), v.path()},
		Passphrases: []*secret.Passphrase{key},
	})
	return err
}

// encryptionOf is how a disk that is a volume is encrypted: as its options say, wherever
// they are on record.
func encryptionOf(d compute.Disk) (compute.DMCrypt, error) {
	if len(d.EncryptionOptions) == 0 { // it is being made
		return compute.DMCrypt{Cipher: deviceCipher, KeySize: deviceKeyBits, Hash: plainHash}, nil
	}
	return compute.DMCryptOf(d.EncryptionOptions)
}

// openPlain opens a volume of the format plain. The passphrase comes by standard input:
// cryptsetup hashes no key that comes from a file.
func openPlain(v volume, mapping string, how compute.DMCrypt, key *secret.Passphrase, more ...string) Command {
	args := append([]string{"open", "--type", "plain", "--cipher", how.Cipher, "--key-size", strconv.Itoa(how.KeySize), "--hash", how.Hash,
		"--key-file", "-"}, more...)
	return Command{Name: "cryptsetup", Args: append(args, v.path(), mapping), Stdin: key}
}

// openMapping ensures that a disk's volume is open, as the disk's options say. Conflict:
// the mapping of its name is that of something else; Corrupt: it does not open with the
// passphrase, which of a plain volume only one that was taken over can tell
// (checkContent).
func (a *Activities) openMapping(ctx context.Context, v volume, d compute.Disk, key *secret.Passphrase) error {
	how, err := encryptionOf(d)
	if err != nil {
		return err
	}
	m, err := a.mappingOf(ctx, v)
	if err != nil {
		return err
	}
	if v.unchecked {
		if m.InUse {
			return compute.Errorf(compute.Conflict, "volume %s is in use, and what is in it was never looked at", v)
		}
		if err := a.checkContent(ctx, v, d, how, key); err != nil {
			return err
		}
		m = mapping{}
	}
	if m.Open {
		if err := m.check(v, d.Format, how); err != nil || d.Format != compute.FormatLUKSv2 {
			return err
		}
		return wrongKey(v, a.tryKey(ctx, v, key)) // only who has the key may have it
	}
	c := openPlain(v, v.mapping(), how, key)
	if d.Format == compute.FormatLUKSv2 {
		c = Command{Name: "cryptsetup", Args: []string{"open", "--type", "luks2", "--key-file", fd(0), v.path(), v.mapping()},
			Passphrases: []*secret.Passphrase{key}}
	}
	_, err = a.Runner.Run(ctx, c)
	return wrongKey(v, err)
}

// wrongKey gives the failure to open a volume its kind.
func wrongKey(v volume, err error) error {
	if exitCode(err) == cryptsetupWrongKey || says(err, "is not a valid LUKS device") {
		return compute.Errorf(compute.Corrupt, "volume %s: the passphrase does not open it: %w", v, err)
	}
	return err
}

// mapping is what the kernel has open for a volume.
type mapping struct {
	Open    bool
	InUse   bool
	Type    string // LUKS2, PLAIN
	Cipher  string
	KeyBits string
	Device  string // what is decrypted
}

// mappingOf looks at the mapping of a volume. One without a table, or without a device file, is what a
// killed cryptsetup left: nobody has it open, and it is removed.
func (a *Activities) mappingOf(ctx context.Context, v volume) (m mapping, err error) {
	if !v.isOpen() {
		return m, a.dropMapping(ctx, v)
	}
	out, err := a.cryptsetup(ctx, "status", v.mapping())
	if exitCode(err) == cryptsetupNone {
		return m, a.dropMapping(ctx, v)
	}
	if err != nil {
		return m, err
	}
	m.Open, m.InUse = true, strings.Contains(string(out), "is active and is in use")
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); strings.TrimSpace(name) {
		case "type":
			m.Type = value
		case "cipher":
			m.Cipher = value
		case "keysize":
			m.KeyBits = strings.TrimSuffix(value, " bits")
		case "device":
			m.Device = value
		}
	}
	return m, nil
}

// dropMapping ensures that there is no mapping of a volume's name, where cryptsetup has none open or it has no
// device file.
func (a *Activities) dropMapping(ctx context.Context, v volume) error {
	_, err := a.Runner.Run(ctx, Command{Name: "dmsetup", Args: []string{"remove", v.mapping()}})
	if says(err, "No such device or address") {
		return nil
	}
	return err
}

// check compares a mapping with what it is to be.
func (m mapping) check(v volume, format compute.DiskFormat, how compute.DMCrypt) error {
	kind := map[compute.DiskFormat]string{compute.FormatLUKSv2: "LUKS2", compute.FormatPlain: "PLAIN"}[format]
	switch {
	case m.Type != kind, m.Cipher != how.Cipher, m.KeyBits != strconv.Itoa(how.KeySize):
		return compute.Errorf(compute.Conflict, "volume %s is open as %s %s with %s bits", v, m.Type, m.Cipher, m.KeyBits)
	case !sameDevice(m.Device, v.path()):
		return compute.Errorf(compute.Conflict, "%s is the mapping of %s", v.opened(), m.Device)
	}
	return nil
}

// sameDevice reports whether two paths lead to one block device.
func sameDevice(a, b string) bool {
	number := func(path string) (uint64, bool) {
		info, err := os.Stat(path)
		if err != nil {
			return 0, false
		}
		s, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return 0, false
		}
		return s.Rdev, true
	}
	x, xok := number(a)
	y, yok := number(b)
	return xok && yok && x == y
}

const (
	closePatience = 5 * time.Second
	closePoll     = 100 * time.Millisecond
)

// closeMapping ensures that a volume is not open. What had it open may take a moment
// to let it go; Conflict: it does not.
func (a *Activities) closeMapping(ctx context.Context, v volume) error {
	for begin := time.Now(); v.isOpen(); {
		_, err := a.cryptsetup(ctx, "close", v.mapping())
		switch {
		case err == nil:
			return nil
		case exitCode(err) == cryptsetupNone:
			return a.dropMapping(ctx, v)
		case exitCode(err) != cryptsetupBusy || ctx.Err() != nil:
			return err
		case time.Since(begin) > closePatience:
			return compute.Errorf(compute.Conflict, "volume %s is in use", v)
		}
		time.Sleep(closePoll)
	}
	return a.dropMapping(ctx, v)
}

// deviceOptions gives the encryption options that an open volume was really made
// with: as its header has them, and where there is none as the kernel has.
func (a *Activities) deviceOptions(ctx context.Context, v volume, d compute.Disk) (map[string]string, error) {
	if d.Format == compute.FormatPlain {
		how, err := encryptionOf(d)
		if err != nil {
			return nil, err
		}
		m, err := a.mappingOf(ctx, v)
		if err != nil {
			return nil, err
		}
		return cipherOptions(d.Format, m.Cipher, m.KeyBits, map[string]string{"hash-alg": how.Hash}), nil
	}
	out, err := a.cryptsetup(ctx, "luksDump", "--dump-json-metadata", v.path())
	if err != nil {
		return nil, err
	}
	return luks2Options(out)
}

// luks2Options reads a LUKS2 header's metadata.
func luks2Options(metadata []byte) (map[string]string, error) {
	var doc struct {
		Slots map[string]struct {
			KeyBytes int `json:"key_size"`
			KDF      struct {
				Type       string `json:"type"`
				Hash       string `json:"hash"`
				Iterations int    `json:"iterations"`
			} `json:"kdf"`
		} `json:"keyslots"`
		Segments map[string]struct {
			Encryption string `json:"encryption"`
			SectorSize int    `json:"sector_size"`
		} `json:"segments"`
	}
	if err := json.Unmarshal(metadata, &doc); err != nil {
		return nil, fmt.Errorf("output of cryptsetup luksDump: %w", err)
	}
	for _, s := range doc.Slots {
		return cipherOptions(compute.FormatLUKSv2, doc.Segments["0"].Encryption, strconv.Itoa(s.KeyBytes*8), map[string]string{
			"sector-size": strconv.Itoa(doc.Segments["0"].SectorSize),
			"pbkdf":       s.KDF.Type, "hash-alg": s.KDF.Hash, "iterations": strconv.Itoa(s.KDF.Iterations),
		}), nil
	}
	return nil, compute.Errorf(compute.Corrupt, "a LUKS2 header with no key slot")
}

// cipherOptions puts a cipher as the kernel names it into QEMU's words, which all
// disks' options have. XTS takes two keys.
func cipherOptions(format compute.DiskFormat, cipher, keyBits string, more map[string]string) map[string]string {
	parts := append(strings.SplitN(cipher, "-", 3), "", "")
	bits, _ := strconv.Atoi(keyBits) // 0 shows as that
	if parts[1] == "xts" {
		bits /= 2
	}
	more["format"], more["key-size"] = string(format), keyBits
	more["cipher-alg"], more["cipher-mode"], more["ivgen-alg"] = parts[0]+"-"+strconv.Itoa(bits), parts[1], parts[2]
	return more
}
