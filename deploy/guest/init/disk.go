package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const rootDir = "/root"

// rootDisk is the name of the first disk.
var rootDisk = "vda"

// awaitRootDisk waits a moment for the first disk, which its bus may bring late: that of virtio, or the first one on SCSI, which the kernel may call
// sdb as well as sda.
func awaitRootDisk() {
	for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); time.Sleep(25 * time.Millisecond) {
		if _, err := os.Stat("/sys/block/vda"); err == nil {
			return
		}
		onSCSI, _ := filepath.Glob("/sys/block/sd*/device")
		for _, device := range onSCSI {
			if place, err := os.Readlink(device); err == nil && strings.HasSuffix(place, ":0:0:0") {
				rootDisk = filepath.Base(filepath.Dir(device))
				return
			}
		}
	}
}

// reportDisks tells name and size of every block device: "block" in sectors on
// one line, and a line for each with what it seems to hold.
func reportDisks(c *console) {
	awaitRootDisk()
	sizes, err := filepath.Glob("/sys/block/*/size")
	if err != nil {
		c.say("block err=%v", err)
		return
	}
	var names []string
	var lines []string
	for _, file := range sizes {
		name := filepath.Base(filepath.Dir(file))
		b, _ := os.ReadFile(file)
		sectors, _ := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
		names = append(names, fmt.Sprintf("%s:%d", name, sectors))
		if strings.HasPrefix(name, rootDisk[:2]) {
			lines = append(lines, fmt.Sprintf("disk name=%s mib=%d content=%s", name, sectors/2048, content("/dev/"+name)))
		}
	}
	c.say("block=%v", names)
	for _, l := range lines {
		c.say("%s", l)
	}
}

// content names what a disk begins with: a filesystem, a swap area, nothing.
func content(device string) string {
	f, err := os.Open(device)
	if err != nil {
		return "unreadable"
	}
	defer f.Close()
	b := make([]byte, 4096)
	if _, err := f.ReadAt(b, 0); err != nil {
		return "unreadable"
	}
	switch {
	case bytes.Equal(b[1024+56:1024+58], []byte{0x53, 0xef}):
		return "ext4"
	case bytes.HasSuffix(b, []byte("SWAPSPACE2")):
		return "swap"
	case bytes.HasPrefix(b, []byte("LUKS")): // never: the host opens the disk, not the guest
		return "luks"
	case len(bytes.Trim(b, "\x00")) == 0:
		return "empty"
	}
	return "data"
}

// mountRoot mounts the root disk and counts this boot on it.
func mountRoot(c *console) {
	if err := unix.Mount("/dev/"+rootDisk, rootDir, "ext4", 0, ""); err != nil {
		c.say("rootdisk err=%v", err)
		return
	}
	counter := filepath.Join(rootDir, "boots")
	b, _ := os.ReadFile(counter)
	boots, _ := strconv.Atoi(string(b)) // no counter yet is 0
	boots++
	err := writeSynced(counter, strings.NewReader(strconv.Itoa(boots)))
	c.say("rootdisk boots=%d err=%v", boots, err)
}

const configDir = "/config"

// shareDir is where a share is mounted.
const shareDir = "/share"

// sharesDir has the shares that the metadata tells of, each by its tag.
const sharesDir = "/shares"

// mountShare mounts the share of a tag, in place of the one before.
func mountShare(tag, at, options string) error {
	os.MkdirAll(at, 0o755)
	unix.Unmount(at, 0)
	var flags uintptr
	if slices.Contains(strings.Split(options, ","), "ro") {
		flags = unix.MS_RDONLY
	}
	return unix.Mount(tag, at, "virtiofs", flags, "")
}

// mountShares does what the script of docs/shares.md does, with what the config drive tells.
func mountShares() (tags []string, err error) {
	err = mountConfigDrive()
	text, more := os.ReadFile(filepath.Join(configDir, "openstack/latest/meta_data.json"))
	var told struct {
		Devices []struct{ Type, Tag string }
	}
	err = errors.Join(err, more)
	if err == nil {
		err = json.Unmarshal(text, &told)
	}
	for _, d := range told.Devices {
		if d.Type == "share" {
			tags = append(tags, d.Tag)
			err = errors.Join(err, mountShare(d.Tag, filepath.Join(sharesDir, d.Tag), ""))
		}
	}
	return tags, err
}

// mountConfigDrive mounts the first CD-ROM, read-only.
func mountConfigDrive() error {
	os.MkdirAll(configDir, 0o755)
	return unix.Mount("/dev/sr0", configDir, "iso9660", unix.MS_RDONLY, "")
}
