package compute_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// K6: what an image asks for and servers cannot have is refused by name; what they are like anyway is taken, and so is what asks for nothing.
func TestK6AnImageGetsWhatItAsksForOrIsRefused(t *testing.T) {
	t.Parallel()
	for property, values := range map[string]struct{ taken, refused, wrong []string }{
		"hw_mem_encryption":          {[]string{"false", "0", ""}, []string{"true", "True", "1", "yes"}, []string{"maybe"}},
		"hw_cdrom_bus":               {[]string{"scsi", "sata", "ide", "virtio"}, nil, []string{"nonsense"}},
		"hw_floppy_bus":              {[]string{"fdc", "ide"}, nil, []string{"nonsense"}},
		"ipxe_boot":                  {[]string{"no"}, []string{"true"}, []string{"x"}},
		"vmware_adaptertype":         {[]string{""}, []string{"lsiLogic", "ide"}, nil},
		"block_device_mapping":       {[]string{"", "[]"}, []string{`[{"snapshot_id": "1"}]`}, nil},
		"img_block_device_mapping":   {[]string{"[]"}, []string{`[{"snapshot_id": "1"}]`}, nil},
		"mappings":                   {[]string{"[]"}, []string{`[{"virtual": "ephemeral0", "device": "sdb"}]`}, nil},
		"hw_locked_memory":           {[]string{"false"}, []string{"true"}, []string{"2"}},
		"hw_mem_page_size":           {[]string{"small", "large", "any", "2MB", "1048576"}, nil, []string{"huge", "-1"}},
		"hw_cpu_policy":              {[]string{"shared"}, []string{"dedicated", "mixed"}, []string{"mine"}},
		"hw_cpu_thread_policy":       {[]string{"prefer"}, []string{"isolate", "require"}, []string{"x"}},
		"hw_emulator_threads_policy": {[]string{"share"}, []string{"isolate"}, []string{"x"}},
		"hw_numa_nodes":              {nil, []string{"1", "2"}, []string{"0", "two"}},
		"hw_numa_cpus.0":             {[]string{""}, []string{"0,1"}, nil},
		"hw_numa_mem.1":              {nil, []string{"512"}, nil},
		"hw_architecture":            {[]string{"x86_64", "i686", "amd64", "X86_64", "i386"}, []string{"aarch64", "ppc64le", "AArch64"}, []string{"amd65"}},
		"hw_emulation_architecture":  {nil, []string{"aarch64"}, nil},
		"architecture":               {[]string{"x86_64"}, []string{"aarch64"}, nil},
		"vm_mode":                    {[]string{"hvm", "HVM", "hv"}, []string{"xen", "pv"}, []string{"kvm"}},
		"hw_vm_mode":                 {[]string{"hvm"}, []string{"uml"}, nil},
		"img_hv_type":                {[]string{"kvm", "qemu", "KVM"}, []string{"xen", "vmware", "vz"}, []string{"x"}},
		"img_hide_hypervisor_id":     {[]string{"false"}, []string{"true"}, nil},
		"hw_viommu_model":            {nil, []string{"intel"}, []string{"x"}},
		"hw_disk_bus":                {[]string{"virtio", "scsi", "sata"}, []string{"ide", "usb", "xen"}, []string{"nonsense"}},
		"hw_scsi_model":              {[]string{"virtio-scsi"}, []string{"lsilogic"}, []string{"x"}},
		"hw_vif_model":               {[]string{"virtio", "e1000", "e1000e", "rtl8139", "VirtualE1000", "E1000"}, []string{"pcnet", "vmxnet3", "igb"}, []string{"nonsense"}},
		"hw_vif_multiqueue_enabled":  {[]string{"true", "false"}, nil, []string{"4"}},
		"hw_video_model":             {[]string{"vga", "virtio", "cirrus", "bochs", "none"}, []string{"qxl", "vmvga"}, []string{"x"}},
		"hw_video_ram":               {[]string{"16"}, nil, []string{"0", "much"}},
		"hw_rng_model":               {[]string{"virtio"}, nil, []string{"x"}},
		"hw_watchdog_action":         {[]string{"disabled", "none", "pause", "poweroff", "reset"}, nil, []string{"shout"}},
		"hw_pointer_model":           {[]string{"usbtablet"}, nil, []string{"ps2mouse"}},
		"hw_input_bus":               {[]string{"usb", "virtio"}, nil, []string{"x"}},
		"hw_qemu_guest_agent":        {[]string{"yes", "no"}, nil, []string{"maybe"}},
		"os_require_quiesce":         {[]string{"no"}, []string{"yes"}, []string{"maybe"}},
		"hw_cpu_sockets":             {[]string{"1", "2"}, nil, []string{"0", "x"}},
		"hw_cpu_max_threads":         {[]string{"1"}, nil, []string{"0"}},
		"hw_serial_port_count":       {[]string{"1"}, []string{"2"}, []string{"-1"}},
		"hw_boot_menu":               {[]string{"false"}, []string{"true"}, []string{"x"}},
		"hw_virtio_packed_ring":      {[]string{"false"}, []string{"true"}, nil},
		"hw_firmware_stateless":      {[]string{"false"}, []string{"true"}, nil},
		"hw_time_hpet":               {[]string{"false"}, []string{"true"}, nil},
		"hw_sound_model":             {nil, []string{"ich6"}, nil},
		"hw_usb_model":               {nil, []string{"nec-xhci"}, nil},
		"os_type":                    {[]string{"linux", "Windows"}, nil, []string{"plan9"}},
		"hw_rescue_bus":              {[]string{"virtio", "sata"}, []string{"usb"}, []string{"x"}},
		"hw_rescue_device":           {[]string{"disk"}, []string{"cdrom"}, []string{"x"}},
		"img_linked_clone":           {[]string{"yes", "no"}, nil, []string{"x"}},
		"os_distro":                  {[]string{"debian"}, nil, nil},
	} {
		check := func(value string) error {
			return compute.CheckImage(compute.Image{Name: "odd", Properties: map[string]string{property: value, "a": "b"}})
		}
		for _, value := range values.taken {
			require.NoError(t, check(value), "%s=%s", property, value)
		}
		for _, value := range values.refused {
			require.EqualError(t, check(value), "Image odd asks for what servers cannot have here: "+property+"="+value+".")
			require.Equal(t, compute.Invalid, compute.KindOf(check(value)))
		}
		for _, value := range values.wrong {
			require.ErrorContains(t, check(value), "Image odd has an invalid "+property+" property. Validation failed; '"+value+"'")
			require.Equal(t, compute.Invalid, compute.KindOf(check(value)))
		}
	}
	server := compute.Server{ID: compute.ServerID{UUID: uuid.New()}}
	_, err := server.RebuiltAs("req-1", compute.RebuildArguments{Image: compute.Image{Name: "odd", Properties: map[string]string{"hw_mem_encryption": "true"}}}, compute.FormatPlain)
	require.ErrorContains(t, err, "Image odd asks for what servers cannot have here: hw_mem_encryption=true.", "nor is it rebuilt")
}
