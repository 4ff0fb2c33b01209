package initializer

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"golang.org/x/crypto/argon2"
	"golang.org/x/sys/unix"

	"strongroom/activities/secret"
)

// content is what is on a volume.
type content int

const (
	isNew content = iota
	isBegun
	isFormatted
)

// leastBytes is what a volume must have: the header, the journal of dm-integrity and of ext4, and
// some room.
const leastBytes = 64 << 20

// note is the first block of a volume whose format was begun: that, which of all formats it is, and a
// proof that who began it has the workload's secret.
const (
	note       = "strongroom secure-pv: a format of this volume was begun\n"
	nonceBytes = 16
)

// noteOf gives the note of a format. The storage's owner can read it, and try secrets on it: so a secret that somebody could guess is
// made as dear to try as by the header (S7). One of 32 random bytes nobody guesses.
func noteOf(key *secret.Passphrase, nonce []byte) ([]byte, error) {
	b := make([]byte, blockBytes)
	n := copy(b, note)
	n += copy(b[n:], nonce)
	dear := !isRandom(key)
	err := key.Use(func(value []byte) error {
		if dear {
			value = argon2.IDKey(value, nonce, notePasses, argon2KiB, 1, sha256.Size)
			defer clear(value)
			defer debug.FreeOSMemory() // cryptsetup needs as much next
		}
		mac := hmac.New(sha256.New, value)
		mac.Write(b[:n])
		mac.Sum(b[:n])
		return nil
	})
	return b, err
}

// notePasses is how often a guess at the secret behind a note goes through its memory: some tenths of a second.
const notePasses = 32

// volumeFile is an open device.
type volumeFile struct {
	*os.File
	bytes int64
}

// openVolume opens a device. One that is to be written must not be in use by anything else, which of
// a block device the kernel tells.
func openVolume(path string, flags int) (*volumeFile, error) {
	f, err := os.OpenFile(path, flags, 0)
	if errors.Is(err, unix.EBUSY) {
		return nil, fmt.Errorf("%s: %w", path, ErrBusy)
	}
	if err != nil {
		return nil, err
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil && size == 0 {
		err = fmt.Errorf("%s: it has no size: is it a block device?", path)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &volumeFile{f, size}, nil
}

// Close closes the device and gives its lock back. Of that the kernel counts every descriptor, and a
// program that this process is just starting has one until it runs: closing this one alone would leave
// the device in use for a moment.
func (f *volumeFile) Close() error {
	return errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_UN), f.File.Close())
}

// lock makes its holder the only one that writes what is before the data, until it is closed.
// The kernel keeps it with the device's node, and a container has nodes of its own: against writers in
// other containers, what was read is compared again before it is overwritten.
func (f *volumeFile) lock() error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("%w: another start or rotation writes its header", ErrBusy)
	}
	if err != nil {
		return fmt.Errorf("lock the volume: %w", err)
	}
	return nil
}

// unchanged sees that a header that was read before is still what the volume has.
func (f *volumeFile) unchanged(h *header) error {
	now, err := readHeader(f)
	if err != nil {
		return err
	}
	if !bytes.Equal(now.copies, h.copies) {
		return fmt.Errorf("%w: its header was changed meanwhile", ErrBusy)
	}
	return nil
}

// look tells what is on a device. Whatever cannot be read is an error, and whatever is neither new
// nor ours is refused: only what was read decides.
func look(f *volumeFile, key *secret.Passphrase) (content, error) {
	begin := make([]byte, min(2*metadataBytes, f.bytes))
	if _, err := f.ReadAt(begin, 0); err != nil {
		return 0, fmt.Errorf("%s: it cannot be read: %w", f.Name(), err)
	}
	switch {
	case bytes.HasPrefix(begin, []byte(note)): // before the header, of which parts may be there
		if len(begin) < blockBytes {
			return 0, refused(f.Name(), "it ends in a note that a format of it was begun; it holds no data: use a new volume in its place")
		}
		want, err := noteOf(key, begin[len(note):len(note)+nonceBytes])
		if err != nil {
			return 0, err
		}
		if !hmac.Equal(want, begin[:blockBytes]) {
			return 0, refused(f.Name(), "a format of it was begun for a workload with another secret; it holds no data: use a new volume in its place")
		}
		return isBegun, nil
	case hasMagic(begin):
		return isFormatted, nil
	}
	at, err := f.firstUsed()
	if err != nil {
		return 0, fmt.Errorf("%s: it cannot be read: %w", f.Name(), err)
	}
	if at >= 0 {
		return 0, refused(f.Name(), "it is neither new nor an encrypted volume of ours, for there are data near byte %d", at)
	}
	if f.bytes < leastBytes {
		return 0, refused(f.Name(), "it has %d bytes, and an encrypted volume needs %d", f.bytes, leastBytes)
	}
	return isNew, nil
}

// How much of a volume must be zeroes for it to be new: its beginning and its end, where all that
// is known says what it is, and samples in between.
const (
	firstBytes  = 32 << 20
	lastBytes   = 1 << 20
	sampleBytes = 64 << 10
	samples     = 256
)

// firstUsed gives the offset of a part that is not zero, or -1.
func (f *volumeFile) firstUsed() (int64, error) {
	buffer := make([]byte, lastBytes)
	used := func(at, size int64) (bool, error) {
		p := buffer[:min(size, f.bytes-at)]
		if _, err := f.ReadAt(p, at); err != nil {
			return false, err
		}
		return !isZero(p), nil
	}
	for at := int64(0); at < min(firstBytes, f.bytes); at += lastBytes {
		if is, err := used(at, lastBytes); err != nil || is {
			return at, err
		}
	}
	if end := f.bytes - lastBytes; end > 0 {
		if is, err := used(end, lastBytes); err != nil || is {
			return end, err
		}
	}
	for i := range int64(samples) {
		at := f.bytes / samples * i / blockBytes * blockBytes
		if is, err := used(at, sampleBytes); err != nil || is {
			return at, err
		}
	}
	return -1, nil
}

var zeroes [blockBytes]byte

func isZero(p []byte) bool {
	for ; len(p) > blockBytes; p = p[blockBytes:] {
		if !bytes.Equal(p[:blockBytes], zeroes[:]) {
			return false
		}
	}
	return bytes.Equal(p, zeroes[:len(p)])
}
