package integration_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/imagedata"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/deploy/dev/stack"
	"strongroom/deploy/guest"
)

// What images of guests with UEFI say, and the flavors for them: signed loaders take more memory.
var (
	asksUEFI       = map[string]string{"hw_firmware_type": "uefi"}
	asksSecureBoot = map[string]string{"hw_firmware_type": "uefi", "os_secure_boot": "required", "hw_tpm_version": "2.0", "hw_tpm_model": "tpm-crb"}

	uefiFlavor   = flavorSpec{"e2e-uefi", 512, 1, 0, 0, map[string]string{"hw:ephemeral_encryption": "true"}}
	largerUEFI   = flavorSpec{"e2e-uefi-larger", 512, 2, 0, 0, map[string]string{"hw:ephemeral_encryption": "true"}}
	unsecureUEFI = flavorSpec{"e2e-uefi-unsecure", 512, 2, 0, 0, map[string]string{"hw:ephemeral_encryption": "true", "os:secure_boot": "disabled"}}
	secureBIOS   = flavorSpec{"e2e-uefi-bios", 128, 1, 0, 0, map[string]string{"os:secure_boot": "required"}}
)

// signedGuest is the tiny guest behind Debian's signed loaders.
var signedGuest = sync.OnceValues(func() (string, error) {
	path := filepath.Join(folder, "signed.qcow2")
	return path, guest.BuildUEFI(context.Background(), path, guest.Options{})
})

// signedAsking uploads it as an image of the project demo that asks for something.
func (c *testCloud) signedAsking(t *testing.T, properties map[string]string) (id string) {
	t.Helper()
	file, err := signedGuest()
	require.NoError(t, err)
	store := c.imageService(t, "-demo")
	img, err := images.Create(t.Context(), store, images.CreateOpts{
		Name: signedImage, DiskFormat: "qcow2", ContainerFormat: "bare", Properties: properties,
	}).Extract()
	require.NoError(t, err)
	t.Cleanup(func() { _ = images.Delete(context.Background(), store, img.ID).ExtractErr() })
	data, err := os.Open(file)
	require.NoError(t, err)
	defer func() { _ = data.Close() }()
	require.NoError(t, imagedata.Upload(t.Context(), store, img.ID, data).ExtractErr())
	return img.ID
}

// variables are the names of the files with UEFI variables that a host has of a server.
func variables(t *testing.T, h stack.Host, id string) (names []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(h.Instances(), id, "nvram*"))
	require.NoError(t, err)
	for _, p := range paths {
		names = append(names, filepath.Base(p))
	}
	return names
}

// keepsNote requires that the guest has the note in its UEFI variables.
func (c *testCloud) keepsNote(t *testing.T, id, note string) {
	t.Helper()
	require.Contains(t, c.tell(t, id, "efiget Note", "TG efiget "), `"`+note+`"`)
}

// A guest with signed loaders boots with Secure Boot, and its vTPM has measured the keys and what was booted; so
// it does over reboots, stops and starts, with what it wrote into its UEFI variables. They go with its
// root disk: a shelve keeps them, a rebuild makes new ones, and a delete leaves none. What would lose them is refused
// before anything changes.
func TestUEFI(t *testing.T) {
	backends(t, local, openStack)
	c := sharedCloud(t)
	image := c.signedAsking(t, asksSecureBoot)
	_, err := c.tryCreateOf(t, "-demo", secureBIOS, c.idler)
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusBadRequest), "%v", err)
	require.ErrorContains(t, err, "Secure Boot is required, and image idle does not ask for UEFI")
	_, err = c.tryCreateOf(t, "-demo", unsecureUEFI, image)
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusBadRequest), "%v", err)
	require.ErrorContains(t, err, "os:secure_boot extra spec explicitly set to disabled, conflicting with image signed")

	id := c.createOf(t, uefiFlavor, image)
	c.becomes(t, id, "ACTIVE")
	c.isUp(t, id)
	require.Contains(t, c.tell(t, id, "efi", "TG efi "), "secureboot=01 setupmode=00")
	for _, number := range []string{"4", "7"} {
		pcr, _, _ := strings.Cut(c.tell(t, id, "pcr "+number, "TG pcr"+number+"="), " ")
		require.NotEmpty(t, strings.Trim(pcr, "0"), "PCR %s", number)
	}
	c.tell(t, id, "efiset Note first", "TG efiset ")
	require.Equal(t, []string{"nvram"}, variables(t, c.Host(1), id))
	require.Empty(t, c.audit(t).Findings)

	require.NoError(t, servers.Reboot(t.Context(), c.compute(t, "-demo"), id, servers.RebootOpts{Type: servers.HardReboot}).ExtractErr())
	c.becomes(t, id, "ACTIVE")
	c.console(t, id, "TG ready", 2)
	c.keepsNote(t, id, "first")
	c.shutOff(t, id)
	require.Equal(t, []string{"nvram"}, variables(t, c.Host(1), id))
	c.startAgain(t, id)
	c.console(t, id, "TG ready", 3)
	c.keepsNote(t, id, "first")

	c.shelve(t, id)
	object := c.systemMetadata(t, id, compute.SystemNVRAMObject)
	require.True(t, strings.HasPrefix(object, "nvram/"+id+"/"), object)
	require.Contains(t, strings.Join(c.objectsOf(t, c.settled(t, id)), "\n"), object)
	require.Empty(t, variables(t, c.Host(1), id))
	require.Empty(t, c.audit(t).Findings)
	c.unshelve(t, id)
	require.NotContains(t, strings.Join(c.objectsOf(t, c.settled(t, id)), "\n"), object)
	c.console(t, id, "TG ready", 1)
	require.Contains(t, c.tell(t, id, "efi", "TG efi "), "secureboot=01 setupmode=00")
	c.keepsNote(t, id, "first")
	was := variables(t, c.Host(1), id)
	require.Len(t, was, 1)

	err = servers.Resize(t.Context(), c.compute(t, "-demo"), id, servers.ResizeOpts{FlavorRef: c.flavor(t, unsecureUEFI)}).ExtractErr()
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusBadRequest), "%v", err)
	require.Equal(t, "ACTIVE", c.settled(t, id).Status)

	c.rebuild(t, id, c.signedAsking(t, asksSecureBoot), "ACTIVE")
	c.console(t, id, "TG ready", 2)
	line := c.serial(t, id)
	require.Contains(t, line.ask("efiget Note", "TG efiget "), "no such file or directory", "they are new")
	require.NoError(t, line.conn.Close())
	require.Len(t, variables(t, c.Host(1), id), 1)
	require.NotEqual(t, was, variables(t, c.Host(1), id))
	c.rebuild(t, id, c.image, "ACTIVE")
	c.console(t, id, "TG rootdisk boots=1", 1)
	require.Empty(t, variables(t, c.Host(1), id), "it begins with a BIOS")
	c.rebuild(t, id, c.signedAsking(t, asksUEFI), "ACTIVE")
	require.Len(t, variables(t, c.Host(1), id), 1)
	require.Contains(t, c.tell(t, id, "efi", "TG efi "), "secureboot=00 setupmode=01")
	c.delete(t, id)
	c.nothingIsLeft(t)
}

// A create with Secure Boot is cut off, and one that is undone is, in its undo: the guest boots with the keys of Secure Boot in
// its variables, whatever its host's worker died in, and a server that goes leaves no variables.
func TestKillMatrixUEFI(t *testing.T) {
	backends(t, local, openStack)
	c := ownCloud(t)
	image := c.signedAsking(t, asksSecureBoot)
	goes := func(t *testing.T, id string) {
		t.Helper()
		c.delete(t, id)
		require.Empty(t, variables(t, c.Host(1), id))
		c.nothingIsLeft(t)
	}
	for _, point := range cutsOf("create with UEFI", cuts.uefiSpawn) {
		t.Run(point, func(t *testing.T) {
			c.arm(t, point)
			id := c.createOf(t, uefiFlavor, image)
			c.becomes(t, id, "ACTIVE")
			c.isUp(t, id)
			require.Contains(t, c.tell(t, id, "efi", "TG efi "), "secureboot=01 setupmode=00")
			require.Equal(t, []string{"nvram"}, variables(t, c.Host(1), id))
			require.Empty(t, c.audit(t).Findings)
			goes(t, id)
		})
	}
	for _, point := range cutsOf("undo of a create with UEFI", cuts.uefiUndo) {
		t.Run("undo, "+point, func(t *testing.T) {
			started := c.hold(t, "domain.Start@after")
			id := c.createOf(t, uefiFlavor, image)
			started.waits(t, c.progress(id))
			c.arm(t, point)
			goes(t, id)
		})
	}
}

// onUEFI is a server on the first of two hosts whose guest, which was signed, has left a note in its UEFI variables.
func (c *testCloud) onUEFI(t *testing.T) (id string) {
	t.Helper()
	image := c.signedAsking(t, asksSecureBoot)
	id = c.on(t, c.Host(1), func() string { return c.createOf(t, uefiFlavor, image) })
	c.becomes(t, id, "ACTIVE")
	c.isUp(t, id)
	c.tell(t, id, "efiset Note first", "TG efiset ")
	return id
}

// isUp waits for a guest with signed loaders on a host that it has booted on once: they take their time.
func (c *testCloud) isUp(t *testing.T, id string) {
	t.Helper()
	c.ticksOn(t, id, ticks{})
}

// UEFI variables go with a server to another host, as the guest left them; a revert brings back those that it had, and a
// confirmation leaves none of these.
func TestUEFIMoves(t *testing.T) {
	backends(t, local, openStack)
	c := twoHosts(t)
	a, b := c.Host(1), c.Host(2)
	id := c.onUEFI(t)
	c.resize(t, id, largerUEFI)
	c.requireOn(t, b, id)
	c.isUp(t, id)
	c.keepsNote(t, id, "first")
	c.tell(t, id, "efiset Note second", "TG efiset ")
	require.Len(t, variables(t, a, id), 1, "they are there until somebody decides")
	require.Empty(t, c.audit(t).Findings)
	c.revert(t, id)
	c.requireOn(t, a, id)
	c.hasNothing(t, b, id)
	c.console(t, id, "TG init", 2)
	c.keepsNote(t, id, "first")

	c.shutOff(t, id)
	was := c.remains(t, a, id).Disks["nvram"]
	require.NotEmpty(t, was)
	c.migrate(t, id)
	require.Equal(t, was, c.remains(t, b, id).Disks["nvram"], "bit for bit")
	require.NoError(t, servers.ConfirmResize(t.Context(), c.compute(t, "-demo"), id).ExtractErr())
	c.becomes(t, id, "SHUTOFF")
	c.requireOn(t, b, id)
	c.hasNothing(t, a, id)
	require.Empty(t, c.audit(t).Findings)
	c.delete(t, id)
	c.nothingIsLeft(t)
}

// A guest that moves while it runs takes its UEFI variables along, writes to them there, and brings them back.
func TestUEFILiveMigrate(t *testing.T) {
	backends(t, local, openStack)
	c := twoHosts(t)
	id := c.onUEFI(t)
	for _, to := range []stack.Host{c.Host(2), c.Host(1)} {
		c.movesRunning(t, id, to)
		c.keepsNote(t, id, "first")
		c.tell(t, id, "efiset On "+hostName(t, to), "TG efiset ")
		require.Empty(t, c.audit(t).Findings)
	}
	// What it wrote on the last host is in the file there, from which a start reads it.
	boots := strings.Count(c.console(t, id, "TG tick=", 1), "TG ready")
	c.shutOff(t, id)
	c.startAgain(t, id)
	c.console(t, id, "TG ready", boots+1)
	require.Contains(t, c.tell(t, id, "efiget On", "TG efiget "), `"`+hostName(t, c.Host(1))+`"`)
	c.delete(t, id)
	c.nothingIsLeft(t)
}
