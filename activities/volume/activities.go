package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"strongroom/activities/folder"
	"strongroom/activities/secret"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/securepv/initializer"
)

// Keys reads passphrases, for the operation whose activity asks.
type Keys interface {
	Passphrase(ctx context.Context, cred compute.Credential, id compute.SecretID) (*secret.Passphrase, error)
}

// Config of a host's volume.
type Config struct {
	Host  compute.HostID
	Mount string  // where its file system appears; "": this host has no such volume
	Shown []Shown // what else is on it, and libvirt has elsewhere
	Run   string  // a folder that is empty after each boot
	Keys  Keys
	// Guests tells how many guests run on this host. nil: none.
	Guests func(ctx context.Context) (int, error)
	Logger *slog.Logger
}

// Activities are what workflows call of a host's volume.
type Activities struct {
	Config
	notes folder.Folder
	use   use
}

// New makes the folder of notes, mode 0700.
func New(cfg Config) (*Activities, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	notes, err := folder.Open(filepath.Join(cfg.Run, "volumes"))
	if err != nil {
		return nil, fmt.Errorf("volume: %w", err)
	}
	return &Activities{Config: cfg, notes: notes}, nil
}

// Register registers the activities.
func (a *Activities) Register(r durable.Registry) {
	Look.Register(r, a.Look)
	Open.Register(r, durable.NoResult(a.Open))
	Close.Register(r, durable.NoResult(a.Close))
	Rotate.Register(r, durable.NoResult(a.Rotate))
	Remove.Register(r, durable.NoResult(a.Remove))
	Seen.Register(r, a.Seen)
}

// Look is the activity volume.Look. Conflict: the host has no such volume, there is no such device, it holds something
// else, the volume is open on another one, or something is in the folders where it is mounted.
func (a *Activities) Look(ctx context.Context, in Input) (out LookResult, err error) {
	unlock, err := a.lock(ctx, in.Volume)
	if err != nil {
		return out, err
	}
	defer unlock()
	m, err := opened(in.Volume)
	if err == nil {
		out.Open, err = m.IsMounted(a.Mount)
	}
	if err != nil {
		return out, failed(err)
	}
	if err := a.hidesNothing(m); err != nil {
		return out, err
	}
	if is, err := os.Stat(in.Device); err != nil {
		return out, failed(err)
	} else if is.Mode()&(fs.ModeDevice|fs.ModeCharDevice) != fs.ModeDevice {
		return out, compute.Errorf(compute.Conflict, "%s is no block device", in.Device)
	}
	if out.Open {
		return out, isOn(in.Device, m)
	}
	if out.New, err = initializer.IsNew(in.Device); err != nil {
		return out, failed(err)
	}
	return out, nil
}

// isOn sees that a volume that is open is so on a device.
func isOn(device string, m initializer.Mapping) error {
	all, err := initializer.DeviceMapper{}.Mappings(device)
	if err == nil && !slices.ContainsFunc(all, func(on initializer.Mapping) bool { return on.Name == m.Name }) {
		err = compute.Errorf(compute.Conflict, "the host's volume is open on another device than %s: close it first", device)
	}
	return failed(err)
}

// Open is the activity volume.Open: the volume is open and mounted, and marked as this host's. A new one is
// formatted, if that may be. Conflict as of Look, or its keys do not open it.
func (a *Activities) Open(ctx context.Context, in OpenInput) error {
	unlock, err := a.lock(ctx, in.Volume)
	if err != nil {
		return err
	}
	defer unlock()
	m, err := opened(in.Volume)
	if err != nil {
		return failed(err)
	}
	if err := a.hidesNothing(m); err != nil {
		return err
	}
	if err := a.noteOpening(in); err != nil {
		return err
	}
	err = a.openWith(ctx, in, in.Secret)
	if errors.Is(err, initializer.ErrWrongKey) && in.Next != nil {
		err = a.openWith(ctx, in, *in.Next)
	}
	if err != nil {
		return failed(err)
	}
	if err := a.claim(ctx, in.Input); err != nil {
		return err
	}
	if m, err = opened(in.Volume); err != nil {
		return failed(err)
	}
	return failed(a.show(m, a.Shown))
}

func (a *Activities) openWith(ctx context.Context, in OpenInput, id compute.SecretID) error {
	key, err := a.Keys.Passphrase(ctx, in.Credential, id)
	if err != nil {
		return err
	}
	defer key.Wipe()
	o := a.opener(in.Volume)
	o.NeverFormat = in.NeverFormat
	_, err = o.Open(ctx, initializer.Volume{Device: in.Device, Mount: a.Mount}, key)
	return err
}

// Mark is the file with the id of the host whose volume, or folder, it is in.
const Mark = ".strongroom-host"

// claim marks a volume as this host's, and closes one that is another's.
func (a *Activities) claim(ctx context.Context, in Input) error {
	mark := filepath.Join(a.Mount, Mark)
	text, err := os.ReadFile(mark)
	if errors.Is(err, fs.ErrNotExist) {
		return failed(os.WriteFile(mark, []byte(a.Host.String()+"\n"), 0o644))
	}
	if err != nil {
		return failed(err)
	}
	if owner := strings.TrimSpace(string(text)); owner != a.Host.String() {
		return errors.Join(compute.Errorf(compute.Conflict, "%s is the volume of host %s, and this is host %s", in.Device, owner, a.Host), a.end(ctx, in.Volume))
	}
	return nil
}

// isMarked reports whether the volume that is mounted is marked as this host's.
func (a *Activities) isMarked() (bool, error) {
	text, err := os.ReadFile(filepath.Join(a.Mount, Mark))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && strings.TrimSpace(string(text)) == a.Host.String(), err
}

// Close is the activity volume.Close: the volume is neither mounted nor open. Conflict: guests run on this host, or
// something keeps files of it open; then it is as it was. Unavailable: the host's worker leaves it first.
func (a *Activities) Close(ctx context.Context, in Input) error {
	if a.Guests != nil {
		n, err := a.Guests(ctx)
		if err != nil {
			return err
		}
		if n > 0 {
			return compute.Errorf(compute.Conflict, "guests run on this host: %d. Move them away (strongroom host drain), or stop them", n)
		}
	}
	if a.use.end() {
		return compute.Errorf(compute.Unavailable, "the host's worker leaves the volume")
	}
	unlock, err := a.lock(ctx, in.Volume)
	if err != nil {
		return err
	}
	defer unlock()
	return a.end(ctx, in.Volume)
}

// Rotate is the activity volume.Rotate: Next opens the volume, and Secret does not. It may be open meanwhile, and
// it is done again after an interruption.
func (a *Activities) Rotate(ctx context.Context, in RotateInput) error {
	unlock, err := a.lock(ctx, in.Volume)
	if err != nil {
		return err
	}
	defer unlock()
	old, err := a.Keys.Passphrase(ctx, in.Credential, in.Secret)
	if err != nil {
		return err
	}
	defer old.Wipe()
	anew, err := a.Keys.Passphrase(ctx, in.Credential, in.Next)
	if err != nil {
		return err
	}
	defer anew.Wipe()
	return failed(a.opener(in.Volume).Rotate(ctx, in.Device, old, anew))
}

// Remove is the activity volume.Remove, of a mount or a mapping. One that an operation made that began after the removal was
// asked for is left alone.
func (a *Activities) Remove(ctx context.Context, in compute.Removal) error {
	id, err := uuid.Parse(in.Thing.Name)
	if err != nil || in.Thing.Kind != compute.ThingVolumeMount && in.Thing.Kind != compute.ThingVolumeMapping {
		return in.Misdirected()
	}
	v := compute.VolumeID{UUID: id}
	unlock, err := a.lock(ctx, v)
	if err != nil {
		return err
	}
	defer unlock()
	began, err := a.began(v)
	if err != nil {
		return err
	}
	if in.Precedes(began) {
		a.Logger.InfoContext(ctx, "left a volume that was opened since its removal waits", "volume", v)
		return nil
	}
	if in.Thing.Kind == compute.ThingVolumeMapping {
		return a.end(ctx, v)
	}
	m, err := opened(v)
	if err != nil {
		return failed(err)
	}
	return a.hidden(ctx, m, func() error { return m.Unmount(ctx, a.Mount) })
}

// Seen is the activity volume.Seen: what is open and what is mounted, by the volume's id.
func (a *Activities) Seen(_ context.Context, in compute.SeenInput) (compute.SeenResult, error) {
	var all []compute.Seen
	open, err := initializer.DeviceMapper{}.Opened(prefix)
	if err != nil {
		return compute.SeenResult{}, failed(err)
	}
	for _, m := range open {
		id := strings.TrimPrefix(m.Name, prefix)
		all = append(all, compute.Seen{Kind: compute.ThingVolumeMapping, Name: id})
		for _, at := range a.folders() {
			mounted, err := m.IsMounted(at)
			if err != nil {
				return compute.SeenResult{}, failed(err)
			}
			if mounted {
				all = append(all, compute.Seen{Kind: compute.ThingVolumeMount, Name: id})
				break
			}
		}
	}
	return in.PageOf(all), nil
}

// end unmounts a volume and closes it, or leaves it as it was.
func (a *Activities) end(ctx context.Context, v compute.VolumeID) error {
	m, err := opened(v)
	if err != nil || m.Name == "" {
		return failed(err)
	}
	return a.hidden(ctx, m, func() error { return a.opener(v).End(ctx, m, a.Mount) })
}

// prefix begins the names of the mappings of hosts' volumes, which end with the volume's id.
const prefix = "strongroom-volume-"

// mapper names a volume's mapping by the volume, whichever device it is on.
type mapper struct {
	initializer.DeviceMapper
	volume compute.VolumeID
}

func (m mapper) Name(string) (string, error) { return prefix + m.volume.String(), nil }

// opened gives the mapping of a volume; its name is "" if there is none.
func opened(v compute.VolumeID) (m initializer.Mapping, err error) {
	all, err := initializer.DeviceMapper{}.Opened(prefix + v.String())
	if err != nil || len(all) == 0 {
		return m, err
	}
	return all[0], nil
}

func (a *Activities) opener(v compute.VolumeID) *initializer.Opener {
	// Its keys are random: none is guessed.
	return &initializer.Opener{Kernel: mapper{volume: v}, KDF: initializer.PBKDF2, Buffered: true, Log: a.Logger}
}

func (a *Activities) lock(ctx context.Context, v compute.VolumeID) (unlock func(), err error) {
	if a.Mount == "" {
		return nil, compute.Errorf(compute.Conflict, "this host has no volume for its state: host.secure_state says where it is mounted")
	}
	if unlock, err = a.notes.LockPart(ctx, v.String()); err != nil {
		return nil, compute.Errorf(compute.Unavailable, "volume %s: %w", v, folder.WithoutPath(err))
	}
	return unlock, nil
}

// noteOpening writes down since when a volume may be open. It need not outlive the host's boot.
func (a *Activities) noteOpening(in OpenInput) error {
	return failed(a.notes.Write(in.Volume.String(), []byte(in.Began.Format(time.RFC3339Nano))))
}

// began reads when the operation began that opened a volume, by the database's clock.
func (a *Activities) began(v compute.VolumeID) (at time.Time, err error) {
	text, err := os.ReadFile(a.notes.File(v.String()))
	if errors.Is(err, fs.ErrNotExist) {
		return at, nil
	}
	if err == nil {
		at, err = time.Parse(time.RFC3339Nano, string(text))
	}
	return at, failed(err)
}

// failed gives an error of the volume its kind. What another volume in its place would mend is a Conflict:
// it is not tried again by itself.
func failed(err error) error {
	var refused *initializer.Refused
	switch {
	case err == nil || compute.KindOf(err) != "":
		return err
	case errors.As(err, &refused), errors.Is(err, initializer.ErrWrongKey), errors.Is(err, initializer.ErrBusy), errors.Is(err, fs.ErrNotExist):
		return compute.Errorf(compute.Conflict, "the host's volume: %w", err)
	}
	return compute.Errorf(compute.Unavailable, "the host's volume: %w", err)
}

// IsOpen reports whether the volume with this host's state is mounted, with its folders, and is this host's.
func (a *Activities) IsOpen() (bool, error) {
	m, err := opened(compute.StateVolume(a.Host))
	if err != nil {
		return false, err
	}
	for _, at := range a.folders() {
		if is, err := m.IsMounted(at); err != nil || !is {
			return false, err
		}
	}
	return a.isMarked()
}
