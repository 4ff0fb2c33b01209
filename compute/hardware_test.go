package compute_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

func asking(properties map[string]string) compute.Image {
	return compute.Image{Name: "odd", DiskFormat: compute.ImageQcow2, Devices: true, Pages: true, Properties: properties}
}

// K6: an image has a say about the devices of a server; where it says nothing, or what is not offered, the server has those that all have.
func TestK6HardwareOfFlavorAndImage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		flavor, image map[string]string
		want          compute.Hardware
	}{
		{nil, nil, compute.Hardware{}},
		{nil, map[string]string{"hw_vif_model": "virtio", "hw_video_model": "vga", "hw_watchdog_action": "disabled", "os_type": "linux"}, compute.Hardware{}},
		{nil, map[string]string{"hw_vif_model": "e1000e", "hw_vif_multiqueue_enabled": "true"}, compute.Hardware{NIC: compute.NIC{Model: "e1000e"}}},
		{nil, map[string]string{"hw_vif_model": "VirtualE1000"}, compute.Hardware{NIC: compute.NIC{Model: "e1000"}}},
		{nil, map[string]string{"hw_vif_model": "pcnet"}, compute.Hardware{}},
		{nil, map[string]string{"hw_vif_multiqueue_enabled": "yes"}, compute.Hardware{NIC: compute.NIC{Queues: 4}}},
		{map[string]string{"hw:vif_multiqueue_enabled": "1"}, nil, compute.Hardware{NIC: compute.NIC{Queues: 4}}},
		{nil, map[string]string{"hw_video_model": "virtio", "hw_video_ram": "64"}, compute.Hardware{Video: "virtio"}},
		{nil, map[string]string{"hw_video_model": "bochs", "hw_video_ram": " 64 "}, compute.Hardware{Video: "bochs", VideoMB: 64}},
		{nil, map[string]string{"hw_video_ram": "64"}, compute.Hardware{VideoMB: 64}},
		{nil, map[string]string{"hw_video_model": "none", "hw_video_ram": "64"}, compute.Hardware{Video: "none"}},
		{map[string]string{"hw:watchdog_action": "reset"}, nil, compute.Hardware{Watchdog: "reset"}},
		{map[string]string{"hw:watchdog_action": "reset"}, map[string]string{"hw_watchdog_action": "none"}, compute.Hardware{Watchdog: "none"}},
		{map[string]string{"hw:watchdog_action": "reset"}, map[string]string{"hw_watchdog_action": "disabled"}, compute.Hardware{}},
		{nil, map[string]string{"hw_qemu_guest_agent": "True", "os_type": "Windows"}, compute.Hardware{GuestAgent: true, Windows: true}},
		{nil, map[string]string{"hw_pointer_model": "usbtablet"}, compute.Hardware{Tablet: "usb"}},
		{nil, map[string]string{"hw_pointer_model": "usbtablet", "hw_input_bus": "virtio"}, compute.Hardware{Tablet: "virtio"}},
		{map[string]string{"hw:input_bus": "usb"}, map[string]string{"hw_pointer_model": "usbtablet"}, compute.Hardware{Tablet: "usb"}},
		{map[string]string{"hw:input_bus": "usb"}, nil, compute.Hardware{Tablet: "usb"}},
		{nil, map[string]string{"hw_cpu_cores": "2"}, compute.Hardware{Topology: &compute.Topology{Sockets: 2, Cores: 2, Threads: 1}}},
	} {
		s := compute.Server{Flavor: compute.Flavor{VCPUs: 4, ExtraSpecs: c.flavor}, Image: asking(c.image)}
		require.Equal(t, c.want, s.Hardware(), "%v %v", c.flavor, c.image)
		s.Image.Devices = false
		require.Equal(t, compute.Hardware{}, s.Hardware(), "one of an earlier release")
	}
	many := compute.Server{Flavor: compute.Flavor{VCPUs: 1}, Image: asking(map[string]string{"hw_vif_multiqueue_enabled": "yes"})}
	require.Equal(t, compute.Hardware{}, many.Hardware(), "a CPU works off one queue")
	many.Flavor.VCPUs = 64
	require.Equal(t, 16, many.Hardware().NIC.Queues)
}

// K6: CPUs are arranged as Nova arranges them.
func TestK6TopologyOfCPUs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cpus          int
		flavor, image map[string]string
		want          []int
		says          string
	}{
		{cpus: 8},
		{cpus: 8, image: map[string]string{"hw_cpu_sockets": "2"}, want: []int{2, 4, 1}},
		{cpus: 8, image: map[string]string{"hw_cpu_threads": "2"}, want: []int{4, 1, 2}},
		{cpus: 8, image: map[string]string{"hw_cpu_sockets": "2", "hw_cpu_threads": "2"}, want: []int{2, 2, 2}},
		{cpus: 8, image: map[string]string{"hw_cpu_max_sockets": "1"}, want: []int{1, 8, 1}},
		{cpus: 8, image: map[string]string{"hw_cpu_max_sockets": "1", "hw_cpu_max_cores": "4"}, want: []int{1, 4, 2}},
		{cpus: 7, image: map[string]string{"hw_cpu_sockets": "2"}, want: []int{7, 1, 1}}, // a wish
		{cpus: 8, flavor: map[string]string{"hw:cpu_sockets": "4"}, want: []int{4, 2, 1}},
		{cpus: 8, flavor: map[string]string{"hw:cpu_sockets": "4"}, image: map[string]string{"hw_cpu_sockets": "2"}, want: []int{2, 4, 1}},
		{cpus: 8, flavor: map[string]string{"hw:cpu_sockets": "4", "hw:cpu_threads": "2"}, image: map[string]string{"hw_cpu_cores": "8"}, want: []int{1, 8, 1}}, // nothing of the flavor's
		{cpus: 8, flavor: map[string]string{"hw:cpu_sockets": "4", "hw:cpu_threads": "2", "hw:max_cpu_threads": "1"}, want: []int{8, 1, 1}},                     // nor here
		{cpus: 8, flavor: map[string]string{"hw:cpu_max_sockets": "2"}, want: []int{2, 4, 1}},
		{cpus: 8, flavor: map[string]string{"hw:max_cpu_sockets": "4"}, image: map[string]string{"hw_cpu_max_sockets": "2"}, want: []int{2, 4, 1}},
		{cpus: 8, flavor: map[string]string{"hw:max_cpu_sockets": "2"}, image: map[string]string{"hw_cpu_max_sockets": "4"},
			says: "Image odd: its property hw_cpu_max_sockets is 4, and flavor f allows 2."},
		{cpus: 8, flavor: map[string]string{"hw:max_cpu_cores": "2"}, image: map[string]string{"hw_cpu_cores": "4"},
			says: "Image odd: its property hw_cpu_cores is 4, and at most 2 are allowed."},
		{cpus: 7, image: map[string]string{"hw_cpu_max_sockets": "2", "hw_cpu_max_cores": "2", "hw_cpu_max_threads": "2"},
			says: "7 CPUs cannot be arranged in at most 2 sockets of at most 2 cores of at most 2 threads."},
	} {
		flavor := compute.Flavor{Name: "f", VCPUs: c.cpus, ExtraSpecs: c.flavor}
		err := compute.CheckHardware(flavor, asking(c.image))
		if c.says != "" {
			require.EqualError(t, err, c.says)
			require.Equal(t, compute.Invalid, compute.KindOf(err))
			continue
		}
		require.NoError(t, err)
		var got []int
		if is := (compute.Server{Flavor: flavor, Image: asking(c.image)}).Hardware().Topology; is != nil {
			got = []int{is.Sockets, is.Cores, is.Threads}
		}
		require.Equal(t, c.want, got, "%d %v %v", c.cpus, c.flavor, c.image)
	}
}

// K6: what flavor and image together cannot have is refused: an image has as much video memory as its flavor allows and its card can have.
func TestK6FlavorAndImageDisagree(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		flavor, image map[string]string
		kind          compute.Kind
		says          string
	}{
		{map[string]string{"hw_video:ram_max_mb": "64"}, map[string]string{"hw_video_ram": "64"}, "", ""},
		{map[string]string{"hw_video:ram_max_mb": "32"}, map[string]string{"hw_video_ram": "64"}, compute.Invalid, "The requested amount of video memory 64 is higher than the maximum allowed by flavor 32."},
		{nil, map[string]string{"hw_video_ram": " 64"}, compute.Invalid, "The requested amount of video memory 64 is higher than the maximum allowed by flavor 0."},
		{map[string]string{"hw_video:ram_max_mb": "512"}, map[string]string{"hw_video_ram": "512"}, compute.Invalid, "Image odd: its property hw_video_ram is 512, and a video card vga has 1 to 256 MiB."},
		{map[string]string{"hw_video:ram_max_mb": "512"}, map[string]string{"hw_video_ram": "2", "hw_video_model": "bochs"}, compute.Invalid, "Image odd: its property hw_video_ram is 2, and a video card bochs has 4 to 256 MiB."},
		{map[string]string{"hw_video:ram_max_mb": "512"}, map[string]string{"hw_video_ram": "2", "hw_video_model": "virtio"}, compute.Invalid, "Image odd asks for what servers cannot have here: hw_video_ram=2 of a video card virtio."},
		{map[string]string{"hw:vif_multiqueue_enabled": "yes"}, map[string]string{"hw_vif_multiqueue_enabled": "true"}, "", ""},
		{map[string]string{"hw:vif_multiqueue_enabled": "yes"}, map[string]string{"hw_vif_multiqueue_enabled": "no"}, compute.Conflict,
			"Flavor f has hw:vif_multiqueue_enabled extra spec explicitly set to yes, conflicting with image odd which has hw_vif_multiqueue_enabled explicitly set to no."},
		{map[string]string{"hw:input_bus": "usb"}, map[string]string{"hw_input_bus": "virtio"}, compute.Conflict,
			"Flavor f has hw:input_bus extra spec explicitly set to usb, conflicting with image odd which has hw_input_bus explicitly set to virtio."},
	} {
		err := compute.CheckHardware(compute.Flavor{Name: "f", VCPUs: 2, ExtraSpecs: c.flavor}, asking(c.image))
		if require.Equal(t, c.kind, compute.KindOf(err), "%v %v: %v", c.flavor, c.image, err); c.kind != "" {
			require.EqualError(t, err, c.says)
		}
		earlier := asking(c.image)
		earlier.Devices = false
		require.NoError(t, compute.CheckHardware(compute.Flavor{Name: "f", VCPUs: 2, ExtraSpecs: c.flavor}, earlier), "a server of an earlier release has none of it")
	}
}

// K6: the disks of a new server are on the bus of its image, a rebuild gives it those of the new one, and a resize one more of the same. It needs a
// host that gives machines what they ask for; one that asks for nothing goes to any.
func TestK6DisksAreOnTheBusOfTheImage(t *testing.T) {
	t.Parallel()
	names := func(disks []compute.Disk) (out []string) {
		for _, d := range disks {
			out = append(out, d.DeviceName+" "+d.Bus)
		}
		return out
	}
	flavor := compute.Flavor{Name: "f", VCPUs: 1, MemoryMB: 64, RootGB: 1, EphemeralGB: 1, SwapMB: 64}
	for bus, want := range map[string][]string{
		"": {"/dev/vda virtio", "/dev/vdb virtio", "/dev/vdc virtio"}, "virtio": {"/dev/vda virtio", "/dev/vdb virtio", "/dev/vdc virtio"},
		"ide":  {"/dev/vda virtio", "/dev/vdb virtio", "/dev/vdc virtio"}, // as a server that was imported
		"scsi": {"/dev/sda scsi", "/dev/sdb scsi", "/dev/sdc scsi"}, "sata": {"/dev/sda sata", "/dev/sdb sata", "/dev/sdc sata"},
	} {
		image := asking(map[string]string{"hw_disk_bus": bus})
		disks := compute.PlanDisks("req-1", flavor, image, compute.Encryption{})
		require.Equal(t, want, names(disks), bus)
		s := compute.Server{Flavor: flavor, Image: image, Disks: disks}
		require.Equal(t, want[0] != "/dev/vda virtio", len(compute.RequestOf(s).Traits.Required) == 1, bus)
		rebuilt, err := s.RebuiltAs("req-2", compute.RebuildArguments{Image: asking(map[string]string{"hw_disk_bus": "sata"})}, compute.FormatPlain)
		require.NoError(t, err)
		require.Equal(t, []string{"/dev/sda sata", "/dev/sdb sata", "/dev/sdc sata"}, names(rebuilt.Disks))
		rescue, err := compute.PlanRescue("req-3", compute.RescueArguments{Image: image})
		require.NoError(t, err)
		require.Equal(t, want[0], names([]compute.Disk{rescue})[0])
	}
	s := compute.Server{Flavor: flavor, Image: asking(nil)}
	s.Flavor.ExtraSpecs = map[string]string{"hw:watchdog_action": "pause"}
	s.Disks = compute.PlanDisks("req-1", flavor, s.Image, compute.Encryption{})
	require.Equal(t, []string{compute.TraitHardware}, compute.RequestOf(s).Traits.Required)
	s.Image.Devices = false
	require.Empty(t, compute.RequestOf(s).Traits.Required)
	s.Image.Properties = map[string]string{"hw_disk_bus": "sata"} // which had no say when an earlier release made the server
	require.Equal(t, []string{"/dev/vda virtio", "/dev/vdb virtio", "/dev/vdc virtio"}, names(compute.PlanDisks("req-1", flavor, s.Image, compute.Encryption{})))
}

// K6: a rescue disk is the first one on its bus, which the rescue image says, and the others of that bus have the next names.
func TestK6RescueDisksOnAnotherBus(t *testing.T) {
	t.Parallel()
	flavor := compute.Flavor{Name: "f", VCPUs: 1, MemoryMB: 64, RootGB: 1, SwapMB: 64}
	for _, c := range []struct {
		image, rescue map[string]string
		want          []string
	}{
		{nil, nil, []string{"/dev/vda", "/dev/vdb", "/dev/vdc"}},
		{map[string]string{"hw_disk_bus": "scsi"}, nil, []string{"/dev/vda", "/dev/sda", "/dev/sdb"}},
		{nil, map[string]string{"hw_disk_bus": "scsi", "hw_rescue_bus": "sata"}, []string{"/dev/sda", "/dev/vda", "/dev/vdb"}},
		{map[string]string{"hw_disk_bus": "scsi"}, map[string]string{"hw_rescue_bus": "sata"}, []string{"/dev/sda", "/dev/sdb", "/dev/sdc"}},
	} {
		s := compute.Server{Flavor: flavor, Image: asking(c.image)}
		s.Disks = compute.PlanDisks("req-1", flavor, s.Image, compute.Encryption{})
		disk, err := compute.PlanRescue("req-2", compute.RescueArguments{Image: compute.Image{DiskFormat: compute.ImageQcow2, Properties: c.rescue}})
		require.NoError(t, err)
		var names []string
		for _, d := range s.RescuedWith(disk).Attached() {
			names = append(names, d.DeviceName)
		}
		require.Equal(t, c.want, names)
	}
}
