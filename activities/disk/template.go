package disk

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"strongroom/activities/disk/luks"
	"strongroom/activities/secret"
)

// A template is an empty encrypted qcow2 file of one size and source, made by
// qemu-img with a passphrase that nobody keeps. An encrypted disk is a copy of
// it with a LUKS header of its own: new master key, the disk's passphrase. So
// QEMU's two seconds of benchmark are spent once per host, size and image, and
// not per disk.

// copyTemplate makes an encrypted disk.
func (a *Activities) copyTemplate(ctx context.Context, d newDisk) error {
	template, err := a.template(ctx, d)
	if err != nil {
		return err
	}
	from, err := os.Open(template)
	if err != nil {
		return err
	}
	defer from.Close()
	header, room, err := cryptoHeader(from)
	if err == nil && room < luks.Bytes {
		err = fmt.Errorf("%d bytes of room for a LUKS header of %d", room, luks.Bytes)
	}
	if err != nil {
		return fmt.Errorf("template: %w", err)
	}
	to, err := os.OpenFile(d.path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	if err == nil {
		err = d.passphrase.Use(func(value []byte) error { return luks.Write(to, header, value) })
	}
	return errors.Join(err, to.Close())
}

// template gives the path of a disk's template, and makes it at first.
func (a *Activities) template(ctx context.Context, d newDisk) (string, error) {
	dir := cmp.Or(d.templates, filepath.Join(a.CacheDir, "templates"))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	name := sha256.Sum256(fmt.Appendf(nil, "%d\n%s\n%s", d.bytes, d.backingFormat, d.backing))
	path := filepath.Join(dir, hex.EncodeToString(name[:])+".qcow2")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	unlock, err := lockFile(ctx, path, false)
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	t := d
	t.path = hidden(path, ".new")
	defer os.Remove(t.path)
	if t.passphrase, err = secret.Generate(32); err != nil {
		return "", err
	}
	defer t.passphrase.Wipe()
	if err := a.createFile(ctx, t); err != nil {
		return "", err
	}
	return path, errors.Join(syncFile(t.path), os.Rename(t.path, path), syncDir(dir))
}

// The parts of a qcow2 header that say where its LUKS header is
// (docs/interop/qcow2.txt of QEMU, "Full disk encryption header pointer").
const (
	qcow2HeaderLength = 100 // offset of the header's own length
	qcow2CryptoHeader = 0x0537be77
	qcow2Last         = 0
)

var errNoHeader = errors.New("no LUKS header")

// cryptoHeader finds where in a qcow2 file its LUKS header is, and how much room
// that has.
func cryptoHeader(r io.ReaderAt) (offset, room int64, err error) {
	first := make([]byte, 4096)
	if _, err := r.ReadAt(first, 0); err != nil {
		return 0, 0, err
	}
	for at := binary.BigEndian.Uint32(first[qcow2HeaderLength:]); int(at)+24 <= len(first); {
		kind, length := binary.BigEndian.Uint32(first[at:]), binary.BigEndian.Uint32(first[at+4:])
		switch kind {
		case qcow2CryptoHeader:
			offset, room := binary.BigEndian.Uint64(first[at+8:]), binary.BigEndian.Uint64(first[at+16:])
			if offset > 1<<62 || room > 1<<32 {
				return 0, 0, errNoHeader
			}
			return int64(offset), int64(room), nil
		case qcow2Last:
			return 0, 0, errNoHeader
		}
		at += 8 + (length+7)/8*8
	}
	return 0, 0, errNoHeader
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
