package domain_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/compute"
)

// EE-26: a rescued server boots from its rescue disk and has its own disks after
// it, each with its own key; its TPM goes on. Unrescued it is as it was.
func TestRescue(t *testing.T) {
	t.Parallel()
	h := setup(t, tiny)
	s := h.server(t, true, &compute.TPM{Version: compute.TPM20, Model: compute.TPMCRB})
	h.disksOf(t, s)
	image := h.image
	d, err := compute.PlanRescue("req-1", compute.RescueArguments{Image: image})
	require.NoError(t, err)
	for range 2 {
		_, err = h.disks.Create(t.Context(), disk.CreateInput{Server: s.ID, Disk: d, Image: d.Source})
		require.NoError(t, err)
	}

	h.boots(t, s, 0, "TG rootdisk boots=1 err=<nil>", "TG tpm nvcount=1 err=<nil>", "TG disk name=vdb mib=1024 content=empty")
	h.ask(t, s, "write /dev/vdb mine", "TG write file=/dev/vdb err=<nil>")
	h.boots(t, s.RescuedWith(d), 1, "TG rootdisk boots=1 err=<nil>", "TG tpm nvcount=2 err=<nil>",
		"TG disk name=vdb mib=64 content=ext4", "TG disk name=vdc mib=1024 content=data", "TG disk name=vdd mib=32 content=empty")
	h.ask(t, s, "cat /dev/vdc", `TG cat "mine" err=<nil>`)
	h.ask(t, s, "write /dev/vdc repaired", "TG write file=/dev/vdc err=<nil>")
	h.boots(t, s, 2, "TG rootdisk boots=2 err=<nil>", "TG tpm nvcount=3 err=<nil>", "TG disk name=vdb mib=1024 content=data")
	h.ask(t, s, "cat /dev/vdb", `TG cat "repaired" err=<nil>`)
}

// boots takes a server's machine down, starts it as it is planned now, and requires
// what its guest must say. Libvirt keeps no secret.
func (h *host) boots(t *testing.T, s compute.Server, boots int, lines ...string) {
	t.Helper()
	_, err := h.Stop(t.Context(), domain.StopInput{Server: s.ID, GraceSeconds: 30})
	require.NoError(t, err)
	_, err = h.Start(t.Context(), domain.StartInput{Server: s})
	require.NoError(t, err)
	require.Empty(t, h.secrets(t))
	said := h.hear(t, s, "TG ready", boots)
	for _, line := range lines {
		require.Contains(t, said, line)
	}
}

// EE-26: the rescue disk of an encrypted image is encrypted with the image's
// secret, also for a server that is not; libvirt is lent it once for both files.
func TestRescueWithAnEncryptedImage(t *testing.T) {
	t.Parallel()
	h := setup(t, tiny)
	s := h.server(t, false, nil)
	h.disksOf(t, s)
	key := h.keys.make(t, compute.DiskPassphraseBytes)
	image := h.encryptedImage(t, *key)
	d, err := compute.PlanRescue("req-1", compute.RescueArguments{Image: image})
	require.NoError(t, err)
	use, err := image.CacheUse("p1", s.ID, d)
	require.NoError(t, err)
	require.NoError(t, h.disks.CacheImage(t.Context(), disk.CacheImageInput{Image: image, Use: use}))
	_, err = h.disks.Create(t.Context(), disk.CreateInput{Server: s.ID, Project: "p1", Disk: d, Image: d.Source})
	require.NoError(t, err)
	s.ProjectID = "p1"

	h.boots(t, s, 0, "TG rootdisk boots=1 err=<nil>")
	h.boots(t, s.RescuedWith(d), 1, "TG rootdisk boots=1 err=<nil>", "TG disk name=vdb mib=64 content=ext4")
	h.ask(t, s, "write note not-in-clear", "TG write file=note err=<nil>")
	h.boots(t, s.RescuedWith(d), 2, "TG rootdisk boots=2 err=<nil>") // a reboot by force
	require.Empty(t, grep(t, filepath.Join(h.InstancesDir, s.ID.String(), d.Name()), "not-in-clear"), "INVARIANT: a rescue disk is in clear")
	h.boots(t, s, 3, "TG rootdisk boots=2 err=<nil>")

	right := h.keys.change(t, *key, compute.DiskPassphraseBytes)
	_, err = h.Stop(t.Context(), domain.StopInput{Server: s.ID})
	require.NoError(t, err)
	_, err = h.Start(t.Context(), domain.StartInput{Server: s.RescuedWith(d)})
	require.Equal(t, compute.Corrupt, compute.KindOf(err), "%v", err)
	require.Empty(t, h.secrets(t))
	h.keys.set(*key, right)
}

// encryptedImage encrypts the host's image and puts that into its image store.
func (h *host) encryptedImage(t *testing.T, key compute.SecretID) compute.Image {
	t.Helper()
	plain, err := h.disks.CachedImage("", h.image)
	require.NoError(t, err)
	p, err := h.keys.Passphrase(t.Context(), compute.Credential{}, key)
	require.NoError(t, err)
	defer p.Wipe()
	pipe, err := p.Pipe()
	require.NoError(t, err)
	defer pipe.Close()
	file := filepath.Join(t.TempDir(), "image")
	cmd := exec.Command("qemu-img", "convert", "-f", "qcow2", "-O", "qcow2", "--object", "secret,id=k,file=/dev/fd/3",
		"-o", "encrypt.format=luks,encrypt.key-secret=k,encrypt.iter-time=10,encrypt.hash-alg=sha512", plain, file)
	cmd.ExtraFiles = []*os.File{pipe}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	sum := sha256.Sum256(data)
	h.disks.Images = imageStore(data)
	return compute.Image{
		ID: compute.ImageID{UUID: uuid.New()}, DiskFormat: "qcow2", SizeBytes: int64(len(data)), SHA256: hex.EncodeToString(sum[:]),
		Properties: map[string]string{"os_encrypt_key_id": key.String(), "os_encrypt_format": "LUKSv1"},
	}
}
