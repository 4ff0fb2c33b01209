package initializer

import (
	"context"
	"errors"
	"fmt"
	"os"

	"strongroom/activities/secret"
)

// Rotate ensures that a volume opens with a new key and no longer with the old one, whether it is
// open or not. It is done again after an interruption: the volume opens with one of the two at any
// time. *Refused; ErrWrongKey: neither opens it; ErrBusy: another writes the header at the same time.
func (o *Opener) Rotate(ctx context.Context, device string, old, anew *secret.Passphrase) error {
	if err := o.rotate(ctx, device, old, anew); err != nil {
		var r *Refused
		if errors.As(err, &r) {
			return err
		}
		return fmt.Errorf("%s: %w", device, err)
	}
	return nil
}

func (o *Opener) rotate(ctx context.Context, device string, old, anew *secret.Passphrase) error {
	f, err := openVolume(device, os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.lock(); err != nil {
		return err
	}
	if is, err := look(f, old); err != nil {
		return err
	} else if is != isFormatted {
		return refused(device, "it is not formatted yet")
	}
	h, err := formatted(f)
	if err != nil {
		return err
	}
	mem, err := h.toMemory(f)
	if err != nil {
		return err
	}
	defer mem.Close()
	if err := testKey(ctx, device, mem, old); err != nil {
		if !errors.Is(err, ErrWrongKey) {
			return err
		}
		if err := testKey(ctx, device, mem, anew); err != nil {
			return err
		}
		o.Log.Info("the volume opens with the new secret already", "device", device)
		if err := f.unchanged(h); err != nil {
			return err
		}
		if err := h.write(f, nil, o.step); err != nil {
			return err
		}
		return o.wipeOld(ctx, f, anew)
	}
	changed, err := o.exchange(ctx, device, mem, h, old, anew)
	if err != nil {
		return err
	}
	material, err := changed.material(mem)
	if err != nil {
		return err
	}
	o.step("exchanged")
	if err := f.unchanged(h); err != nil {
		return err
	}
	if err := changed.write(f, material, o.step); err != nil {
		return err
	}
	o.Log.Info("the volume opens with the new secret, and no longer with the old one", "device", device)
	return o.wipeOld(ctx, f, anew)
}

// wipeOld wipes what the old key opened, once the new one opens the header that the volume has.
func (o *Opener) wipeOld(ctx context.Context, f *volumeFile, anew *secret.Passphrase) error {
	h, err := readHeader(f)
	if err != nil {
		return fmt.Errorf("read the new header: %w", err)
	}
	mem, err := h.toMemory(f)
	if err != nil {
		return err
	}
	defer mem.Close()
	if err := testKey(ctx, f.Name(), mem, anew); err != nil {
		return fmt.Errorf("the header that was written: %w", err)
	}
	return o.wipeOthers(f, h)
}

// exchange puts the new key into a header in memory, into another key slot, so that on the volume the
// old key's material is whole until the new header is.
func (o *Opener) exchange(ctx context.Context, device string, mem *os.File, h *header, old, anew *secret.Passphrase) (*header, error) {
	add := []string{"luksAddKey", "--batch-mode", "--header", fd(0), "--key-file", fd(1)}
	add = append(append(add, o.kdf().args()...), device, fd(2))
	if err := cryptsetup(ctx, mem, []*secret.Passphrase{old, anew}, add...); err != nil {
		return nil, err
	}
	err := cryptsetup(ctx, mem, []*secret.Passphrase{anew},
		"luksKillSlot", "--batch-mode", "--header", fd(0), "--key-file", fd(1), device, h.slot)
	if err != nil {
		return nil, err
	}
	changed, err := readHeader(mem)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the header that cryptsetup made: %w", err)
	case changed.slot == h.slot || changed.uuid != h.uuid || changed.sequence <= h.sequence:
		return nil, errors.New("the header that cryptsetup made is not the old one with another key slot")
	}
	if err := testKey(ctx, device, mem, anew); err != nil {
		return nil, err
	}
	if err := testKey(ctx, device, mem, old); !errors.Is(err, ErrWrongKey) {
		return nil, fmt.Errorf("the old secret still opens the new header (%w): are they the same?", err)
	}
	return changed, nil
}

// wipeOthers writes zeroes over all key material but that of the header: what the old key opened.
func (o *Opener) wipeOthers(f *volumeFile, h *header) error {
	zero := make([]byte, 1<<20)
	for at := int64(2 * metadataBytes); at < headerBytes; {
		if at == h.area[0] {
			at += h.area[1]
			continue
		}
		end := min(at+int64(len(zero)), headerBytes)
		if at < h.area[0] {
			end = min(end, h.area[0])
		}
		if _, err := f.WriteAt(zero[:end-at], at); err != nil {
			return err
		}
		at = end
	}
	o.step("wiped")
	return f.Sync()
}
