package api

import (
	"strongroom/api/microversion"
	"strongroom/api/validation"
)

// regex is a query parameter that is a regular expression.
var regex = validation.Repeated(validation.Schema{"type": "string", "format": "regex"})

// sortKeys are the keys that a list may be sorted by, as the schema names them;
// what the API's old days took and ignored is refused from 2.75 on.
func sortKeys(v microversion.Version) validation.Schema {
	keys := []string{
		"access_ip_v4", "access_ip_v6", "auto_disk_config", "availability_zone", "config_drive", "created_at",
		"display_description", "display_name", "host", "hostname", "image_ref", "instance_type_id", "kernel_id", "key_name",
		"launch_index", "launched_at", "locked_by", "node", "power_state", "progress", "project_id", "ramdisk_id",
		"root_device_name", "task_state", "terminated_at", "updated_at", "user_id", "uuid", "vm_state",
	}
	if v >= 73 {
		keys = append([]string{"locked"}, keys...)
	}
	if v < 75 {
		keys = append(keys,
			"architecture", "cell_name", "cleaned", "default_ephemeral_device", "default_swap_device", "deleted", "deleted_at",
			"disable_terminate", "ephemeral_gb", "ephemeral_key_uuid", "id", "key_data", "launched_on", "memory_mb", "os_type",
			"reservation_id", "root_gb", "shutdown_terminate", "user_data", "vcpus", "vm_mode")
	}
	if v < 73 {
		keys = append(keys, "locked")
	}
	return validation.Repeated(validation.Enum(keys...))
}

// listSchema is the schema of the query of GET /servers and /servers/detail.
func listSchema(v microversion.Version) validation.Schema {
	text, when := validation.Repeated(validation.Text), validation.Repeated(validation.DateTime)
	p := validation.Properties{
		"limit": validation.Repeated(validation.NonNegative), "marker": text, "sort_key": sortKeys(v), "sort_dir": text,
		"changes-since": when,
	}
	for _, name := range []string{
		"user_id", "project_id", "tenant_id", "launch_index", "image_ref", "image", "vm_state", "task_state", "host", "uuid",
		"all_tenants", "soft_deleted", "deleted", "status", "block_device_mapping", "services", "metadata", "system_metadata",
		"info_cache", "security_groups", "pci_devices",
	} {
		p[name] = text
	}
	for _, name := range []string{
		"kernel_id", "ramdisk_id", "hostname", "key_name", "power_state", "node", "flavor", "reservation_id", "launched_at",
		"terminated_at", "availability_zone", "name", "display_name", "description", "display_description", "locked_by",
		"root_device_name", "config_drive", "access_ip_v4", "access_ip_v6", "auto_disk_config", "progress", "ip", "ip6", "created_at",
	} {
		p[name] = regex
	}
	if v >= 26 {
		p["tags"], p["tags-any"], p["not-tags"], p["not-tags-any"] = regex, regex, regex, regex
	}
	if v >= 66 {
		p["changes-before"] = when
	}
	if v >= 73 {
		p["locked"] = text
	}
	if v >= 75 {
		return validation.Object(nil, p)
	}
	return validation.Open(p)
}

var listQuery = validation.Since(listSchema, 1, 26, 66, 73, 75)
