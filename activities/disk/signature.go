package disk

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"strongroom/activities/secret"
	"strongroom/compute"
)

// The exit codes of blkid that are looked at.
const (
	blkidNothing = 2
	blkidSeveral = 8
)

// checkSuffix is in the name of the mapping through which a volume is looked at: read
// only, so nobody who takes it for the disk can write to it.
const checkSuffix = ".check"

// checkContent sees that a volume that was taken over decrypts to something: with a wrong
// key, cipher, key size or hash it opens all the same, as noise that the guest would write
// over (EE-48). Nothing is written to it. A volume that was seen to be right is not looked
// at again: its guest may wipe it. Corrupt: there is nothing that is known.
func (a *Activities) checkContent(ctx context.Context, v volume, d compute.Disk, how compute.DMCrypt, key *secret.Passphrase) error {
	look := v.looked()
	if err := errors.Join(a.closeMapping(ctx, v), a.closeMapping(ctx, look)); err != nil { // whose key nobody knows
		return err
	}
	if _, err := a.Runner.Run(ctx, openPlain(v, look.mapping(), how, key, "--readonly")); err != nil {
		return err
	}
	found, noise, err := a.content(ctx, look.opened(), how)
	aside, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	if err = errors.Join(err, a.closeMapping(aside, look)); err != nil {
		return err
	}
	switch {
	case noise:
		return compute.Errorf(compute.Corrupt, "disk %s: with %s it holds %s, and yet nothing shows that the first bytes of its sectors are right: "+
			"the cipher's IV mode, which is its last part, may not be what it was encrypted with. "+
			"An administrator can import it once more, as it is, or with --force if it really holds that.", d.Label(), how, found)
	case found == "":
		return compute.Errorf(compute.Corrupt, "disk %s: with %s it holds no file system, partition table, swap or LVM: "+
			"one of these, or the key, is not what it was encrypted with. "+
			"An administrator can import it once more, as it is, or with --force if it really holds nothing.", d.Label(), how)
	}
	_, err = a.lvm(ctx, "lvchange", "--quiet", "--deltag", uncheckedTag, v.String())
	if err == nil {
		a.Logger.InfoContext(ctx, "an adopted volume decrypts", "volume", v, "found", found)
	}
	return err
}

// content says by what blkid knows what is on a device; "": by nothing. It reads a copy of
// the device's beginning and end, confined: what is there is a guest's. noise reports that the
// device decrypts but for the first bytes of its sectors, where blkid may find nothing to miss.
func (a *Activities) content(ctx context.Context, path string, how compute.DMCrypt) (found string, noise bool, err error) {
	s, err := sampleOf(path)
	if err != nil {
		return "", false, err
	}
	defer s.Close()
	if found, err = a.signature(ctx, s.File); err != nil || found == "" || !how.ForgivesIV() {
		return found, false, err
	}
	shows, err := s.showsIV()
	return found, !shows, err
}

func (a *Activities) signature(ctx context.Context, sample *os.File) (string, error) {
	c := Command{Name: "blkid", Limited: true, Image: sample}
	c.Args = []string{"--probe", "--output", "export", c.imagePath()}
	out, err := a.Runner.Run(ctx, c)
	switch exitCode(err) {
	case blkidNothing:
		return "", nil
	case blkidSeveral:
		return "several signatures", nil
	}
	return strings.Join(strings.Fields(string(out)), " "), err
}

// sampleMiB is how much of a device's beginning, and of its end, is looked at: further in no
// file system, partition table, swap or volume manager says what it is.
const sampleMiB = 2

// sample is a file in memory, as large as a device, with the device's beginning and end.
type sample struct {
	*os.File
	parts []int64 // where what was read begins, at sectors
}

func sampleOf(path string) (*sample, error) {
	device, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer device.Close()
	size, err := device.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	memory, err := unix.MemfdCreate("signature", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	s := &sample{os.NewFile(uintptr(memory), "signature"), []int64{0, max(0, size-sampleMiB*mib)}}
	err = errors.Join(s.Truncate(size), s.Chmod(0o444))
	for _, at := range s.parts {
		if err == nil {
			_, err = io.Copy(io.NewOffsetWriter(s, at), io.NewSectionReader(device, at, sampleMiB*mib))
		}
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

const (
	sectorBytes = 512 // dm-crypt has an IV for each, and Nova asked for no other size
	cipherBlock = 16  // of a cipher, at most
)

// showsIV reports whether the sectors' first blocks are decrypted with the right IVs. In CBC
// a wrong IV changes the first block and nothing else. Whatever a disk holds, it has sectors
// in which all bytes are the same, most of them zero: where the IV is wrong their first
// blocks differ from the rest. Those of a few others do so too, whose data ends there. The
// first sector says nothing: its IV is zero in several modes.
func (s *sample) showsIV() (bool, error) {
	whole, broken := 0, 0
	for _, from := range s.parts {
		data := make([]byte, sampleMiB*mib)
		n, err := s.ReadAt(data, from)
		if err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		for at := 0; at+sectorBytes <= n; at += sectorBytes {
			first, rest := data[at:at+cipherBlock], data[at+cipherBlock:at+sectorBytes]
			switch same := bytes.Repeat(rest[:1], len(rest)); {
			case from+int64(at) == 0, !bytes.Equal(rest, same):
			case bytes.Equal(first, same[:cipherBlock]):
				whole++
			default:
				broken++
			}
		}
	}
	return whole > broken, nil
}
