package integration_test

import (
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"
)

// K6: a server has the devices that its image asks for, over stops, images, rescues and rebuilds; a rebuild gives it those of its new image, and a stop and a start keep them.
func TestK6AServerHasTheDevicesOfItsImage(t *testing.T) {
	backends(t, local, openStack)
	c := sharedCloud(t)
	id := c.create(t, encryptedTPM)
	c.becomes(t, id, "ACTIVE")
	c.console(t, id, "TG disk name=vda", 1)
	on, _ := c.guestAsking(t, map[string]string{"hw_disk_bus": "scsi", "hw_watchdog_action": "none", "hw_cpu_max_sockets": "1", "os_type": "linux"})
	watchdog := func(line *serial) string { return line.ask("cat /sys/bus/pci/devices/0000:00:0e.0/device", "TG cat ") }
	has := func(watched bool) {
		t.Helper()
		line := c.serial(t, id)
		line.expect("TG tick=")
		if watched {
			require.Contains(t, watchdog(line), "0x25ab")
		} else {
			require.Contains(t, watchdog(line), "no such file or directory")
		}
		require.NoError(t, line.conn.Close())
	}
	has(false)

	c.rebuild(t, id, on, "ACTIVE")
	require.Contains(t, c.console(t, id, "TG rootdisk boots=1", 2), "TG disk name=sdc")
	has(true)
	c.shutOff(t, id)
	c.startAgain(t, id)
	log := c.console(t, id, "TG rootdisk boots=2", 1)
	require.Contains(t, log[strings.LastIndex(log, "TG init"):], "TG disk name=sdc")
	has(true)

	img := c.createImage(t, id, copiedImage, nil)
	require.Equal(t, "scsi", img.Properties["hw_disk_bus"])
	copied := c.createOf(t, encryptedTPM, img.ID)
	c.becomes(t, copied, "ACTIVE")
	require.Contains(t, c.console(t, copied, "TG rootdisk boots=3", 1), "TG disk name=sdc")
	c.delete(t, copied)
	c.deleteImage(t, img)

	rescue := servers.Rescue(t.Context(), c.compute(t, "-demo"), id, servers.RescueOpts{RescueImageRef: c.image})
	require.NoError(t, rescue.Err)
	c.becomes(t, id, "RESCUE")
	c.console(t, id, "TG disk name=vda", 2) // beside the others, on SCSI
	require.NoError(t, servers.Unrescue(t.Context(), c.compute(t, "-demo"), id).ExtractErr())
	c.becomes(t, id, "ACTIVE")
	c.console(t, id, "TG rootdisk boots=3", 1)
	c.rebuild(t, id, c.image, "ACTIVE")
	c.shutOff(t, id)
	c.startAgain(t, id)
	has(false)
	c.delete(t, id)
	c.nothingIsLeft(t)
}
