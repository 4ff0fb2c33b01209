package initializer

import (
	"context"
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
	if err := o.begin(v, key); err != nil {
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
		if err != nil {
			err = errors.Join(err, o.release(ctx, name))
		}
	}()
	if err := o.Kernel.Open(ctx, v.Device, mem, name, key); err != nil {
		return err
	}
	o.step("opened anew")
	m, err := o.find(v.Device, name)
	if err != nil {
		return err
	}
	if m == nil {
		return errors.New("it is not open, after it was opened")
	}
	if err := o.makeFileSystem(ctx, m.Path); err != nil {
		return err
	}
	o.step("file system")
	return o.finish(v, h, mem)
}

func (o *Opener) kdf() KDF {
	if o.KDF == "" {
		return Argon2id
	}
	return o.KDF
}

// begin notes on the volume that a format of it is begun.
func (o *Opener) begin(v Volume, key *secret.Passphrase) error {
	b, err := noteOf(key)
	if err != nil {
		return err
	}
	f, err := openVolume(v.Device, os.O_RDWR|unix.O_EXCL)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := writeSync(f, b, 0); err != nil {
		return err
	}
	o.step("begun")
	return nil
}

// finish writes the header, over the note.
func (o *Opener) finish(v Volume, h *header, mem *os.File) error {
	material, err := h.material(mem)
	if err != nil {
		return err
	}
	f, err := openVolume(v.Device, os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close()
	return h.write(f, material, o.step)
}
