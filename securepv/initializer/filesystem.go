package initializer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// The geometry of the file systems that are made here.
const (
	fsBlock      = 4096
	groupBlocks  = 8 * fsBlock // of a group: what one block of bitmap tells of
	clearedBytes = 1 << 20     // where programs look for what is on a device
)

// makeFileSystem makes an ext4 file system on an open volume and sees that it is written. Blocks that
// were never written cannot be read, so those of which mkfs reads or writes but a part come first.
func (o *Opener) makeFileSystem(ctx context.Context, f *volumeFile) error {
	if err := clearForSuperblocks(f); err != nil {
		return fmt.Errorf("clear the places of superblocks: %w", err)
	}
	o.step("cleared")
	mkfs := command{name: "mkfs.ext4", args: []string{
		"-q", "-F", "-b", strconv.Itoa(fsBlock), "-g", strconv.Itoa(groupBlocks), "-E", "nodiscard", f.Name(),
	}}
	if err := mkfs.run(ctx); err != nil {
		return err
	}
	return f.Sync()
}

// clearForSuperblocks writes zeroes, past the page cache, to the beginning and to the first block of
// each group that has a copy of the superblock: groups 1 and the powers of 3, 5 and 7.
func clearForSuperblocks(f *volumeFile) error {
	zero, err := unix.Mmap(-1, 0, clearedBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE) // aligned
	if err != nil {
		return err
	}
	defer func() { _ = unix.Munmap(zero) }()
	if _, err := f.WriteAt(zero[:min(clearedBytes, f.bytes/fsBlock*fsBlock)], 0); err != nil {
		return err
	}
	group := int64(groupBlocks * fsBlock)
	for _, power := range []int64{3, 5, 7} {
		for n := int64(1); n*group < f.bytes-fsBlock; n *= power {
			if _, err := f.WriteAt(zero[:fsBlock], n*group); err != nil {
				return err
			}
		}
	}
	return nil
}

// mountOptions are Contrast's: what the workload has written is on the volume.
const mountOptions = "data=journal"

// mount ensures that an open volume is mounted, is its owner's, and has a file system with all of the volume's room. A
// file system that stays smaller, or root's, is no reason for the workload to stand still.
func (o *Opener) mount(ctx context.Context, v Volume, name string) error {
	m, err := o.find(v.Device, name)
	if err != nil {
		return err
	}
	if m == nil {
		return errors.New("it is not open any more")
	}
	is, err := isMounted(m.Path, v.Mount)
	if err != nil {
		return err
	}
	if !is {
		if err := o.attach(m.Path, v.Mount); err != nil {
			return err
		}
	}
	if err := v.give(); err != nil {
		o.Log.Warn("the new file system cannot be given to the workload's user", "device", v.Device, "user", v.Owner.User, "group", v.Owner.Group, "error", err)
	}
	o.step("mounted")
	if err := (command{name: "resize2fs", args: []string{m.Path}}).run(ctx); err != nil {
		o.Log.Warn("the volume is larger than its file system, which cannot be made as large", "device", v.Device, "error", err)
	}
	o.step("grown")
	return nil
}

// attach mounts the file system of an open volume.
func (o *Opener) attach(path, at string) error {
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	if err := clearForGrowth(path); err != nil {
		return err
	}
	flags, options := uintptr(unix.MS_SYNCHRONOUS), mountOptions
	if o.Buffered {
		flags, options = unix.MS_NODEV|unix.MS_NOSUID, ""
	}
	if err := unix.Mount(path, at, "ext4", flags, options); err != nil {
		return fmt.Errorf("mount the ext4 file system in it at %s: %w", at, err)
	}
	return nil
}

// clearForGrowth writes zeroes to the last block of a volume that is larger than its file system, for
// the kernel reads that block before it makes the file system larger.
func clearForGrowth(path string) error {
	f, err := openVolume(path, os.O_RDWR|unix.O_DIRECT)
	if err != nil {
		return err
	}
	defer f.Close()
	buffer, err := unix.Mmap(-1, 0, fsBlock, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE) // aligned
	if err != nil {
		return err
	}
	defer func() { _ = unix.Munmap(buffer) }()
	if _, err := f.ReadAt(buffer, 0); err != nil {
		return fmt.Errorf("read the file system's superblock: %w", err)
	}
	blocks, is := ext4Blocks(buffer[1024:])
	if last := f.bytes/fsBlock - 1; is && blocks <= last {
		clear(buffer)
		if _, err := f.WriteAt(buffer, last*fsBlock); err != nil {
			return fmt.Errorf("clear the last block: %w", err)
		}
	}
	return nil
}

// ext4Blocks reads how many blocks of 4 KiB a file system has, of its superblock.
func ext4Blocks(superblock []byte) (int64, bool) {
	number := binary.LittleEndian
	const has64Bit = 0x80
	if number.Uint16(superblock[0x38:]) != 0xef53 || number.Uint32(superblock[0x18:]) != 2 {
		return 0, false
	}
	blocks := int64(number.Uint32(superblock[0x4:]))
	if number.Uint32(superblock[0x60:])&has64Bit != 0 {
		blocks |= int64(number.Uint32(superblock[0x150:])) << 32
	}
	return blocks, true
}

// isMounted reports whether a block device's file system is what a folder shows.
func isMounted(path, at string) (bool, error) {
	number, err := blockNumber(path)
	if err != nil {
		return false, err
	}
	var s unix.Stat_t
	err = unix.Stat(at, &s)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	return err == nil && s.Dev == number, err
}

// unmount ensures that a folder does not show a block device's file system. ErrBusy.
func unmount(path, at string) error {
	for {
		is, err := isMounted(path, at)
		if err != nil || !is {
			return err
		}
		err = unix.Unmount(at, 0)
		if errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("unmount %s: %w", at, ErrBusy)
		}
		if err != nil {
			return fmt.Errorf("unmount %s: %w", at, err)
		}
	}
}
