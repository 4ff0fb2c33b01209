package domain_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/compute"
	"strongroom/deploy/guest"
)

// signed is the talking guest behind Debian's signed shim and GRUB.
var signed = guestImage{64, once(func(ctx context.Context, out string) error { return guest.BuildUEFI(ctx, out, guest.Options{}) })}

// uefiServer is a server that begins with UEFI, with its disks and variables.
func (h *host) uefiServer(t *testing.T, secure compute.SecureBoot, tpm *compute.TPM) compute.Server {
	t.Helper()
	s := h.server(t, true, tpm)
	s.Flavor.MemoryMB = 512
	s.Image.Properties = map[string]string{"hw_firmware_type": "uefi", "os_secure_boot": string(secure)}
	h.disksOf(t, s)
	h.makeNVRAM(t, s)
	return s
}

func (h *host) makeNVRAM(t *testing.T, s compute.Server) {
	t.Helper()
	want, err := s.Firmware()
	require.NoError(t, err)
	require.NoError(t, h.disks.CreateNVRAM(t.Context(), disk.NVRAMInput{Server: s.ID, File: s.NVRAM(), Firmware: want}))
}

const (
	zeroPCR = "0000000000000000000000000000000000000000000000000000000000000000"
	noError = "err=<nil>"
)

// A guest that was signed boots with Secure Boot, and its vTPM has measured the keys (PCR 7) and what was
// booted (PCR 4). What it writes into its variables is there after a reset, after a stop, and where its
// domain was removed; without the file it does not start, since libvirt would make another one, nor with another build's.
func TestUEFISecureBoot(t *testing.T) {
	t.Parallel()
	h := setup(t, signed)
	s := h.uefiServer(t, compute.SecureBootRequired, &compute.TPM{Version: compute.TPM20, Model: compute.TPMCRB})
	start := func(boots int) {
		_, err := h.Start(t.Context(), domain.StartInput{Server: s})
		require.NoError(t, err)
		h.hear(t, s, "TG ready", boots)
	}
	start(0)
	require.Equal(t, "secureboot=01 setupmode=00 "+noError, h.ask(t, s, "efi", "TG efi "))
	for _, number := range []string{"4", "7"} {
		pcr, _, _ := strings.Cut(h.ask(t, s, "pcr "+number, "TG pcr"+number+"="), " ")
		require.Len(t, pcr, len(zeroPCR))
		require.NotEqual(t, zeroPCR, pcr)
	}
	require.Contains(t, h.ask(t, s, "efiset Note kept", "TG efiset "), noError)
	require.Empty(t, h.secrets(t))
	_, err := h.Stop(t.Context(), domain.StopInput{Server: s.ID})
	require.NoError(t, err)
	require.NoError(t, h.Remove(t.Context(), compute.Removal{Thing: compute.Thing{
		Kind: compute.ThingDomain, Name: s.InstanceName(), Owner: compute.ServerOwner(s.ID)}}))
	start(1)
	require.Equal(t, `"kept" `+noError, h.ask(t, s, "efiget Note", "TG efiget "))
	_, err = h.Stop(t.Context(), domain.StopInput{Server: s.ID})
	require.NoError(t, err)

	path := filepath.Join(h.InstancesDir, s.ID.String(), s.NVRAM())
	require.NoError(t, os.Rename(path, path+".aside"))
	_, err = h.Start(t.Context(), domain.StartInput{Server: s})
	require.Equal(t, compute.Corrupt, compute.KindOf(err))
	require.ErrorContains(t, err, "its UEFI variables are missing")
	require.NoFileExists(t, path)
	require.NoError(t, os.WriteFile(path, make([]byte, 128<<10), 0o600)) // as the smaller builds of Debian have it
	_, err = h.Start(t.Context(), domain.StartInput{Server: s})
	require.Equal(t, compute.Conflict, compute.KindOf(err))
	require.ErrorContains(t, err, "its UEFI variables have 131072 bytes")
}

// Without Secure Boot the same image boots, and the firmware has no keys.
func TestUEFIWithoutSecureBoot(t *testing.T) {
	t.Parallel()
	h := setup(t, signed)
	s := h.uefiServer(t, compute.SecureBootDisabled, nil)
	_, err := h.Start(t.Context(), domain.StartInput{Server: s})
	require.NoError(t, err)
	h.hear(t, s, "TG ready", 0)
	require.Equal(t, "secureboot=00 setupmode=01 "+noError, h.ask(t, s, "efi", "TG efi "))
}

// A guest that moves while it runs takes its variables along, and goes on writing to them there. Where the
// hosts' firmware differ it stays.
func TestUEFILiveMigration(t *testing.T) {
	t.Parallel()
	a, b := setup(t, signed), setup(t, signed)
	p := &journey{t: t, a: a, from: compute.HostID{UUID: id(0x70)}}
	p.b = &beside{host: b, from: p.from}
	a.Hosts = p.b
	b.keys.values = a.keys.values
	p.s = a.uefiServer(t, compute.SecureBootOptional, &compute.TPM{Version: compute.TPM20, Model: compute.TPMCRB})
	require.NoError(t, b.disks.CacheImage(t.Context(), disk.CacheImageInput{Image: a.image}))
	_, err := a.Start(t.Context(), domain.StartInput{Server: p.s})
	require.NoError(t, err)
	a.hear(t, p.s, "TG ready", 0)
	require.Contains(t, a.ask(t, p.s, "efiset Note kept", "TG efiset "), noError)

	b.makeNVRAM(t, p.s)
	b.FirmwareDir = plainFirmware(t)
	in := p.expect()
	_, err = a.Migrate(t.Context(), in)
	require.ErrorContains(t, err, "Secure Boot on one host and not on the other")
	p.staysHere()

	b.FirmwareDir = ""
	in = p.expect()
	was := p.tick(a)
	got, err := a.Migrate(t.Context(), in)
	require.NoError(t, err)
	require.True(t, got.Arrived)
	require.Equal(t, domain.ArrivedResult{Arrived: true, PowerState: compute.PowerRunning}, p.arrived())
	p.goesOn(b, was)
	require.Equal(t, `"kept" `+noError, b.ask(t, p.s, "efiget Note", "TG efiget "))
	require.Contains(t, b.ask(t, p.s, "efiset More there", "TG efiset "), noError)
	_, err = b.Stop(t.Context(), domain.StopInput{Server: p.s.ID})
	require.NoError(t, err)
	_, err = b.Start(t.Context(), domain.StartInput{Server: p.s})
	require.NoError(t, err)
	b.hear(t, p.s, "TG ready", 0)
	require.Equal(t, `"kept" `+noError, b.ask(t, p.s, "efiget Note", "TG efiget "))
	require.Equal(t, `"there" `+noError, b.ask(t, p.s, "efiget More", "TG efiget "))
}

// plainFirmware describes Debian's firmware without Secure Boot alone.
func plainFirmware(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile("/usr/share/qemu/firmware/60-edk2-x86_64.json")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "60-edk2-x86_64.json"), text, 0o600))
	return dir
}
