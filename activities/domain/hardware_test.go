package domain_test

import (
	"fmt"
	"strings"
	"testing"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"libvirt.org/go/libvirtxml"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/compute"
)

// asks has a server's image ask for devices.
func asks(properties map[string]string) func(*compute.Server) {
	return func(s *compute.Server) {
		s.Image.Devices, s.Image.Properties = true, properties
		for i := range s.Disks {
			s.Disks[i].Bus = compute.DiskBus(s.Image)
			s.Disks[i].DeviceName = compute.DeviceName(s.Disks[i].Bus, i)
		}
	}
}

// asking is a server of an image that asks for devices.
func (h *host) asking(t *testing.T, properties map[string]string) compute.Server {
	t.Helper()
	s := h.server(t, false, nil)
	asks(properties)(&s)
	return s
}

// K6: a guest has the disk, the watchdog, the channel, the pointer and the CPUs that its image asks for: it boots of that disk, and finds
// the others where they belong.
func TestK6AGuestHasTheDevicesOfItsImage(t *testing.T) {
	t.Parallel()
	h := setup(t, tiny)
	s := h.asking(t, map[string]string{
		"hw_disk_bus": "scsi", "hw_scsi_model": "virtio-scsi", "hw_watchdog_action": "reset", "hw_qemu_guest_agent": "yes", "hw_input_bus": "virtio",
		"hw_cpu_sockets": "1", "os_type": "windows",
	})
	s.Flavor.VCPUs, s.ConfigDrive = 2, true
	h.record[s.ID] = s
	h.disksOf(t, s)
	require.NoError(t, h.disks.CreateConfigDrive(t.Context(), disk.ConfigDriveInput{Server: s}))
	_, err := h.Start(t.Context(), domain.StartInput{Server: s})
	require.NoError(t, err)
	said := h.hear(t, s, "TG ready", 0)
	require.Contains(t, said, "TG rootdisk boots=1 err=<nil>")
	require.Contains(t, said, "TG disk name=sda mib=64 content=ext4")
	inside := h.typist(t, s)
	require.Equal(t, "err=<nil>", inside.ask("config", "TG config "), "the CD-ROM is beside the disk")
	read := func(file string) string { return strings.TrimSpace(inside.cat(file)) }
	for place, is := range map[string]string{"0f": "0x1004", "0e": "0x25ab", "0d": "0x1003", "0c": "0x1052"} { // virtio SCSI, i6300esb, virtio console, virtio input
		require.Equal(t, is, read("/sys/bus/pci/devices/0000:00:"+place+".0/device"), place)
	}
	require.Equal(t, "org.qemu.guest_agent.0", read("/sys/class/virtio-ports/vport1p1/name"))
	require.Equal(t, "0-1", read("/sys/devices/system/cpu/cpu0/topology/package_cpus_list"), "one socket")
	require.Equal(t, "0", read("/sys/devices/system/cpu/cpu0/topology/core_cpus_list"), "of two cores")
	require.NoError(t, h.Remove(t.Context(), ofDomain(s.ID)))
}

// K6: a guest goes on elsewhere with the devices of its image, on each machine type.
func TestK6DevicesMoveWithTheirGuest(t *testing.T) {
	t.Parallel()
	for _, properties := range []map[string]string{
		{"hw_machine_type": "pc", "hw_disk_bus": "sata", "hw_watchdog_action": "none", "hw_pointer_model": "usbtablet"},
		{"hw_machine_type": "q35", "hw_disk_bus": "scsi", "hw_qemu_guest_agent": "yes", "hw_input_bus": "virtio", "hw_cpu_cores": "1"},
	} {
		p := goingTo(t, setup(t, tiny), nil, false, asks(properties))
		in := p.expect()
		p.goesOn(p.a, 0)
		was := p.tick(p.a)
		got, err := p.a.Migrate(t.Context(), in)
		require.NoError(t, err, "%v", properties)
		require.True(t, got.Arrived)
		require.True(t, p.arrived().Arrived)
		p.goesOn(p.b.host, was)
		require.Equal(t, 1, qemus(t, p.s))
	}
}

// K6: QEMU has every device that images may ask for, on each machine type.
func TestK6MachinesOfEachDevice(t *testing.T) {
	t.Parallel()
	h := setupPlug(t, idle)
	h.VNC = true
	for _, c := range []struct {
		machine    string
		properties map[string]string
		has        func(libvirtxml.DomainDeviceList) string
		want       string
	}{
		{"q35", map[string]string{"hw_vif_model": "e1000", "hw_video_model": "virtio"}, cards, "e1000 e1000 virtio"},
		{"pc", map[string]string{"hw_vif_model": "VirtualE1000e", "hw_video_model": "cirrus"}, cards, "e1000e e1000e cirrus"},
		{"q35", map[string]string{"hw_vif_model": "rtl8139", "hw_video_model": "bochs", "hw_video_ram": "64"}, cards, "rtl8139 rtl8139 bochs"},
		{"q35", map[string]string{"hw_video_model": "none", "hw_vif_multiqueue_enabled": "true"}, cards, "virtio/2 virtio/2 none"},
		{"pc", map[string]string{"hw_video_ram": "64"}, cards, "virtio virtio vga"},
		{"q35", map[string]string{"hw_disk_bus": "sata", "hw_pointer_model": "usbtablet", "hw_watchdog_action": "pause"}, others, "sda sata, tablet usb, i6300esb pause"},
		{"pc", map[string]string{"hw_disk_bus": "sata", "hw_qemu_guest_agent": "true", "hw_input_bus": "usb"}, others, "sda sata, tablet usb, org.qemu.guest_agent.0"},
		{"pc", map[string]string{"hw_disk_bus": "scsi", "hw_watchdog_action": "none"}, others, "sda scsi, i6300esb none"},
	} {
		c.properties["hw_machine_type"] = c.machine
		s := h.asking(t, c.properties)
		s.Flavor.VCPUs = 2
		id := compute.PortID{UUID: uuid.New()}
		s.Networks = []compute.Network{{UUID: uuid.NewString(), MAC: "02:00:00:00:00:31", Port: &compute.Port{ID: &id, Type: compute.VIFBridge, Bridge: h.bridge}}}
		h.disksOf(t, s)
		_, err := h.Start(t.Context(), domain.StartInput{Server: s})
		require.NoError(t, err, "%v", c.properties)
		more := h.port(t, "02:00:00:00:00:32")
		more.Server, more.NIC = s.ID, s.Hardware().NIC
		require.NoError(t, h.Plug(t.Context(), more))
		var live libvirtxml.Domain
		require.NoError(t, h.Client.Do(t.Context(), func(l *libvirt.Libvirt) error {
			dom, err := l.DomainLookupByUUID(libvirt.UUID(s.ID.UUID))
			if err != nil {
				return err
			}
			text, err := l.DomainGetXMLDesc(dom, 0)
			if err != nil {
				return err
			}
			return live.Unmarshal(text)
		}))
		require.Equal(t, c.want, c.has(*live.Devices), "%v", c.properties)
		require.NoError(t, h.Remove(t.Context(), ofDomain(s.ID)))
	}
}

func cards(d libvirtxml.DomainDeviceList) string {
	card := func(i libvirtxml.DomainInterface) string {
		if i.Driver != nil && i.Driver.Queues > 1 {
			return fmt.Sprintf("%s/%d", i.Model.Type, i.Driver.Queues)
		}
		return i.Model.Type
	}
	return card(d.Interfaces[0]) + " " + card(d.Interfaces[1]) + " " + d.Videos[0].Model.Type
}

func others(d libvirtxml.DomainDeviceList) string {
	out := []string{d.Disks[0].Target.Dev + " " + d.Disks[0].Target.Bus}
	for _, i := range d.Inputs {
		if i.Type == "tablet" {
			out = append(out, "tablet "+i.Bus)
		}
	}
	for _, w := range d.Watchdogs {
		if w.Model == "i6300esb" { // another is the machine's own
			out = append(out, w.Model+" "+w.Action)
		}
	}
	for _, c := range d.Channels {
		out = append(out, c.Target.VirtIO.Name)
	}
	return strings.Join(out, ", ")
}
