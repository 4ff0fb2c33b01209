package compute_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

func TestCheckExtraSpec(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ key, value, stored string }{
		{"hw:tpm_version", "1.2", "1.2"},
		{"hw:tpm_version", "2.0", "2.0"},
		{"hw:tpm_model", "tpm-crb", "tpm-crb"},
		{"hw:tpm_model", "CRB", "tpm-crb"},
		{"hw:tpm_model", "tis", "tpm-tis"},
		{"hw:tpm_secret_security", "deployment", "deployment"},
		{"hw:ephemeral_encryption", "Yes", "Yes"},
		{"hw:ephemeral_encryption_format", "luks", "luks"},
		{"hw:ephemeral_encryption_format", "legacy_dmcrypt_plain", "plain"},
		{"hw:mem_page_size", "large", "large"},
		{"hw:mem_page_size", "2MiB", "2MiB"},
		{"trait:HW_CPU_X86_AVX2", "required", "required"},
		{"trait_1:CUSTOM_GOLD", "forbidden", "forbidden"},
		{"mine:cpu_shares", "anything", "anything"},
		{"nonsense", "anything", "anything"},
	} {
		stored, err := compute.CheckExtraSpec(c.key, c.value)
		require.NoError(t, err, "%s=%s", c.key, c.value)
		require.Equal(t, c.stored, stored)
	}
}

func TestCheckExtraSpecRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ key, value, text string }{
		{"hw:tpm_version", "3.0", "Validation failed; '3.0' is not one of: 1.2, 2.0."},
		{"hw:tpm_version", " 2.0 x", "Validation failed; ' 2.0 x' is not one of: 1.2, 2.0."},
		{"hw:tpm_model", "spapr", "Validation failed; 'spapr' is not one of: tpm-tis, tpm-crb."},
		{"hw:tpm_secret_security", "all", "Validation failed; 'all' is not one of: user, host, deployment."},
		{"hw:ephemeral_encryption", "maybe", "Validation failed; 'maybe' is not a valid boolean-like value."},
		{"hw:ephemeral_encryption_format", "rot13", "Validation failed; 'rot13' is not one of: plain, luks, luksv2."},
		{"hw:mem_page_size", "huge", `Validation failed; 'huge' is not of the format '(large|small|any|\d+([kKMGT]i?)?(b|bit|B)?)'.`},
		{"hw:mem_page_size", "2MB\n", "Validation failed; '2MB\n' is not of the format '(large|small|any|\\d+([kKMGT]i?)?(b|bit|B)?)'."},
		{"hw:mem_page_size", "64KiB", "Validation failed; extra spec 'hw:mem_page_size' with the value '64KiB' asks for what servers cannot have here."},
		{"trait:CUSTOM_GOLD", "preferred", "Validation failed; 'preferred' is not one of: required, forbidden."},
		{"trait:lower", "required", "Validation failed; extra spec 'trait:lower' does not appear to be a valid extra spec."},
		{"hw:foo", "1", "Validation failed; extra spec 'hw:foo' does not appear to be a valid extra spec."},
	} {
		_, err := compute.CheckExtraSpec(c.key, c.value)
		require.EqualError(t, err, c.text)
		require.Equal(t, compute.Invalid, compute.KindOf(err))
	}
}

// P19: all extra specs of Nova are known, and refused where their values are none, or ask
// for what servers cannot have.
func TestP19ExtraSpecsOfNova(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ key, had, not, bad string }{
		{"hw:cpu_policy", "shared", "dedicated", "pinned"},
		{"hw:cpu_thread_policy", "prefer", "isolate", "any"},
		{"hw:emulator_threads_policy", "share", "isolate", "x"},
		{"hw:cpu_dedicated_mask", "", "^1,2-3", "one"},
		{"hw:cpu_realtime", "no", "yes", "maybe"},
		{"hw:cpu_realtime_mask", "^0-1", "", "-"},
		{"hw:cpu_sockets", "1", "", "0"},
		{"hw:cpu_threads", " 2 ", "", "x"},
		{"hw:max_cpu_cores", "8", "", "0"},
		{"hw:numa_nodes", "", "2", "0"},
		{"hw:numa_cpus.0", "", "0-1", "a"},
		{"hw:numa_mem.12", "", "512", "0"},
		{"hw:pci_numa_affinity_policy", "required", "", "never"},
		{"hw:mem_encryption", "False", "True", "5"},
		{"hw:pmem", "", "4GB,16GB", "4 GB"},
		{"hw:serial_port_count", "1", "2", "-1"},
		{"hw:watchdog_action", "reset", "", "shout"},
		{"hw:viommu_model", "", "intel", "amd"},
		{"hw_rng:allowed", "True", "False", "x"},
		{"hw_rng:rate_bytes", "0", "10", "-1"},
		{"hw_video:ram_max_mb", "64", "", "-1"},
		{"os:secure_boot", "disabled", "", "optional"},
		{"os:secure_boot", "required", "", "on"},
		{"hw:machine_type", "pc-q35-7.2", "", "pc-q35-jammy"},
		{"hide_hypervisor_id", "false", "true", "x"},
		{"group_policy", "isolate", "", "both"},
		{"accel:device_profile", "", "mine", ""},
		{"pci_passthrough:alias", "", "gpu:1", "gpu"},
		{"vmware:hw_version", "13", "", ""},
		{"quota:cpu_limit", "-1", "", "many"},
		{"quota:vif_shares_level", "high", "", ""},
		{"quota:disk_total_iops_sec", "0", "100", "-1"},
		{"quota:vif_inbound_average", "0", "1000", "x"},
		{"resources:CUSTOM_GOLD", "", "1", "x"},
		{"resources_1:VGPU", "", "1", "one"},
		{"aggregate_instance_extra_specs:ssd", "<or> true <or> yes", "", ""},
		{"capabilities:cpu_info:features", "", "<in> aes", ""},
	} {
		for value, want := range map[string]string{
			c.had: "", c.not: "asks for what servers cannot have here.", c.bad: "Validation failed; '" + c.bad + "' is ",
		} {
			if value == "" {
				continue
			}
			stored, err := compute.CheckExtraSpec(c.key, value)
			if want == "" {
				require.NoError(t, err, "%s=%s", c.key, value)
				require.Equal(t, value, stored)
				continue
			}
			require.ErrorContains(t, err, want, "%s=%s", c.key, value)
			require.Equal(t, compute.Invalid, compute.KindOf(err))
		}
	}
	for _, key := range []string{
		"hw:numa_cpus", "hw:numa_cpus.x", "hw_rng:x", "hw_video:x", "os:x", "quota:x", "accel:x", "pci_passthrough:x", "vmware:x", "resources:gold",
		"capabilities:", "aggregate_instance_extra_specs:",
	} {
		_, err := compute.CheckExtraSpec(key, "1")
		require.EqualError(t, err, "Validation failed; extra spec '"+key+"' does not appear to be a valid extra spec.")
	}
}
