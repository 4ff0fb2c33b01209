package disk

import (
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
func (a *Activities) checkContent(ctx context.Context, v volume, d compute.Disk, how compute.LegacyEncryption, key *secret.Passphrase) error {
	look := v.looked()
	if err := errors.Join(a.closeMapping(ctx, v), a.closeMapping(ctx, look)); err != nil { // whose key nobody knows
		return err
	}
	if _, err := a.Runner.Run(ctx, openPlain(v, look.mapping(), how, key, "--readonly")); err != nil {
		return err
	}
	found, err := a.signature(ctx, look.opened())
	aside, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	if err = errors.Join(err, a.closeMapping(aside, look)); err != nil {
		return err
	}
	if found == "" {
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

// signature says by what blkid knows what is on a device; "": by nothing. It reads a copy
// of the device's beginning and end, confined: what is there is a guest's.
func (a *Activities) signature(ctx context.Context, path string) (string, error) {
	sample, err := sampleOf(path)
	if err != nil {
		return "", err
	}
	defer sample.Close()
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

// sampleOf gives a file in memory, as large as a device, with the device's beginning and end.
func sampleOf(path string) (*os.File, error) {
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
	sample := os.NewFile(uintptr(memory), "signature")
	err = errors.Join(sample.Truncate(size), sample.Chmod(0o444))
	for _, at := range []int64{0, max(0, size-sampleMiB*mib)} {
		if err == nil {
			_, err = io.Copy(io.NewOffsetWriter(sample, at), io.NewSectionReader(device, at, sampleMiB*mib))
		}
	}
	if err != nil {
		sample.Close()
		return nil, err
	}
	return sample, nil
}
