package integration_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/guest"
)

// Flavors of the guest that counts its boots: their servers' disks are as large as its image.
var (
	countsOnDefault = flavorSpec{"e2e-counts", 64, 0, 0, 0, map[string]string{"hw:ephemeral_encryption": "true"}}
	countsWithTPM   = flavorSpec{"e2e-counts-tpm", 64, 0, 0, 0, map[string]string{"hw:ephemeral_encryption": "true", "hw:tpm_version": "2.0"}}
	countsOnLUKS    = flavorSpec{"e2e-counts-luks", 64, 0, 0, 0, map[string]string{"trait:COMPUTE_EPHEMERAL_ENCRYPTION_PLAIN": "forbidden"}}
	countsOnLUKSv2  = flavorSpec{"e2e-counts-luksv2", 64, 0, 0, 0, map[string]string{"hw:ephemeral_encryption": "true", "hw:ephemeral_encryption_format": "luksv2"}}
	countsOnPlain   = flavorSpec{"e2e-counts-plain", 64, 0, 0, 0, map[string]string{"hw:ephemeral_encryption": "true", "hw:ephemeral_encryption_format": "plain"}}
)

// EE-03, EE-04, EE-33, EE-41, EE-42: a host makes disks in the format luksv2, its default, or plain, as a flavor asks for.
// Guests boot from what the kernel's dm-crypt decrypts, as long as they run, and keep their counters over
// a stop and a start. When the host's default is another, the disks that are there stay as they are, and new ones are
// made in it. No resize converts them to another format.
func TestServersOnDMCrypt(t *testing.T) {
	backends(t, local, openStack)
	s := newNestedServers(t, "formats")
	if s == nil {
		return
	}
	h := s.nestedHost
	s.resizeRefused(t)
	require.Len(t, h.opened(t), len(s.ids), "they run on")

	h.defaultFormat(t, "plain", "")
	client := h.compute(t, "-demo")
	for _, id := range s.ids {
		require.NoError(t, servers.Stop(t.Context(), client, id).ExtractErr())
	}
	s.become(t, "SHUTOFF")
	s.resizeRefused(t)
	require.Empty(t, h.opened(t), "they are off")
	for _, id := range s.ids {
		require.NoError(t, servers.Start(t.Context(), client, id).ExtractErr())
	}
	s.booted(t, 2)
	h.besideAnotherHost(t, s.ids[0])
	s.ids, s.formats = append(s.ids, h.createOf(t, countsOnDefault, h.count)), append(s.formats, "plain")
	s.become(t, "ACTIVE")
	h.boots(t, s.ids[2], 1)
	h.hasFormat(t, s.ids[2], "plain")
	s.end(t)
}

// EE-04, EE-42: images of servers whose disks are of the formats luksv2 and plain have what the guests wrote, and a rebuild makes a new
// disk in the format that the server has, though the host's default is another by now.
func TestImagesAndRebuildsOnDMCrypt(t *testing.T) {
	backends(t, local, openStack)
	s := newNestedServers(t, "images")
	if s == nil {
		return
	}
	h := s.nestedHost
	for _, id := range s.ids {
		img := h.createImage(t, id, "counts", map[string]any{"key": "none"})
		require.Equal(t, byte(1), counterOf(t, h.download(t, img.ID)))
		h.deleteImage(t, img)
	}
	h.defaultFormat(t, "plain", "")
	for _, id := range s.ids {
		require.NoError(t, h.tryRebuild(t, "-demo", id, h.count))
	}
	s.booted(t, 1)
	s.end(t)
}

// serversOnDMCrypt are two, of each format one, on a nested host whose default is luksv2.
type serversOnDMCrypt struct {
	*nestedHost

	ids, formats []string
}

// newNestedServers boots them, in a cloud of that name; nil in the machine.
func newNestedServers(t *testing.T, name string) *serversOnDMCrypt {
	t.Helper()
	h := newNestedHostWith(t, "luksv2", nestedNeeds{name: name})
	if h == nil {
		return nil
	}
	s := &serversOnDMCrypt{h, []string{h.createOf(t, countsOnDefault, h.count), h.createOf(t, countsOnPlain, h.count)}, []string{"luksv2", "plain"}}
	s.booted(t, 1)
	return s
}

func (s *serversOnDMCrypt) become(t *testing.T, status string) {
	t.Helper()
	for _, id := range s.ids {
		s.becomes(t, id, status)
	}
}

// booted waits until each has booted so many times from its disk, of its format.
func (s *serversOnDMCrypt) booted(t *testing.T, times int) {
	t.Helper()
	s.become(t, "ACTIVE")
	for i, id := range s.ids {
		s.boots(t, id, times)
		s.hasFormat(t, id, s.formats[i])
	}
	require.Len(t, s.opened(t), len(s.ids))
}

func (s *serversOnDMCrypt) resizeRefused(t *testing.T) {
	t.Helper()
	for i, id := range s.ids {
		s.nestedHost.resizeRefused(t, id, s.formats[i], map[string]string{})
	}
}

// end deletes them: nothing is left, and nothing was in the clear.
func (s *serversOnDMCrypt) end(t *testing.T) {
	t.Helper()
	require.Empty(t, s.audit(t).Findings)
	kept, err := os.ReadFile(s.machine.Disk)
	require.NoError(t, err)
	require.False(t, bytes.Contains(kept, []byte(guest.CountingText)), "what is on the volumes is encrypted")
	for _, id := range s.ids {
		s.delete(t, id)
	}
	require.Empty(t, s.opened(t))
	require.Empty(t, s.volumes(t))
	require.Empty(t, s.audit(t).Findings)
}

// besideAnotherHost has a host of luks alone take servers, too. EE-41: each server goes where it can run. EE-04: an image
// of a server on volumes is LUKS inside of qcow2, with a key of its own: a server of it goes on with the count, on the host of luks, and on
// that of volumes in the format that a flavor asks for.
func (h *nestedHost) besideAnotherHost(t *testing.T, counted string) {
	t.Helper()
	h.updateService(t, h.Host(1), map[string]any{"status": "enabled"})
	img := h.createImage(t, counted, "counts", map[string]any{"key": "new"})
	require.Equal(t, "LUKSv1", img.Properties["os_encrypt_format"])
	for _, of := range []struct {
		flavor       flavorSpec
		image        string
		host, format string
		boots        int
	}{
		{countsOnLUKS, img.ID, hostName(t, h.Host(1)), "luks", 3},
		{countsOnPlain, h.count, h.name, "plain", 1},
		{countsOnLUKSv2, img.ID, h.name, "luksv2", 3},
		{countsOnPlain, img.ID, h.name, "plain", 3},
	} {
		id := h.createOf(t, of.flavor, of.image)
		h.becomes(t, id, "ACTIVE")
		h.boots(t, id, of.boots)
		if of.host == h.name {
			h.hasFormat(t, id, of.format)
		}
		s, err := servers.Get(t.Context(), h.compute(t, ""), id).Extract()
		require.NoError(t, err)
		require.Equal(t, of.host, s.Host)
		require.Equal(t, of.format, h.disks(t, id)[0].Format)
		h.delete(t, id)
	}
	h.deleteImage(t, img)
	h.updateService(t, h.Host(1), map[string]any{"status": "disabled"})
}

// hasFormat requires that a server's one disk is of a format, and was really made in it.
func (h *nestedHost) hasFormat(t *testing.T, id, format string) {
	t.Helper()
	disks := h.disks(t, id)
	require.Len(t, disks, 1)
	require.Equal(t, format, disks[0].Format)
	require.Equal(t, format, disks[0].Options["format"])
	volumes := h.volumesOf(t, id)
	require.Len(t, volumes, 1)
	isLUKS := h.inside(t, "", "sh", "-c", "cryptsetup isLuks --type luks2 /dev/"+nestedGroup+"/"+volumes[0]+" && echo yes || echo no")
	require.Equal(t, format == "luksv2", isLUKS == "yes\n")
}

// counterOf reads what the counting guest has on its disk, of an image that is not encrypted.
func counterOf(t *testing.T, image string) byte {
	t.Helper()
	raw := filepath.Join(t.TempDir(), "raw")
	out, err := exec.Command("qemu-img", "convert", "-f", "qcow2", "-O", "raw", image, raw).CombinedOutput()
	require.NoError(t, err, "%s", out)
	text, err := os.ReadFile(raw)
	require.NoError(t, err)
	require.True(t, bytes.Contains(text, []byte(guest.CountingText)))
	return text[512]
}
