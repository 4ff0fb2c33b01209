package initializer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"strongroom/activities/secret"
)

// Kernel opens volumes. Headers are in memory (newMemory).
type Kernel interface {
	// Name gives the name that a device's mapping has, of whichever path that device is reached.
	Name(device string) (string, error)
	// Mappings gives what is open on a device, the topmost first.
	Mappings(device string) ([]Mapping, error)
	// Format makes a header in memory for a device, and prepares the device for it, on which
	// everything before this comes to be of no value.
	Format(ctx context.Context, device string, header *os.File, key *secret.Passphrase, kdf KDF) error
	// Open opens a device with a header. ErrWrongKey.
	Open(ctx context.Context, device string, header *os.File, name string, key *secret.Passphrase) error
	// Close closes a mapping and what is below it. ErrBusy.
	Close(ctx context.Context, name string) error
	// CloseLater has the kernel close it as soon as nothing uses it any more.
	CloseLater(ctx context.Context, name string) error
	// Keep takes a CloseLater back. It may have come to pass.
	Keep(ctx context.Context, name string) error
}

// Mapping is an open volume, or a part of one that was not opened to the end.
type Mapping struct {
	Name string
	Path string // of the block device that it is
	UUID string // of the header that it was opened with, "" for a part
}

// KDF is how a passphrase is made dear to guess.
type KDF string

// The key derivations. PBKDF2 is fast, and for random keys of 32 bytes alone, which nobody guesses.
const (
	Argon2id KDF = "argon2id"
	PBKDF2   KDF = "pbkdf2"
)

// Fits sees that a workload's secret is one for a key derivation.
func (k KDF) Fits(seed *secret.Passphrase) error {
	if k == PBKDF2 && !isRandom(seed) {
		return errors.New("the key derivation pbkdf2 is for secrets of 32 random bytes, in hexadecimal digits; this one is another: use argon2id")
	}
	return nil
}

// argon2KiB is the memory of Argon2id: what the container has left.
const argon2KiB = 10 << 10

// args are cryptsetup's.
func (k KDF) args() []string {
	if k == PBKDF2 {
		return []string{"--pbkdf", "pbkdf2", "--hash", "sha256", "--pbkdf-force-iterations", "1000"}
	}
	return []string{"--pbkdf", "argon2id", "--pbkdf-memory", strconv.Itoa(argon2KiB), "--pbkdf-parallel", "1"}
}

// DeviceMapper is the kernel's, which cryptsetup drives.
type DeviceMapper struct{}

var _ Kernel = DeviceMapper{}

const mapperFolder = "/dev/mapper/"

// Name is made of the device's number, which a container that is started again has under the same
// or another path.
func (DeviceMapper) Name(device string) (string, error) {
	number, err := blockNumber(device)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("strongroom-pv-%d-%d", unix.Major(number), unix.Minor(number)), nil
}

func blockNumber(device string) (uint64, error) {
	var s unix.Stat_t
	if err := unix.Stat(device, &s); err != nil {
		return 0, &fs.PathError{Op: "stat", Path: device, Err: err}
	}
	if s.Mode&unix.S_IFMT != unix.S_IFBLK {
		return 0, fmt.Errorf("%s: it is no block device: has its PersistentVolumeClaim volumeMode Block?", device)
	}
	return s.Rdev, nil
}

// Mappings implements Kernel.
func (DeviceMapper) Mappings(device string) ([]Mapping, error) {
	number, err := blockNumber(device)
	if err != nil {
		return nil, err
	}
	return holders(filepath.Join("/sys/dev/block", fmt.Sprintf("%d:%d", unix.Major(number), unix.Minor(number))))
}

func holders(of string) (all []Mapping, err error) {
	entries, err := os.ReadDir(filepath.Join(of, "holders"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // a partition of a kernel that has no such folder for it
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		dir := filepath.Join("/sys/class/block", e.Name())
		above, err := holders(dir)
		if err != nil {
			return nil, err
		}
		m, err := mappingAt(dir)
		if err != nil {
			return nil, err
		}
		all = append(append(all, above...), m)
	}
	return all, nil
}

// mappingAt reads what the kernel says of a mapping. A container that was started again has a new
// /dev, so its node may have to be made.
func mappingAt(dir string) (m Mapping, err error) {
	var text [3]string
	for i, file := range []string{"dm/name", "dm/uuid", "dev"} {
		b, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return m, err
		}
		text[i] = strings.TrimSpace(string(b))
	}
	m.Name, m.Path = text[0], mapperFolder+text[0]
	if rest, ok := strings.CutPrefix(text[1], "CRYPT-LUKS2-"); ok {
		m.UUID, _, _ = strings.Cut(rest, "-")
	}
	if _, err := os.Stat(m.Path); !errors.Is(err, fs.ErrNotExist) {
		return m, err
	}
	major, minor, _ := strings.Cut(text[2], ":")
	x, xErr := strconv.ParseUint(major, 10, 32)
	y, yErr := strconv.ParseUint(minor, 10, 32)
	if err := errors.Join(xErr, yErr, os.MkdirAll(mapperFolder, 0o755)); err != nil {
		return m, err
	}
	err = unix.Mknod(m.Path, unix.S_IFBLK|0o600, int(unix.Mkdev(uint32(x), uint32(y))))
	if errors.Is(err, unix.EEXIST) {
		err = nil
	}
	return m, err
}

// Format implements Kernel. Without a wipe, which takes hours on a large volume, blocks that were
// never written cannot be read.
func (DeviceMapper) Format(ctx context.Context, device string, header *os.File, key *secret.Passphrase, kdf KDF) error {
	args := []string{
		"luksFormat", "--batch-mode", "--type", "luks2", "--cipher", "aes-xts-plain64", "--key-size", "512",
		"--integrity", "hmac-sha256", "--integrity-no-wipe", "--sector-size", "4096",
		"--header", fd(0), "--offset", strconv.Itoa(headerBytes / 512), "--key-file", fd(1),
	}
	return cryptsetup(ctx, header, []*secret.Passphrase{key}, append(append(args, kdf.args()...), device)...)
}

// Open implements Kernel. dm-integrity sees that a device has grown when it is opened, and has the
// new room the next time.
func (k DeviceMapper) Open(ctx context.Context, device string, header *os.File, name string, key *secret.Passphrase) error {
	if err := k.open(ctx, device, header, name, key); err != nil {
		return err
	}
	grown, err := hasGrown(device, name)
	if err != nil || !grown {
		return err
	}
	if err := patiently(ctx, func() error { return k.Close(ctx, name) }); err != nil {
		return err
	}
	return k.open(ctx, device, header, name, key)
}

func (DeviceMapper) open(ctx context.Context, device string, header *os.File, name string, key *secret.Passphrase) error {
	return cryptsetup(ctx, header, []*secret.Passphrase{key}, "open", "--type", "luks2", "--header", fd(0), "--key-file", fd(1), device, name)
}

// hasGrown compares a mapping's size with that which dm-integrity notes on the device, in its own
// superblock at the beginning of the data: its magic is 8 bytes, and 8 bytes later follow the sectors.
func hasGrown(device, name string) (bool, error) {
	f, err := os.Open(device)
	if err != nil {
		return false, err
	}
	defer f.Close()
	var superblock [24]byte
	if _, err := f.ReadAt(superblock[:], headerBytes); err != nil {
		return false, err
	}
	if !strings.HasPrefix(string(superblock[:]), "integrt\x00") {
		return false, nil
	}
	opened, err := openVolume(mapperFolder+name, os.O_RDONLY)
	if err != nil {
		return false, err
	}
	defer opened.Close()
	return binary.LittleEndian.Uint64(superblock[16:]) > uint64(opened.bytes/512), nil
}

// partSuffix is what cryptsetup adds to the name of the dm-integrity device below a mapping.
const partSuffix = "_dif"

// Close implements Kernel. A process that was killed while it opened a volume has left the part. cryptsetup would read the
// header on the device, which nobody has checked, and write its first copy where the second alone is whole: over the note of
// a format that was cut off there.
func (DeviceMapper) Close(ctx context.Context, name string) error {
	err := ofBoth(ctx, name, func(n string) []string { return []string{"remove", n} })
	var failed *commandError
	if errors.As(err, &failed) && strings.Contains(failed.said, dmsetupBusy) {
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return err
}

// CloseLater implements Kernel.
func (DeviceMapper) CloseLater(ctx context.Context, name string) error {
	return ofBoth(ctx, name, func(n string) []string { return []string{"remove", "--deferred", n} })
}

// Keep implements Kernel.
func (DeviceMapper) Keep(ctx context.Context, name string) error {
	return ofBoth(ctx, name, func(n string) []string { return []string{"message", n, "0", "@cancel_deferred_remove"} })
}

// ofBoth runs dmsetup for a mapping and for the part below it, as far as they are there.
func ofBoth(ctx context.Context, name string, args func(name string) []string) error {
	for _, n := range []string{name, name + partSuffix} {
		err := command{name: "dmsetup", args: args(n)}.run(ctx)
		if err == nil {
			continue
		}
		gone := command{name: "dmsetup", args: []string{"info", n}}.run(ctx) != nil
		if !gone {
			return err
		}
	}
	return nil
}
