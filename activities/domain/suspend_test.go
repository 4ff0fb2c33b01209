package domain_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"strongroom/activities/domain"
	"strongroom/compute"
)

// A guest goes on where it was suspended, and boots where it was not, or where something else than a resume starts it. Each may run
// twice, also at once.
func TestSuspend(t *testing.T) {
	t.Parallel()
	h := setup(t, tiny)
	s := h.server(t, false, nil)
	h.disksOf(t, s)
	in, resume := domain.SuspendInput{Server: s.ID}, domain.StartInput{Server: s, Suspended: true}
	conflicts := func(err error, text string) {
		t.Helper()
		require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
		require.ErrorContains(t, err, text)
	}
	saved := func() (has int32) {
		t.Helper()
		require.NoError(t, h.Client.Do(t.Context(), func(l *libvirt.Libvirt) (err error) {
			has, err = l.DomainHasManagedSaveImage(libvirt.Domain{UUID: libvirt.UUID(s.ID.UUID)}, 0)
			return err
		}))
		return has
	}
	twice := func(power compute.PowerState, do func() error) {
		t.Helper()
		var both sync.WaitGroup // an attempt that timed out and its successor
		for range 2 {
			both.Go(func() { require.NoError(t, do()) })
		}
		both.Wait()
		state, err := h.Client.Power(t.Context(), s.ID)
		require.NoError(t, err)
		require.Equal(t, power, state)
	}
	boots := func() int {
		t.Helper()
		log, err := h.Console(t.Context(), domain.ConsoleInput{Server: s.ID})
		require.NoError(t, err)
		return strings.Count(log, "TG init ")
	}
	j := &journey{t: t, a: h, s: s}
	conflicts(h.Suspend(t.Context(), in), "its machine is off")
	_, err := h.Start(t.Context(), resume)
	conflicts(err, "the memory of its guest is not on the host's disk")
	_, err = h.Start(t.Context(), domain.StartInput{Server: s})
	require.NoError(t, err)
	h.hear(t, s, "TG ready", 0)
	j.goesOn(h, 0)

	dir := h.SaveDir
	h.SaveDir = t.TempDir()
	require.NoError(t, unix.Mount("none", h.SaveDir, "tmpfs", 0, "size=1m"))
	err = h.Suspend(t.Context(), in)
	h.EncryptedState = true
	beside := h.Suspend(t.Context(), in)
	h.EncryptedState = false
	require.NoError(t, unix.Unmount(h.SaveDir, 0))
	conflicts(beside, "in clear in "+h.SaveDir)
	h.SaveDir = dir
	require.Equal(t, compute.NoHost, compute.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "its host's disk has 1 MiB free")
	j.goesOn(h, 0)

	for range 2 {
		twice(compute.PowerShutdown, func() error { return h.Suspend(t.Context(), in) })
		require.EqualValues(t, 1, saved())
		tick := j.tick(h)
		twice(compute.PowerRunning, func() error {
			_, err := h.Start(t.Context(), resume)
			return err
		})
		require.Zero(t, saved())
		j.goesOn(h, tick)
		require.Equal(t, 1, boots())
	}

	require.NoError(t, h.Suspend(t.Context(), in))
	_, err = h.Start(t.Context(), domain.StartInput{Server: s})
	require.NoError(t, err)
	require.Zero(t, saved(), "no later start goes back to it")
	h.hear(t, s, "TG ready", 1)
	_, err = h.Stop(t.Context(), domain.StopInput{Server: s.ID})
	require.NoError(t, err)
	conflicts(h.Suspend(t.Context(), in), "its machine is off")

	// What a save that was cut off has left is no memory.
	_, err = h.Start(t.Context(), domain.StartInput{Server: s})
	require.NoError(t, err)
	h.hear(t, s, "TG ready", 2)
	require.NoError(t, h.Suspend(t.Context(), in))
	files := h.savedFiles(t)
	require.Len(t, files, 1)
	image, err := os.ReadFile(files[0])
	require.NoError(t, err)
	require.Equal(t, "LibvirtQemudSave", string(image[:16]))
	copy(image, "LibvirtQemudPart")
	require.NoError(t, os.WriteFile(files[0], image, 0o600))
	_, err = h.Start(t.Context(), resume)
	conflicts(err, "the memory of its guest is not on the host's disk")
	conflicts(h.Suspend(t.Context(), in), "its machine is off")
	// Nor is what somebody removed, by whom a boot is not hindered; and one that came back is not gone on with.
	require.NoError(t, os.Remove(files[0]))
	_, err = h.Start(t.Context(), resume)
	conflicts(err, "the memory of its guest is not on the host's disk")
	copy(image, "LibvirtQemudSave")
	require.NoError(t, os.WriteFile(files[0], image, 0o600))
	_, err = h.Start(t.Context(), domain.StartInput{Server: s})
	require.NoError(t, err)
	h.hear(t, s, "TG ready", 3)
	require.NoFileExists(t, files[0])
	require.NoError(t, h.Suspend(t.Context(), in))
	require.FileExists(t, files[0])
	require.NoError(t, h.Remove(t.Context(), ofDomain(s.ID)))
	require.NoFileExists(t, files[0])
}

func (h *host) savedFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(h.SaveDir, "*.save"))
	require.NoError(t, err)
	return files
}

// A guest with encrypted disks and a vTPM is suspended where its memory is encrypted, too, and nowhere else. It goes on with
// its keys, also where libvirtd began while the volume with the memory was not open, and not without them.
func TestSuspendOfAnEncryptedServer(t *testing.T) {
	t.Parallel()
	h := setup(t, tiny)
	s := h.server(t, true, &compute.TPM{Version: compute.TPM20, Model: compute.TPMCRB})
	h.disksOf(t, s)
	in, resume := domain.SuspendInput{Server: s.ID, Encrypted: true}, domain.StartInput{Server: s, Suspended: true}
	_, err := h.Start(t.Context(), domain.StartInput{Server: s, NewTPM: true})
	require.NoError(t, err)
	h.hear(t, s, "TG ready", 0)
	j := &journey{t: t, a: h, s: s}
	err = h.Suspend(t.Context(), in)
	require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "in clear in "+h.SaveDir)
	j.goesOn(h, 0)

	h.EncryptedState = true
	dir := h.SaveDir
	h.SaveDir = h.InstancesDir // a setting that is not where libvirt writes
	err = h.Suspend(t.Context(), in)
	require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "host.suspend_state")
	_, err = h.Start(t.Context(), resume) // as its undo
	require.NoError(t, err)
	h.SaveDir = dir
	require.Empty(t, h.savedFiles(t))
	tick := j.tick(h)
	j.goesOn(h, tick)
	require.NoError(t, h.Suspend(t.Context(), in))
	tick = j.tick(h)
	files := h.savedFiles(t)
	require.Len(t, files, 1)
	require.Empty(t, h.secrets(t))
	kept, err := h.kept.Kept()
	require.NoError(t, err)
	require.Empty(t, kept)

	away := filepath.Join(t.TempDir(), "memory")
	require.NoError(t, os.Rename(files[0], away)) // on a volume that is closed
	require.NoError(t, h.daemon.Restart(t.Context()))
	_, err = h.Start(t.Context(), resume)
	require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
	require.NoError(t, os.Rename(away, files[0]))
	key := *s.TPM.Secret
	value := h.keys.change(t, key, compute.TPMPassphraseBytes)
	_, err = h.Start(t.Context(), resume)
	require.Error(t, err)
	require.FileExists(t, files[0])
	require.Empty(t, h.secrets(t))
	h.keys.set(key, value)
	for range 2 {
		_, err = h.Start(t.Context(), resume)
		require.NoError(t, err)
		require.NoFileExists(t, files[0])
		require.Empty(t, h.secrets(t))
	}
	j.goesOn(h, tick)
	log, err := h.Console(t.Context(), domain.ConsoleInput{Server: s.ID})
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(log, "TG init "))
	h.ask(t, s, "write /dev/vdb kept", "TG write file=/dev/vdb err=<nil>")

	require.NoError(t, h.Suspend(t.Context(), in))
	require.NoError(t, h.daemon.Restart(t.Context()))
	_, err = h.Start(t.Context(), domain.StartInput{Server: s})
	require.NoError(t, err)
	require.NoFileExists(t, files[0], "a boot discards it")
	h.hear(t, s, "TG ready", 1)
	_, err = h.Stop(t.Context(), domain.StopInput{Server: s.ID})
	require.NoError(t, err)
	h.keys.set(key, "") // who asks may not read it
	_, err = h.Start(t.Context(), resume)
	require.ErrorContains(t, err, "the memory of its guest is not on the host's disk")
}

// A suspension that is cancelled leaves the guest running.
func TestSuspendThatIsCancelled(t *testing.T) {
	t.Parallel()
	h := setup(t, tiny)
	s := h.running(t, false)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	time.AfterFunc(20*time.Millisecond, cancel)
	err := h.Suspend(ctx, domain.SuspendInput{Server: s.ID})
	state, unknown := h.Client.Power(t.Context(), s.ID)
	require.NoError(t, unknown)
	if err == nil { // it was faster
		require.Equal(t, compute.PowerShutdown, state)
		return
	}
	_, err = h.Start(t.Context(), domain.StartInput{Server: s, Suspended: true}) // as its undo
	require.NoError(t, err)
	j := &journey{t: t, a: h, s: s}
	j.goesOn(h, j.tick(h))
}
