package domain_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/compute"
)

// loops stands in for what opens volumes, of which the kernel that tests run on may
// know nothing: a disk is a loop device on its file. activities/disk tests the real one.
type loops struct {
	dir    string
	server compute.ServerID
	mu     sync.Mutex
	open   map[compute.DiskID]string
}

func (l *loops) OpenDevices(_ context.Context, _ compute.Credential, s compute.Server) (map[compute.DiskID]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range s.Disks {
		if d.OnDevice() && l.open[d.ID] == "" {
			out, err := exec.Command("losetup", "--find", "--show", filepath.Join(l.dir, d.ID.String())).Output()
			if err != nil {
				return nil, compute.Errorf(compute.Corrupt, "disk %s is missing", d.ID)
			}
			l.open[d.ID] = strings.TrimSpace(string(out))
		}
	}
	return l.open, nil
}

func (l *loops) CloseDevices(context.Context, compute.ServerID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, path := range l.open {
		if err := exec.Command("losetup", "--detach", path).Run(); err != nil {
			return err
		}
		delete(l.open, id)
	}
	return nil
}

func (l *loops) OpenServers(context.Context) ([]compute.ServerID, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) == 0 {
		return nil, nil
	}
	return []compute.ServerID{l.server}, nil
}

func (l *loops) PoolImages(context.Context, compute.Server) (map[compute.DiskID]string, error) {
	return nil, nil
}

func (l *loops) PoolRoom(context.Context) (total, free int64, ok bool, err error) {
	return 0, 0, false, nil
}

func (l *loops) NoteBoot(context.Context, compute.ServerID, time.Time) error { return nil }

func (l *loops) DeviceFormats(context.Context) ([]compute.DiskFormat, error) {
	return []compute.DiskFormat{compute.FormatLUKSv2}, nil
}

// A server's disk that the host decrypts is open while the server runs and not
// otherwise; a running one becomes an image as any other (EE-04, EE-05).
func TestServerOnADevice(t *testing.T) {
	t.Parallel()
	h := setup(t, tiny)
	l := &loops{dir: t.TempDir(), open: map[compute.DiskID]string{}}
	h.Devices = l
	t.Cleanup(func() { require.NoError(t, l.CloseDevices(context.Background(), compute.ServerID{})) })
	got, err := h.Describe(t.Context(), false)
	require.NoError(t, err)
	require.Equal(t, []string{compute.TraitEncryption, compute.TraitEncryptionLUKS, compute.TraitEncryptionLUKSv2}, got.Traits)

	s := h.server(t, false, nil)
	l.server = s.ID
	d := &s.Disks[0]
	d.Encrypted, d.Format, d.Secret = true, compute.FormatLUKSv2, h.keys.make(t, compute.DiskPassphraseBytes)
	s.ConfigDrive = true // it has the root disk's key, and QEMU opens it
	h.record[s.ID] = s
	require.NoError(t, os.Mkdir(filepath.Join(h.InstancesDir, s.ID.String()), 0o711))
	_, err = h.Start(t.Context(), domain.StartInput{Server: s})
	require.Equal(t, compute.Corrupt, compute.KindOf(err), "no disk: %v", err)

	image, err := h.disks.CachedImage("", h.image)
	require.NoError(t, err)
	out, err := exec.Command("qemu-img", "convert", "-O", "raw", image, filepath.Join(l.dir, d.ID.String())).CombinedOutput()
	require.NoError(t, err, string(out))
	require.NoError(t, h.disks.CreateConfigDrive(t.Context(), disk.ConfigDriveInput{Server: s}))
	spoilt := s
	spoilt.Flavor.VCPUs = 100_000
	_, err = h.Start(t.Context(), domain.StartInput{Server: spoilt})
	require.Error(t, err)
	require.Empty(t, l.open, "a start that failed leaves nothing open")

	for boot := range 2 {
		_, err = h.Start(t.Context(), domain.StartInput{Server: s})
		require.NoError(t, err)
		require.Len(t, l.open, 1)
		require.Empty(t, h.secrets(t))
		require.Contains(t, h.hear(t, s, "TG ready", boot), "TG rootdisk boots="+string(rune('1'+boot))+" err=<nil>")
		if boot == 0 {
			in := domain.ExportInput{Server: s.ID, Operation: compute.NewOperationID(), Disk: *d,
				Target: compute.ExportTarget{Format: compute.ImageQcow2, Key: compute.KeyNew, Secret: h.keys.make(t, compute.DiskPassphraseBytes)}}
			done, err := h.Export(t.Context(), in)
			require.NoError(t, err)
			require.Equal(t, "aes-256", done.EncryptionOptions["cipher-alg"])
			require.NoError(t, h.disks.Remove(t.Context(), ofFile(s.ID, compute.ExportFolder(in.Operation))))
		}
		_, err = h.Stop(t.Context(), domain.StopInput{Server: s.ID})
		require.NoError(t, err)
		require.Empty(t, l.open)
	}
	_, err = h.Start(t.Context(), domain.StartInput{Server: s})
	require.NoError(t, err)
	require.NoError(t, h.CloseIdle(t.Context()))
	require.Len(t, l.open, 1, "it runs")
	h.hear(t, s, "TG ready", 2)
	h.ask(t, s, "poweroff", "TG poweroff")
	require.Eventually(t, func() bool {
		require.NoError(t, h.CloseIdle(t.Context()))
		return len(l.open) == 0
	}, time.Minute, 100*time.Millisecond, "it shut itself down")
	_, err = h.Start(t.Context(), domain.StartInput{Server: s})
	require.NoError(t, err)
	require.NoError(t, h.Remove(t.Context(), ofDomain(s.ID)))
	require.Empty(t, l.open)
}
