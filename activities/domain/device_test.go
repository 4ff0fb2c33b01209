package domain_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/compute"
	"strongroom/deploy/guest/vm"
)

// A guest boots from disks of the formats luksv2 and plain, which a kernel's dm-crypt decrypts, and
// keeps its counter over stops and starts; a rebuild's new disk has another one. Such a disk is open
// while its server runs and not otherwise; running or stopped, the server becomes an image as any
// other; and the guest's data are nowhere on the volume as they are (EE-04, EE-05).
func TestServerOnADevice(t *testing.T) {
	t.Parallel()
	if vm.Inside() {
		serveDevices(t)
		return
	}
	h := setup(t, tiny)
	c := newCrypt(t, h)
	h.Devices = c
	h.FirmwareDir = t.TempDir() // where no firmware is described
	got, err := h.Describe(t.Context(), false)
	require.NoError(t, err)
	require.Equal(t, []string{compute.TraitEncryption, compute.TraitEncryptionLUKS, compute.TraitEncryptionLUKSv2, compute.TraitEncryptionPlain, compute.TraitHardware}, withoutMachines(got.Traits))

	s := h.server(t, false, nil)
	d := &s.Disks[0]
	d.Encrypted, d.Format, d.Secret = true, compute.FormatLUKSv2, h.keys.make(t, compute.DiskPassphraseBytes)
	s.ConfigDrive = true // it has the root disk's key, and QEMU opens it
	h.record[s.ID] = s
	require.NoError(t, os.Mkdir(filepath.Join(h.InstancesDir, s.ID.String()), 0o711))
	_, err = h.Start(t.Context(), domain.StartInput{Server: s})
	require.Equal(t, compute.Corrupt, compute.KindOf(err), "no disk: %v", err)

	require.Equal(t, "luksv2", c.create(s, *d)["format"])
	require.NoError(t, h.disks.CreateConfigDrive(t.Context(), disk.ConfigDriveInput{Server: s}))
	spoilt := s
	spoilt.Flavor.VCPUs = 100_000
	_, err = h.Start(t.Context(), domain.StartInput{Server: spoilt})
	require.Error(t, err)
	c.closed("a start that failed leaves nothing open")

	h.comesUp(t, s, 0, 1)
	require.Equal(t, []compute.ServerID{s.ID}, c.servers())
	in := domain.ExportInput{Server: s.ID, Operation: compute.NewOperationID(), Disk: *d,
		Target: compute.ExportTarget{Format: compute.ImageQcow2, Key: compute.KeyNew, Secret: h.keys.make(t, compute.DiskPassphraseBytes)}}
	done, err := h.Export(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, "aes-256", done.EncryptionOptions["cipher-alg"])
	require.Equal(t, "1", h.counter(t, filepath.Join(h.InstancesDir, done.File), in.Target.Secret))
	require.NoError(t, h.disks.Remove(t.Context(), ofFile(s.ID, compute.ExportFolder(in.Operation))))
	h.halt(t, s)
	c.closed("it is off")

	h.comesUp(t, s, 1, 2)
	h.halt(t, s)
	image := c.exported(s, *d, compute.ExportTarget{Format: compute.ImageQcow2, Key: compute.KeyNone})
	require.Equal(t, "2", h.counter(t, image, nil))

	old := *d
	anew, err := s.RebuiltAs("req-rebuild", compute.RebuildArguments{Image: compute.Image{
		ID: h.image.ID, DiskFormat: h.image.DiskFormat, SizeBytes: h.image.SizeBytes, SHA256: h.image.SHA256, VirtualBytes: h.rootMB << 20,
		Properties: map[string]string{"hw_ephemeral_encryption": "true", "hw_ephemeral_encryption_format": "plain"},
	}}, compute.FormatLUKS)
	require.NoError(t, err)
	s, d = anew, &anew.Disks[0]
	require.Equal(t, compute.FormatPlain, d.Format)
	d.Secret = h.keys.make(t, compute.DiskPassphraseBytes)
	h.record[s.ID] = s
	require.Equal(t, "plain", c.create(s, *d)["format"])
	require.NoError(t, h.disks.CreateConfigDrive(t.Context(), disk.ConfigDriveInput{Server: s}))
	h.comesUp(t, s, 2, 1)
	c.removed(s, old)
	require.NoError(t, h.CloseIdle(t.Context()))
	require.Len(t, c.servers(), 1, "it runs")
	h.ask(t, s, "poweroff", "TG poweroff")
	require.Eventually(t, func() bool {
		require.NoError(t, h.CloseIdle(t.Context()))
		return len(c.servers()) == 0
	}, 3*time.Minute, time.Second, "it shut itself down")

	h.comesUp(t, s, 3, 2)
	require.NoError(t, h.Remove(t.Context(), ofDomain(s.ID)))
	c.closed("it is gone")

	plain, err := h.disks.CachedImage("", h.image)
	require.NoError(t, err)
	raw := filepath.Join(t.TempDir(), "raw")
	out, err := exec.Command("qemu-img", "convert", "-O", "raw", plain, raw).CombinedOutput()
	require.NoError(t, err, string(out))
	const known = "ldlinux.sys"
	require.NoError(t, exec.Command("grep", "-qaF", known, raw).Run(), "what the image has")
	require.False(t, c.shows(known), "what the volumes have")
	c.removed(s, *d)
	c.end()
}

// comesUp starts a server, whose console has logged so many boots, and sees how often its disk was
// booted from.
func (h *host) comesUp(t *testing.T, s compute.Server, logged, counted int) {
	t.Helper()
	_, err := h.Start(t.Context(), domain.StartInput{Server: s})
	require.NoError(t, err)
	require.Empty(t, h.secrets(t))
	require.Contains(t, h.hear(t, s, "TG ready", logged), fmt.Sprintf("TG rootdisk boots=%d err=<nil>", counted))
}

func (h *host) halt(t *testing.T, s compute.Server) {
	t.Helper()
	_, err := h.Stop(t.Context(), domain.StopInput{Server: s.ID})
	require.NoError(t, err)
}

// counter reads the guest's counter from an image, which a secret opens; nil: it is not encrypted.
func (h *host) counter(t *testing.T, image string, key *compute.SecretID) string {
	t.Helper()
	raw := filepath.Join(t.TempDir(), "raw")
	options := "driver=qcow2,file.filename=" + image
	args := []string{"convert", "-O", "raw"}
	var value string
	if key != nil {
		h.keys.mu.Lock()
		value = h.keys.values[*key]
		h.keys.mu.Unlock()
		args, options = append(args, "--object", "secret,id=key,file=/dev/stdin"), options+",encrypt.key-secret=key"
	}
	convert := exec.Command("qemu-img", append(args, "--image-opts", options, raw)...)
	convert.Stdin = strings.NewReader(value)
	out, err := convert.CombinedOutput()
	require.NoError(t, err, string(out))
	out, _ = exec.Command("e2fsck", "-fy", raw).CombinedOutput() // its journal; the exit code says that there was something
	text, err := exec.Command("debugfs", "-R", "cat /boots", raw).Output()
	require.NoError(t, err)
	require.NotEmpty(t, string(text), string(out))
	return strings.TrimSpace(string(text))
}
