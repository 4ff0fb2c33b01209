package volume_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"strongroom/activities/secret"
	"strongroom/activities/volume"
	"strongroom/compute"
	"strongroom/deploy/guest/vm"
	"strongroom/integration/seed"
)

func TestMain(m *testing.M) {
	seed.Deep("volumes", TestVolumeOfAHost)
	os.Exit(vm.Main(m))
}

// keys are the secrets of a key manager.
type keys map[compute.SecretID]string

func (k keys) Passphrase(_ context.Context, _ compute.Credential, id compute.SecretID) (*secret.Passphrase, error) {
	text, ok := k[id]
	if !ok {
		return nil, compute.Errorf(compute.NotFound, "secret %s was not found", id)
	}
	return secret.New([]byte(text)), nil
}

// host is a compute host that has a volume, with a kernel's device mapper.
type host struct {
	*volume.Activities
	t      *testing.T
	id     compute.HostID
	in     volume.Input
	first  compute.SecretID
	second compute.SecretID
	guests int
}

func newHost(t *testing.T, device string) *host {
	t.Helper()
	h := &host{t: t, id: compute.HostID{UUID: uuid.New()}, first: compute.SecretID{UUID: uuid.New()}, second: compute.SecretID{UUID: uuid.New()}}
	dir := t.TempDir()
	var err error
	h.Activities, err = volume.New(volume.Config{
		Host: h.id, Mount: filepath.Join(dir, "state"), Shown: []volume.Shown{
			{Name: "swtpm", At: filepath.Join(dir, "swtpm"), Without: "host.swtpm_on_volume: false"}, {Name: "save", At: filepath.Join(dir, "save"), Without: `host.suspend_state: ""`},
		}, Run: filepath.Join(dir, "run"),
		Keys:   keys{h.first: strings.Repeat("first", 12), h.second: strings.Repeat("second", 10)},
		Guests: func(context.Context) (int, error) { return h.guests, nil },
	})
	require.NoError(t, err)
	h.in = volume.Input{Volume: compute.StateVolume(h.id), Device: device}
	return h
}

func (h *host) open(began time.Time, id compute.SecretID, next *compute.SecretID) error {
	h.t.Helper()
	return h.Open(h.t.Context(), volume.OpenInput{Input: h.in, Began: began, Secret: id, Next: next})
}

func (h *host) seen() (kinds []compute.ThingKind) {
	h.t.Helper()
	got, err := h.Seen(h.t.Context(), compute.SeenInput{})
	require.NoError(h.t, err)
	for _, s := range got.Seen {
		require.Equal(h.t, h.in.Volume.String(), s.Name)
		kinds = append(kinds, s.Kind)
	}
	return kinds
}

func (h *host) file(name string) string { return filepath.Join(h.Mount, name) }

// loop gives a block device that begins with a text.
func (h *host) loop(text string) string {
	h.t.Helper()
	file := filepath.Join(h.t.TempDir(), "other")
	require.NoError(h.t, os.WriteFile(file, []byte(text), 0o600))
	require.NoError(h.t, os.Truncate(file, 80<<20))
	out, err := exec.Command("losetup", "--find", "--show", file).Output()
	require.NoError(h.t, err)
	return strings.TrimSpace(string(out))
}

func kindOf(t *testing.T, want compute.Kind, err error, says string) {
	t.Helper()
	require.Equal(t, want, compute.KindOf(err), "%v", err)
	require.ErrorContains(t, err, says)
}

// A volume is opened once and again, seen, rekeyed while it is open, closed when nothing uses it, and opened with the key
// that it has; what is somebody else's is refused.
func TestVolumeOfAHost(t *testing.T) {
	if !vm.Inside() {
		t.Parallel()
		vm.Machine{
			Modules:  []string{"dm-crypt", "dm-integrity", "xts", "aesni-intel", "algif_skcipher", "algif_hash", "algif_aead", "authenc", "hmac", "sha256_generic", "ext4", "loop"},
			Programs: []string{"cryptsetup", "mkfs.ext4", "resize2fs", "losetup", "dmsetup"},
			DiskMiB:  80,
		}.Run(t)
		return
	}
	h := newHost(t, "/dev/nothing")
	began := time.Now()
	_, err := h.Look(t.Context(), h.in)
	kindOf(t, compute.Conflict, err, "no such file")
	h.in.Device = "/dev/zero"
	_, err = h.Look(t.Context(), h.in)
	kindOf(t, compute.Conflict, err, "is no block device")
	h.in.Device = "/dev/vda"
	require.NoError(t, os.MkdirAll(h.file("instances"), 0o700))
	_, err = h.Look(t.Context(), h.in)
	kindOf(t, compute.Conflict, err, "is not empty")
	kindOf(t, compute.Conflict, h.open(began, h.first, nil), "is not empty")
	require.NoError(t, os.Remove(h.file("instances")))
	swtpm, save := h.Shown[0].At, h.Shown[1].At
	tpm, memory := filepath.Join(swtpm, "a vTPM's state"), filepath.Join(save, "a guest's memory")
	for _, of := range []string{tpm, memory} {
		require.NoError(t, os.MkdirAll(of, 0o700))
		_, err = h.Look(t.Context(), h.in)
		kindOf(t, compute.Conflict, err, filepath.Dir(of)+" is not empty")
		require.NoError(t, os.Remove(of))
	}
	require.NoError(t, errors.Join(os.Chmod(save, 0o730), os.Chown(save, 64055, 64056))) // as libvirtd has made it
	require.NoError(t, unix.Mount("tmpfs", swtpm, "tmpfs", 0, ""))
	kindOf(t, compute.Conflict, h.open(began, h.first, nil), "host.swtpm_on_volume")
	require.NoError(t, unix.Unmount(swtpm, 0))
	is, err := h.Look(t.Context(), h.in)
	require.NoError(t, err)
	require.Equal(t, volume.LookResult{New: true}, is)
	kindOf(t, compute.Conflict, h.Open(t.Context(), volume.OpenInput{Input: h.in, Began: began, Secret: h.first, NeverFormat: true}), "not to be formatted")
	is, err = h.Look(t.Context(), h.in)
	require.NoError(t, err)
	require.Equal(t, volume.LookResult{New: true}, is)
	require.Empty(t, h.seen())

	for range 2 {
		require.NoError(t, h.open(began, h.first, nil))
	}
	require.Equal(t, []compute.ThingKind{compute.ThingVolumeMapping, compute.ThingVolumeMount}, h.seen())
	is, err = h.Look(t.Context(), h.in)
	require.NoError(t, err)
	require.Equal(t, volume.LookResult{Open: true}, is)
	elsewhere := h.in
	elsewhere.Device = h.loop("elsewhere")
	_, err = h.Look(t.Context(), elsewhere)
	kindOf(t, compute.Conflict, err, "open on another device than "+elsewhere.Device)
	open, err := h.IsOpen()
	require.NoError(t, err)
	require.True(t, open)
	require.NoError(t, os.WriteFile(h.file("data"), []byte("kept"), 0o600))
	require.NoError(t, os.WriteFile(tpm, []byte("sealed"), 0o600))
	require.FileExists(t, h.file("swtpm/a vTPM's state"))
	require.NoError(t, os.WriteFile(memory, []byte("of a guest"), 0o600))
	require.FileExists(t, h.file("save/a guest's memory"))
	var of unix.Stat_t
	require.NoError(t, unix.Stat(save, &of))
	require.Equal(t, []uint32{unix.S_IFDIR | 0o730, 64055, 64056}, []uint32{of.Mode, of.Uid, of.Gid})
	require.NoError(t, unix.Unmount(swtpm, 0))
	open, err = h.IsOpen()
	require.NoError(t, err)
	require.False(t, open, "vTPMs would have their states elsewhere")
	require.NoError(t, h.open(began, h.first, nil))
	require.FileExists(t, tpm)

	// It stays open while guests run, while somebody has a file of it open, and until the host's worker has left it.
	h.guests = 2
	kindOf(t, compute.Conflict, h.Close(t.Context(), h.in), "guests run on this host: 2")
	h.guests = 0
	worker, release, err := h.Use(t.Context())
	require.NoError(t, err)
	removal := func(kind compute.ThingKind, asked time.Time) compute.Removal {
		return compute.Removal{Thing: compute.Thing{Kind: kind, Name: h.in.Volume.String()}, Began: asked}
	}
	mounts := func() (ids []uint64) {
		t.Helper()
		for _, at := range []string{swtpm, save} {
			var is unix.Statx_t
			require.NoError(t, unix.Statx(unix.AT_FDCWD, at, 0, unix.STATX_MNT_ID, &is))
			ids = append(ids, is.Mnt_id)
		}
		return ids
	}
	were := mounts()
	kindOf(t, compute.Conflict, h.Remove(t.Context(), removal(compute.ThingVolumeMount, began)), "in use")
	require.Equal(t, were, mounts(), "libvirt had them all the while")
	kindOf(t, compute.Unavailable, h.Close(t.Context(), h.in), "leaves the volume")
	<-worker.Done()
	require.ErrorIs(t, context.Cause(worker), volume.ErrLeave)
	release()
	for _, used := range []string{h.file("data"), tpm, memory} {
		f, err := os.Open(used)
		require.NoError(t, err)
		kindOf(t, compute.Conflict, h.Close(t.Context(), h.in), "in use")
		if used == memory {
			kindOf(t, compute.Conflict, h.Remove(t.Context(), removal(compute.ThingVolumeMount, began)), "in use")
			require.FileExists(t, tpm, "it is there again")
			require.FileExists(t, memory)
		}
		require.NoError(t, f.Close())
		require.Len(t, h.seen(), 2)
		open, err = h.IsOpen()
		require.NoError(t, err)
		require.True(t, open, "it is as it was")
	}

	// Its key is changed while it is open, and once more: that is done already.
	rotation := volume.RotateInput{Input: h.in, Secret: h.first, Next: h.second}
	for range 2 {
		require.NoError(t, h.Rotate(t.Context(), rotation))
	}
	require.NoError(t, h.Remove(t.Context(), removal(compute.ThingVolumeMapping, began.Add(-time.Hour))))
	require.Len(t, h.seen(), 2, "it was opened since its removal was asked for")
	require.NoError(t, h.Remove(t.Context(), removal(compute.ThingVolumeMount, began)))
	require.Equal(t, []compute.ThingKind{compute.ThingVolumeMapping}, h.seen())
	require.NoFileExists(t, tpm)
	require.NoError(t, h.Remove(t.Context(), removal(compute.ThingVolumeMapping, began)))
	require.Empty(t, h.seen())
	require.Error(t, h.Remove(t.Context(), removal(compute.ThingDomain, began)))

	kindOf(t, compute.Conflict, h.open(began, h.first, nil), "does not open")
	require.Empty(t, h.seen())
	require.NoError(t, h.open(began, h.first, &h.second), "the change of its key was cut off before it was written down")
	text, err := os.ReadFile(h.file("data"))
	require.NoError(t, err)
	require.Equal(t, "kept", string(text))
	require.FileExists(t, memory)
	text, err = os.ReadFile(tpm)
	require.NoError(t, err)
	require.Equal(t, "sealed", string(text))
	for range 2 {
		require.NoError(t, h.Close(t.Context(), h.in))
	}
	require.NoFileExists(t, tpm)
	require.NoFileExists(t, memory)
	require.Empty(t, h.seen())

	// A volume with another host's mark is closed again, whoever has its key.
	require.NoError(t, h.open(began, h.second, nil))
	require.NoError(t, os.WriteFile(h.file(volume.Mark), []byte(uuid.NewString()+"\n"), 0o600))
	open, err = h.IsOpen()
	require.NoError(t, err)
	require.False(t, open)
	require.NoError(t, h.Close(t.Context(), h.in))
	kindOf(t, compute.Conflict, h.open(began, h.second, nil), "is the volume of host")
	require.Empty(t, h.seen())

	// A part of it that a worker left which died is seen, and closed.
	t.Setenv("DM_DISABLE_UDEV", "1")
	said, err := exec.Command("dmsetup", "create", "strongroom-volume-"+h.in.Volume.String()+"_dif", "--table", "0 8 error").CombinedOutput()
	require.NoError(t, err, string(said))
	require.Equal(t, []compute.ThingKind{compute.ThingVolumeMapping}, h.seen())
	require.NoError(t, h.Remove(t.Context(), removal(compute.ThingVolumeMapping, began)))
	require.Empty(t, h.seen())

	// What holds something else stays as it is, and a host without a volume has none.
	h.in.Device = h.loop("somebody's")
	_, err = h.Look(t.Context(), h.in)
	kindOf(t, compute.Conflict, err, "neither new nor")
	none, err := volume.New(volume.Config{Host: h.id, Run: t.TempDir()})
	require.NoError(t, err)
	_, err = none.Look(t.Context(), h.in)
	kindOf(t, compute.Conflict, err, "host.secure_state")
}
