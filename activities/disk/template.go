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
	"strconv"

	"strongroom/activities/disk/luks"
	"strongroom/activities/secret"
	"strongroom/compute"
)

// A template is an empty encrypted qcow2 file of one size and source, with a
// passphrase that nobody keeps. An encrypted disk is a copy of it with a LUKS header of
// its own: new master key, the disk's passphrase. A template is such a copy too, of the
// host's blank one, with size and source of its own; QEMU's two seconds of benchmark are
// spent once per host, on that.

// BlankTemplate is the file in Config.CacheDir of which all templates are made.
const BlankTemplate = "templates/blank.qcow2"

// blankBytes is the size of the blank template: all others are larger.
const blankBytes = 512

// copyTemplate makes an encrypted disk. A template may go at any moment, to make room in
// the cache.
func (a *Activities) copyTemplate(ctx context.Context, d newDisk) error {
	for attempt := 1; ; attempt++ {
		template, err := a.template(ctx, d)
		if err != nil {
			return err
		}
		touch(template)
		if err = copyEncrypted(template, d.path, d.passphrase); attempt == 3 || !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
}

// copyEncrypted copies an empty encrypted file and gives it a LUKS header of its own.
func copyEncrypted(template, path string, p *secret.Passphrase) error {
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
	to, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	if err == nil {
		err = p.Use(func(value []byte) error { return luks.Write(to, header, value) })
	}
	return errors.Join(err, to.Close())
}

// template gives the path of a disk's template, and makes it at first.
func (a *Activities) template(ctx context.Context, d newDisk) (string, error) {
	name := sha256.Sum256(fmt.Appendf(nil, "%d\n%s\n%s", d.bytes, d.backingFormat, d.backing))
	dir := cmp.Or(d.templates, filepath.Join(a.CacheDir, filepath.Dir(BlankTemplate)))
	path := filepath.Join(dir, hex.EncodeToString(name[:])+".qcow2")
	return path, makeOnce(ctx, path, func(draft string, p *secret.Passphrase) error {
		blank := filepath.Join(a.CacheDir, BlankTemplate)
		err := makeOnce(ctx, blank, func(draft string, p *secret.Passphrase) error {
			return a.createBlank(ctx, draft, p)
		})
		if err == nil {
			err = copyEncrypted(blank, draft, p)
		}
		if err == nil {
			err = a.reshape(ctx, draft, p, d)
		}
		return err
	})
}

// reshape gives an empty encrypted file the size and the source of a disk.
func (a *Activities) reshape(ctx context.Context, path string, p *secret.Passphrase, d newDisk) error {
	file := qcow2Node(path, originKey, nil).json()
	grow := Command{Name: "qemu-img", Args: []string{"resize", "-q"}}
	grow.lend(originKey, p)
	grow.Args = append(grow.Args, file, strconv.FormatInt(d.bytes, 10))
	if _, err := a.Runner.Run(ctx, grow); err != nil || d.backing == "" {
		return err
	}
	rebase := Command{Name: "qemu-img", Args: []string{"rebase", "-q", "-u", "-b", d.backing, "-F", d.backingFormat}}
	rebase.lend(originKey, p)
	rebase.Args = append(rebase.Args, file)
	_, err := a.Runner.Run(ctx, rebase)
	return err
}

// makeOnce ensures that a file is there: it appears whole, and one attempt at a time
// makes it, with a passphrase that is forgotten.
func makeOnce(ctx context.Context, path string, build func(draft string, p *secret.Passphrase) error) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	unlock, err := lockFile(ctx, path, false)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	p, err := secret.Generate(compute.DiskPassphraseBytes)
	if err != nil {
		return err
	}
	defer p.Wipe()
	draft := hidden(path, ".new")
	defer os.Remove(draft)
	if err := os.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) { // of an attempt that was killed
		return err
	}
	if err := build(draft, p); err != nil {
		return err
	}
	if err := syncFile(draft); err != nil {
		return err
	}
	return errors.Join(os.Rename(draft, path), syncDir(dir))
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
	for at := int64(binary.BigEndian.Uint32(first[qcow2HeaderLength:])); at+24 <= int64(len(first)); {
		kind, length := binary.BigEndian.Uint32(first[at:]), int64(binary.BigEndian.Uint32(first[at+4:]))
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
