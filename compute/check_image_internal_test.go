package compute

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// K6: docs/images.md says of each property of images that Nova knows what it does here, and of no other.
func TestK6TheTableOfImageProperties(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/images.md")
	require.NoError(t, err)
	var want, got []string
	for _, p := range novaImageProperties {
		want = append(want, fmt.Sprintf("| `%s` | %s |", p.name, p.does))
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `\\w+` \\|.*$").FindAllString(string(text), -1) {
		got = append(got, regexp.MustCompile(`\[([^]]+)\]\([^)]+\)`).ReplaceAllString(row, "$1"))
	}
	require.Equal(t, strings.Join(want, "\n"), strings.Join(got, "\n"))
}

// K6: what Nova's users write into images is known here: the fields of its image metadata, without those of other hypervisors that hold parts of an
// image, and without signatures and caches; and the older names of what has an effect.
func TestK6ImagePropertiesOfNova(t *testing.T) {
	t.Parallel()
	for name := range strings.FieldsSeq(`
		hw_architecture hw_auto_disk_config hw_boot_menu hw_cdrom_bus hw_cpu_cores hw_cpu_max_cores hw_cpu_max_sockets hw_cpu_max_threads hw_cpu_policy
		hw_cpu_realtime_mask hw_cpu_sockets hw_cpu_thread_policy hw_cpu_threads hw_disk_bus hw_disk_type hw_emulation_architecture
		hw_emulator_threads_policy hw_ephemeral_encryption hw_ephemeral_encryption_format hw_firmware_stateless hw_firmware_type hw_floppy_bus hw_input_bus hw_ipxe_boot
		hw_locked_memory hw_machine_type hw_maxphysaddr_bits hw_maxphysaddr_mode hw_mem_encryption hw_mem_encryption_model hw_mem_page_size hw_numa_nodes
		hw_pci_numa_affinity_policy hw_pmu hw_pointer_model hw_qemu_guest_agent hw_redirected_usb_ports hw_rescue_bus hw_rescue_device hw_rng_model
		hw_scsi_model hw_serial_port_count hw_sound_model hw_time_hpet hw_tpm_model hw_tpm_version hw_usb_model hw_video_model hw_video_ram hw_vif_model
		hw_vif_multiqueue_enabled hw_viommu_model hw_virtio_packed_ring hw_vm_mode hw_watchdog_action img_config_drive img_hide_hypervisor_id
		img_hv_requested_version img_hv_type img_linked_clone os_admin_user os_command_line os_distro os_require_quiesce os_secure_boot
		os_skip_agent_inject_files_at_boot os_skip_agent_inject_ssh os_type
		architecture block_device_mapping hypervisor_type img_block_device_mapping img_mappings ipxe_boot mappings vm_mode vmware_adaptertype`) {
		require.Contains(t, knownProperties, name)
	}
}
