package initializer

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"strongroom/activities/secret"
)

// format makes an encrypted volume with a file system of one that is new, or of which the format was
// begun. Its header, without which nothing was ever mounted, comes last.
func (o *Opener) format(ctx context.Context, v Volume, name string, is content, key *secret.Passphrase) (err error) {
	if o.NeverFormat {
		return &Refused{v.Device, errors.New("it is new, and is not to be formatted: are the data of this workload on another volume?")}
	}
	only, err := openVolume(v.Device, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer only.Close()
	if err := only.lock(); err != nil {
		return err
	}
	if m, err := o.Kernel.Mappings(v.Device); err != nil {
		return err
	} else if is == isNew && len(m) > 0 {
		return fmt.Errorf("%w: it is open as %s", ErrBusy, m[0].Name)
	}
	if is == isBegun {
		o.Log.Warn("a format of the volume was interrupted; it begins again", "device", v.Device)
		if _, err := o.find(v.Device, name); err != nil {
			return err
		}
		if err := o.release(ctx, name); err != nil {
			return err
		}
	}
	begun, err := o.begin(v, is, key)
	if err != nil {
		return err
	}
	o.Log.Info("the volume is new and is formatted", "device", v.Device, "kdf", o.kdf())
	mem, err := newMemory()
	if err != nil {
		return err
	}
	defer mem.Close()
	if err := o.Kernel.Format(ctx, v.Device, mem, key, o.kdf()); err != nil {
		return err
	}
	o.step("LUKS format")
	h, err := readHeader(mem)
	if err != nil {
		return fmt.Errorf("the header that cryptsetup made: %w", err)
	}
	defer func() {
		if err == nil {
			return
		}
		if m, findErr := o.find(v.Device, name); findErr != nil {
			err = errors.Join(err, findErr)
		} else if m == nil || h.opened(m) { // not another start's
			err = errors.Join(err, o.release(ctx, name))
		}
	}()
	if err := o.Kernel.Open(ctx, v.Device, mem, name, key); err != nil {
		return err
	}
	o.step("opened anew")
	inside, err := o.openMapping(v, name, h)
	if err != nil {
		return err
	}
	defer inside.Close()
	if err := o.makeFileSystem(ctx, inside); err != nil {
		return err
	}
	o.step("file system")
	if err := o.isOurs(v, name, h); err != nil {
		return err
	}
	return o.finish(v, h, mem, begun)
}

// openMapping opens what a header decrypts. While that is open, nobody can put another mapping in its place.
func (o *Opener) openMapping(v Volume, name string, h *header) (*volumeFile, error) {
	m, err := o.find(v.Device, name)
	if err != nil {
		return nil, err
	}
	if m == nil {
		return nil, errors.New("it is not open, after it was opened")
	}
	f, err := openVolume(m.Path, os.O_RDWR|unix.O_DIRECT)
	if err != nil {
		return nil, err
	}
	if err := o.isOurs(v, name, h); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// isOurs sees that a mapping is one of a header: the name is the device's, and so that of another start, too.
func (o *Opener) isOurs(v Volume, name string, h *header) error {
	m, err := o.find(v.Device, name)
	if err != nil {
		return err
	}
	if m == nil || !h.opened(m) {
		return fmt.Errorf("%w: another start has opened it with another header", ErrBusy)
	}
	return nil
}

func (o *Opener) kdf() KDF {
	if o.KDF == "" {
		return Argon2id
	}
	return o.KDF
}

// begin notes on the volume that a format of it is begun, if nobody else has the device open and it is
// still what it was, for another start may have formatted it meanwhile.
func (o *Opener) begin(v Volume, was content, key *secret.Passphrase) (begun []byte, err error) {
	var nonce [nonceBytes]byte
	if _, err := rand.Read(nonce[:]); err != nil {
		return nil, err
	}
	begun, err = noteOf(key, nonce[:])
	if err != nil {
		return nil, err
	}
	f, err := openVolume(v.Device, os.O_RDWR|unix.O_EXCL)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	is, err := look(f, key)
	if err != nil {
		return nil, err
	}
	if is != was {
		return nil, fmt.Errorf("%w: another start has begun to format it, or has formatted it", ErrBusy)
	}
	if err := writeSync(f, begun, 0); err != nil {
		return nil, err
	}
	o.step("begun")
	return begun, nil
}

// finish writes the header, over the note of this format and nothing else.
func (o *Opener) finish(v Volume, h *header, mem *os.File, begun []byte) error {
	material, err := h.material(mem)
	if err != nil {
		return err
	}
	f, err := openVolume(v.Device, os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close()
	now := make([]byte, len(begun))
	if _, err := f.ReadAt(now, 0); err != nil {
		return err
	}
	if !bytes.Equal(now, begun) {
		return fmt.Errorf("%w: another start writes it", ErrBusy)
	}
	return h.write(f, material, o.step)
}
