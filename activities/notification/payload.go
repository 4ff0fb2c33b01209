package notification

import (
	"encoding/json"
	"maps"
	"strings"
	"time"

	"strongroom/compute"
	"strongroom/schema"
)

// subject is what notifications tell about.
type subject struct {
	operation schema.Operation // none: nobody asked for what is told
	server    schema.Server
	host      string // its name; "": none
	shares    []object
	share     map[string]any // the one that the operation is about; nil: it is about none
	now       time.Time      // by the database's clock
}

// instance are the keys of InstancePayload 1.9. No address is known of a server, and it has no
// volumes.
func (s subject) instance() map[string]any {
	r := s.server
	return map[string]any{
		"uuid": r.ID, "user_id": r.UserID, "tenant_id": r.ProjectID, "reservation_id": r.ReservationID,
		"display_name": r.Name, "display_description": r.Description, "host_name": r.Hostname,
		"host": orNull(s.host), "node": orNull(s.host),
		"os_type": orNull(r.Image.Properties["os_type"]), "architecture": orNull(r.Image.Properties["hw_architecture"]),
		"availability_zone": orNull(r.AvailabilityZone), "flavor": flavor(r.Flavor), "image_uuid": r.ImageID, "key_name": r.KeyName,
		"kernel_id": "", "ramdisk_id": "",
		"created_at": seconds(&r.CreatedAt), "updated_at": seconds(r.UpdatedAt), "launched_at": seconds(r.LaunchedAt),
		"terminated_at": seconds(r.TerminatedAt), "deleted_at": seconds(r.DeletedAt),
		"state": r.VMState, "task_state": orNull(r.TaskState), "power_state": r.PowerState.Word(), "progress": r.Progress,
		"ip_addresses": []any{}, "block_devices": []any{}, "metadata": orEmpty(r.Metadata),
		"locked": r.LockedBy != nil, "locked_reason": r.LockedReason, "auto_disk_config": r.DiskConfig,
		"shares":     s.shares,
		"request_id": orNull(s.operation.ID), "action_initiator_user": orNull(s.operation.UserID), "action_initiator_project": orNull(s.operation.ProjectID),
	}
}

// flavor is FlavorPayload 1.4, of the flavor as the server keeps it.
func flavor(f compute.Flavor) object {
	return versioned("FlavorPayload", "1.4", map[string]any{
		"flavorid": f.ID, "name": f.Name, "vcpus": f.VCPUs, "memory_mb": f.MemoryMB, "root_gb": f.RootGB,
		"ephemeral_gb": f.EphemeralGB, "swap": f.SwapMB, "extra_specs": orEmpty(f.ExtraSpecs),
		"disabled": false, "is_public": true, "rxtx_factor": 1.0, "vcpu_weight": 0, "projects": nil, "description": nil,
	})
}

// attachment are the keys of SharePayload 1.0. location is "" but where an operator wants it told (decision 14).
func attachment(m compute.ShareMapping, location string) map[string]any {
	data := map[string]any{"share_mapping_uuid": m.ID, "share_id": m.Share, "status": m.Status, "tag": m.Tag}
	if location != "" {
		data["export_location"] = location
	}
	return data
}

// reason is ExceptionPayload 1.1: what the operation's owner is told.
func (s subject) reason() object {
	message := ""
	if s.operation.Message != nil {
		message = *s.operation.Message
	}
	exception := "OperationFailed"
	if s.operation.State == compute.OperationCancelled {
		exception = "OperationCancelled"
	}
	return fault(exception, message, string(s.operation.Kind))
}

func fault(exception, message, function string) object {
	return versioned("ExceptionPayload", "1.1", map[string]any{
		"exception": exception, "exception_message": message, "function_name": function, "module_name": "strongroom", "traceback": "",
	})
}

// action is the payload of a notification of the operation.
func (s subject) action(failed bool) object {
	data := s.instance()
	data["fault"] = nil
	if failed {
		data["fault"] = s.reason()
	}
	name, version := "InstanceActionPayload", "1.9"
	switch s.operation.Kind {
	case compute.OpCreate:
		name, version = "InstanceCreatePayload", "1.13"
		data["keypairs"], data["trusted_image_certificates"] = []any{}, nil
		data["tags"], data["instance_name"] = append([]string{}, s.server.Tags...), compute.InstanceName(s.server.ID)
	case compute.OpRebuild, compute.OpEvacuate:
		name, version = "InstanceActionRebuildPayload", "1.10"
		data["trusted_image_certificates"] = nil
	case compute.OpCreateImage, compute.OpCreateBackup:
		name, version = "InstanceActionSnapshotPayload", "1.10"
		data["snapshot_image_id"] = orNull(arguments[compute.SnapshotArguments](s.operation).Image)
	case compute.OpRescue:
		name, version = "InstanceActionRescuePayload", "1.4"
		data["rescue_image_ref"] = orNull(arguments[compute.RescueArguments](s.operation).Image.ID)
	case compute.OpShareAttach, compute.OpShareDetach:
		name, version = sharePayload, sharePayloadVersion
		maps.Copy(data, s.share)
	}
	return versioned(name, version, data)
}

// arguments are an operation's; zero where it has none of the type, for no operation fails because of
// what is told of it.
func arguments[A any](op schema.Operation) (in A) {
	if err := json.Unmarshal(op.Arguments, &in); err != nil {
		var none A
		return none
	}
	return in
}

// unplaced is the payload of compute_task.build_instances.error: a server for which no host was
// found, and its image with what it asks for (TPM-07).
func (s subject) unplaced() object {
	return versioned("ComputeTaskPayload", "1.0", map[string]any{
		"instance_uuid": s.server.ID, "state": s.server.VMState, "reason": s.reason(),
		"request_spec": versioned("RequestSpecPayload", "1.1", map[string]any{
			"instance_uuid": s.server.ID, "project_id": s.server.ProjectID, "user_id": s.server.UserID,
			"availability_zone": orNull(s.server.AvailabilityZone), "flavor": flavor(s.server.Flavor), "image": image(s.server.Image),
			"num_instances": 1, "scheduler_hints": map[string]any{}, "security_groups": []string{},
			"ignore_hosts": nil, "numa_topology": nil, "pci_requests": nil, "force_hosts": nil, "force_nodes": nil,
			"instance_group": nil, "requested_destination": nil, "retry": nil,
		}),
	})
}

// told reports whether a property of an image is one of the hardware, the operating system or the
// image itself that Nova tells. No id of a secret is.
func told(property string) bool {
	if property == "hw_ephemeral_encryption_secret_uuid" || strings.HasPrefix(property, "os_encrypt_") {
		return false
	}
	return strings.HasPrefix(property, "hw_") || strings.HasPrefix(property, "os_") || strings.HasPrefix(property, "img_")
}

// image is ImageMetaPayload 1.0.
func image(img compute.Image) object {
	properties := map[string]any{}
	for key, value := range img.Properties {
		if told(key) {
			properties[key] = value
		}
	}
	return versioned("ImageMetaPayload", "1.0", map[string]any{
		"id": orNull(img.ID), "name": img.Name, "status": img.Status, "visibility": img.Visibility, "owner": orNull(img.Owner),
		"protected": img.Protected, "checksum": nil, "size": img.SizeBytes, "virtual_size": orNull(img.VirtualBytes),
		"container_format": img.ContainerFormat, "disk_format": img.DiskFormat, "min_disk": img.MinDiskGB, "min_ram": img.MinRAMMB,
		"created_at": moment(img.CreatedAt), "updated_at": moment(img.UpdatedAt), "tags": append([]string{}, img.Tags...), "direct_url": nil,
		"properties": versioned("ImageMetaPropsPayload", "1.15", properties),
	})
}

func moment(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return seconds(&t)
}
