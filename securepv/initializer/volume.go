package initializer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"strongroom/activities/secret"
)

// Volume is a block device, where its file system is to appear, and whose that is to be while it is new.
type Volume struct {
	Device, Mount string
	Owner         Owner
}

// Opener opens volumes.
type Opener struct {
	Kernel      Kernel
	KDF         KDF  // of volumes that it formats; "" is Argon2id
	NeverFormat bool // a new volume is an error
	// Buffered: writes wait for the device when a program asks for that (fsync), and not each of them.
	Buffered bool
	Log      *slog.Logger
	// Step is told of each thing that was done; nil: nobody is. Tests end the process there.
	Step func(what string)
}

func (o *Opener) step(what string) {
	if o.Step != nil {
		o.Step(what)
	}
}

// Open ensures that a volume is open and mounted, and formats one that is proven to be new. It reports
// whether it was open before, as after the end of a container that had no time to close it
// (Contrast's issue 2455). *Refused: it holds something else, and stays as it is; ErrWrongKey.
func (o *Opener) Open(ctx context.Context, v Volume, key *secret.Passphrase) (before bool, err error) {
	f, err := openVolume(v.Device, os.O_RDONLY)
	if err != nil {
		return false, err
	}
	is, err := look(f, key)
	h := (*header)(nil)
	if err == nil && is == isFormatted {
		h, err = formatted(f)
	}
	_ = f.Close()
	if err != nil {
		return false, err
	}
	name, err := o.Kernel.Name(v.Device)
	if err != nil {
		return false, err
	}
	if h == nil {
		err = o.format(ctx, v, name, is, key)
	} else {
		before, err = o.openFormatted(ctx, v, name, h, key)
	}
	if err != nil {
		return before, fmt.Errorf("%s: %w", v.Device, err)
	}
	if err := o.mount(ctx, v, name); err != nil {
		if !before {
			err = errors.Join(err, o.release(ctx, name))
		}
		return before, fmt.Errorf("%s: %w", v.Device, err)
	}
	return before, nil
}

// formatted reads the header of a volume and refuses one that is not as the initializer makes it.
func formatted(f *volumeFile) (*header, error) {
	h, err := readHeader(f)
	switch {
	case err != nil:
		return nil, &Refused{f.Name(), err}
	case f.bytes < leastBytes:
		return nil, refused(f.Name(), "it ends after %d bytes, and a volume of its header has at least %d", f.bytes, leastBytes)
	}
	return h, nil
}

// openFormatted opens a volume that has a header, or finds it open. Its header is used as it was
// checked: a copy of it that is in memory.
func (o *Opener) openFormatted(ctx context.Context, v Volume, name string, h *header, key *secret.Passphrase) (before bool, err error) {
	f, err := openVolume(v.Device, os.O_RDONLY)
	if err != nil {
		return false, err
	}
	defer f.Close()
	mem, err := h.toMemory(f)
	if err != nil {
		return false, err
	}
	defer mem.Close()
	m, err := o.find(v.Device, name)
	if err != nil {
		return false, err
	}
	if m != nil && h.opened(m) {
		if err := testKey(ctx, v.Device, mem, key); err != nil { // only who has the key may have it
			return true, err
		}
		if err := o.Kernel.Keep(ctx, name); err != nil {
			return true, err
		}
		if m, err = o.find(v.Device, name); err != nil {
			return true, err
		}
		before = m != nil
	}
	if before {
		o.Log.Info("the volume is open already", "device", v.Device, "mapping", name)
	} else {
		if err = o.Kernel.Close(ctx, name); err != nil { // a part of it, or another that had this number
			return false, err
		}
		err = o.Kernel.Open(ctx, v.Device, mem, name, key)
	}
	if err != nil {
		return before, err
	}
	o.step("opened")
	if h.damaged {
		if err := o.mend(v, h); err != nil {
			return before, err
		}
	}
	return before, nil
}

// mend writes both copies of a header's metadata, of which one was damaged or older. That the key
// opens it shows that it is the workload's.
func (o *Opener) mend(v Volume, h *header) error {
	f, err := openVolume(v.Device, os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.lock(); err != nil {
		return err
	}
	if err := f.unchanged(h); err != nil {
		return err
	}
	o.Log.Warn("one copy of the volume's header was damaged or older; it is written anew", "device", v.Device)
	return h.write(f, nil, o.step)
}

// find gives the mapping of a name on a device, if it was opened to the end. ErrBusy: there is one of
// another name, which is somebody else's.
func (o *Opener) find(device, name string) (*Mapping, error) {
	all, err := o.Kernel.Mappings(device)
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		if m.Name == name {
			return &m, nil
		}
		if m.Name != name+partSuffix {
			return nil, fmt.Errorf("%w: it is open as %s", ErrBusy, m.Name)
		}
	}
	return nil, nil
}

// Close ensures that a volume is not mounted, and not open for longer than the mount of a container
// before this one is there: a container that is started again has a mount of its own of what that
// one has mounted, and whoever removes the pod's folders, the kubelet, ends the other. ErrBusy:
// something still has files open when patience ends.
func (o *Opener) Close(ctx context.Context, v Volume) error {
	name, err := o.Kernel.Name(v.Device)
	if err != nil {
		return err
	}
	m, err := o.find(v.Device, name)
	if err == nil && m != nil {
		err = patiently(ctx, func() error { return unmount(m.Path, v.Mount) })
	}
	if err == nil {
		o.step("unmounted")
		err = o.closeNowOrLater(context.WithoutCancel(ctx), v, name)
	}
	if err != nil {
		return fmt.Errorf("%s: close the volume: %w", v.Device, err)
	}
	o.step("closed")
	return nil
}

func (o *Opener) closeNowOrLater(ctx context.Context, v Volume, name string) error {
	err := o.Kernel.Close(ctx, name)
	if err == nil {
		o.Log.Info("the volume is closed", "device", v.Device)
	}
	if !errors.Is(err, ErrBusy) {
		return err
	}
	if err := o.Kernel.CloseLater(ctx, name); err != nil {
		return err
	}
	o.Log.Warn("the volume is mounted elsewhere, by a container before this one; it is closed as soon as that is unmounted", "device", v.Device)
	return nil
}

const (
	closePatience = 20 * time.Second // Kubernetes gives a pod 30
	closePause    = 200 * time.Millisecond
)

// release closes a mapping, also when ctx is done, and a part of one.
func (o *Opener) release(ctx context.Context, name string) error {
	ctx = context.WithoutCancel(ctx)
	return patiently(ctx, func() error { return o.Kernel.Close(ctx, name) })
}

// patiently does something until nothing is in its way.
func patiently(ctx context.Context, do func() error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closePatience)
	defer cancel()
	for {
		err := do()
		if !errors.Is(err, ErrBusy) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(closePause):
		}
	}
}
