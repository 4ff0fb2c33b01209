package api_test

import (
	"maps"
	"strings"

	. "strongroom/api/answertest" //nolint:revive // the words of schemas
)

type view int

// How much of a server is shown.
const (
	inDetail view = iota
	shown
	updated
	rebuilt
)

// server is a server at a version, as its reader may see it.
func server(a question, how view) Schema {
	k := Keys{
		"id": UUID, "name": Text, "links": Links("self", "bookmark"), "status": Text, "tenant_id": Text, "user_id": Text,
		"metadata": Texts, "hostId": Pattern(`^([0-9a-f]{56})?$`), "created": Seconds, "updated": Seconds, "addresses": Map(List(addressOf(how == inDetail || how == shown || a.v(75)))),
		"accessIPv4": Text, "accessIPv6": Text, "OS-DCF:diskConfig": Enum("AUTO", "MANUAL"),
		"image":    Either(Enum(""), Object(Keys{"id": UUID, "links": Links("bookmark")})),
		"flavor":   flavorOf(a),
		"progress": Optional(Schema{"type": "integer", "minimum": 0, "maximum": 100}),
		"fault":    Optional(Object(Keys{"code": Integer, "created": Seconds, "message": Text, "details": Optional(Text)})),
	}
	since(a, k, 9, "locked", Boolean)
	since(a, k, 19, "description", OrNull(Text))
	since(a, k, 26, "tags", List(Text))
	since(a, k, 63, "trusted_image_certificates", Null)
	since(a, k, 73, "locked_reason", OrNull(Text))
	since(a, k, 90, "OS-EXT-SRV-ATTR:hostname", Text)
	since(a, k, 96, "pinned_availability_zone", OrNull(Text))
	if how != inDetail {
		since(a, k, 71, "server_groups", List(UUID))
	}
	if how == inDetail || how == shown || a.v(75) {
		maps.Copy(k, fullKeysAnswer(a))
	}
	if how == rebuilt {
		since(a, k, 54, "key_name", OrNull(Text))
		if a.v(57) {
			delete(k, "OS-EXT-SRV-ATTR:user_data")
			k["user_data"] = OrNull(Text)
		}
		k["adminPass"] = Text
	}
	s := Object(k)
	s["if"] = Schema{"properties": Keys{"status": Enum("ACTIVE", "BUILD", "REBUILD", "RESIZE", "VERIFY_RESIZE", "MIGRATING")}}
	s["then"], s["else"] = Schema{"required": []string{"progress"}}, Schema{"not": Schema{"required": []string{"progress"}}}
	return s
}

// addressOf is one of a server's addresses, as a view of the server has it or apart.
func addressOf(inServer bool) Schema {
	k := Keys{"addr": Text, "version": Enum(4, 6)}
	if inServer {
		k["OS-EXT-IPS:type"], k["OS-EXT-IPS-MAC:mac_addr"] = Enum("fixed", "floating"), Text
	}
	return Object(k)
}

func interfaceOf(a question) Schema {
	k := Keys{
		"port_id": UUID, "net_id": UUID, "mac_addr": Text, "port_state": Text,
		"fixed_ips": List(Object(Keys{"ip_address": Text, "subnet_id": UUID})),
	}
	since(a, k, 70, "tag", OrNull(Text))
	return Object(k)
}

func since(a question, k Keys, version int, key string, s Schema) {
	if int(a.Compute) >= version {
		k[key] = s
	}
}

// fullKeysAnswer are the keys that only full views have.
func fullKeysAnswer(a question) Keys {
	k := Keys{
		"key_name": OrNull(Text), "config_drive": Enum("", "True"), "security_groups": List(One("name", Text)),
		"OS-EXT-AZ:availability_zone": Text, "OS-EXT-STS:power_state": Enum(0, 1, 3, 4, 6, 7), "OS-EXT-STS:task_state": OrNull(Text),
		"OS-EXT-STS:vm_state": Text, "os-extended-volumes:volumes_attached": Empty,
		"OS-SRV-USG:launched_at": OrNull(Micros), "OS-SRV-USG:terminated_at": OrNull(Micros),
	}
	if !a.admin() {
		return k
	}
	const attribute = "OS-EXT-SRV-ATTR:"
	for _, name := range []string{"host", "hypervisor_hostname", "instance_name"} {
		k[attribute+name] = OrNull(Text)
	}
	for _, name := range []string{"hostname", "kernel_id", "ramdisk_id", "reservation_id", "root_device_name", "user_data"} {
		since(a, k, 3, attribute+name, OrNull(Text))
	}
	since(a, k, 3, attribute+"launch_index", Integer)
	since(a, k, 16, "host_status", Enum("UP", "DOWN", "MAINTENANCE", "UNKNOWN", ""))
	return k
}

func flavorOf(a question) Schema {
	if !a.v(47) {
		return Object(Keys{"id": Text, "links": Links("bookmark")})
	}
	k := Keys{"vcpus": Integer, "ram": Integer, "disk": Integer, "ephemeral": Integer, "swap": Integer, "original_name": Text}
	if a.specs() {
		k["extra_specs"] = Texts
	}
	return Object(k)
}

// page is a list, with the link to more of it.
func page(name string, item Schema) Schema {
	return Object(Keys{name: List(item), name + "_links": Optional(Links("next"))})
}

// nothing is an answer without a body.
func nothing(question) Schema { return nil }

// always is an answer that is the same at all versions.
func always(s Schema) func(question) Schema { return func(question) Schema { return s } }

var serverAnswers = map[string]func(question) Schema{
	"GET /servers":        always(page("servers", Object(Keys{"id": UUID, "name": Text, "links": Links("self", "bookmark")}))),
	"GET /servers/detail": func(a question) Schema { return page("servers", server(a, inDetail)) },
	"POST /servers": always(Either(
		One("reservation_id", Pattern(`^r-[0-9a-z]{8}$`)),
		One("server", Object(Keys{
			"id": UUID, "links": Links("self", "bookmark"), "OS-DCF:diskConfig": Enum("AUTO", "MANUAL"),
			"security_groups": List(One("name", Text)), "adminPass": Text,
		})),
	)),
	"GET /servers/:id":    func(a question) Schema { return One("server", server(a, shown)) },
	"PUT /servers/:id":    func(a question) Schema { return One("server", server(a, updated)) },
	"DELETE /servers/:id": nothing,

	"GET /servers/:id/metadata":         always(One("metadata", Texts)),
	"POST /servers/:id/metadata":        always(One("metadata", Texts)),
	"PUT /servers/:id/metadata":         always(One("metadata", Texts)),
	"GET /servers/:id/metadata/:key":    always(One("meta", pair)),
	"PUT /servers/:id/metadata/:key":    always(One("meta", pair)),
	"DELETE /servers/:id/metadata/:key": nothing,
	"GET /servers/:id/tags":             always(One("tags", List(Text))),
	"PUT /servers/:id/tags":             always(One("tags", List(Text))),
	"DELETE /servers/:id/tags":          nothing,
	"GET /servers/:id/tags/:tag":        nothing,
	"PUT /servers/:id/tags/:tag":        nothing,
	"DELETE /servers/:id/tags/:tag":     nothing,

	"GET /servers/:id/ips":          always(One("addresses", Map(List(addressOf(false))))),
	"GET /servers/:id/ips/:network": always(Map(List(addressOf(false)))),
	"GET /servers/:id/os-security-groups": always(One("security_groups", List(Object(Keys{
		"id": Text, "name": Text, "description": Text, "tenant_id": Text, "rules": List(securityRuleShape),
	})))),
	"GET /servers/:id/os-interface":          func(a question) Schema { return One("interfaceAttachments", List(interfaceOf(a))) },
	"GET /servers/:id/os-interface/:port":    func(a question) Schema { return One("interfaceAttachment", interfaceOf(a)) },
	"POST /servers/:id/os-interface":         func(a question) Schema { return One("interfaceAttachment", interfaceOf(a)) },
	"DELETE /servers/:id/os-interface/:port": nothing,
	"POST /os-server-external-events": always(One("events", List(Object(Keys{
		"name": Text, "server_uuid": UUID, "status": Enum("completed", "failed", "in-progress"), "code": Enum(200, 404, 422), "tag": Optional(Text),
	})))),
	"GET /servers/:id/os-volume_attachments":  always(One("volumeAttachments", Empty)),
	"POST /servers/:id/os-volume_attachments": nothing, // refused

	"GET /servers/:id/os-volume_attachments/:volume":    nothing, // there is none
	"PUT /servers/:id/os-volume_attachments/:volume":    nothing,
	"DELETE /servers/:id/os-volume_attachments/:volume": nothing,
	"GET /servers/:id/os-server-password":               always(One("password", Enum(""))),
	"DELETE /servers/:id/os-server-password":            nothing,
	"GET /servers/:id/topology":                         always(Object(Keys{"nodes": Empty, "pagesize_kb": OrNull(Integer)})),
	"GET /servers/:id/shares":                           func(a question) Schema { return One("shares", List(Object(shareKeys(a)))) },
	"GET /servers/:id/shares/:share_id": func(a question) Schema {
		k := shareKeys(a)
		if a.admin() {
			k[inForm(a, "uuid", "attachmentId")], k["export_location"] = UUID, Text
		}
		return One("share", Object(k))
	},
	"POST /servers/:id/shares":             func(a question) Schema { return One("share", Object(shareKeys(a))) },
	"DELETE /servers/:id/shares/:share_id": nothing,
	"GET /servers/:id/diagnostics": func(a question) Schema {
		if !a.v(48) {
			return Map(Integer)
		}
		return diagnostics
	},
	"POST /servers/:id/remote-consoles": consoleOf("remote_console", Keys{
		"protocol": Enum("serial", "vnc"), "type": Enum("serial", "novnc"), "url": Text,
	}),
	"GET /os-console-auth-tokens/:token": consoleOf("console", Keys{
		"instance_uuid": UUID, "host": Text, "port": Integer, "internal_access_path": Text,
	}),
	"GET /servers/:id/disks": always(One("disks", List(Object(Keys{
		"id": UUID, "role": Text, "device_name": Text, "bus": Text, "size_mb": Integer, "boot_index": Integer, "guest_format": OrNull(Text),
		"image_id": OrNull(UUID), "tag": OrNull(Text), "encrypted": Boolean, "encryption_format": OrNull(Text),
		"encryption_secret_uuid": OrNull(UUID), "backing_encryption_secret_uuid": OrNull(UUID), "encryption_options": Any,
	})))),
	"GET /servers/:id/tpm-certificates": always(Object(Keys{
		"tpm_certificates": List(Object(Keys{"key": Text, "nv_index": OrNull(Text), "certificate": Text})), "issuers": Text,
	})),
	"GET /servers/:id/operations":               func(a question) Schema { return One("operations", List(operation(a))) },
	"GET /servers/:id/operations/:operation":    func(a question) Schema { return One("operation", operation(a)) },
	"DELETE /servers/:id/operations/:operation": nothing,
	"GET /servers/:id/os-instance-actions": func(a question) Schema {
		k := Keys{"instanceActions": List(Object(instanceAction(a)))}
		if a.v(58) {
			k["links"] = Optional(Links("next"))
		}
		return Object(k)
	},
	"GET /servers/:id/os-instance-actions/:request_id": func(a question) Schema {
		k := instanceAction(a)
		if a.v(51) || a.admin() {
			k["events"] = List(event(a))
		}
		return One("instanceAction", Object(k))
	},
	"GET /servers/:id/migrations":                                   func(a question) Schema { return One("migrations", List(liveMigration(a))) },
	"GET /servers/:id/migrations/:migration":                        func(a question) Schema { return One("migration", liveMigration(a)) },
	"DELETE /servers/:id/migrations/:migration":                     nothing,
	"POST /servers/:id/migrations/:migration/action force_complete": nothing,
	"GET /os-migrations":                                            func(a question) Schema { return page("migrations", migration(a)) },
}

func operation(a question) Schema {
	return Object(Keys{
		"id": Request, "kind": Text, "state": Text, "message": OrNull(Text), "user_id": Text, "project_id": Text,
		"accepted_at": Micros, "started_at": OrNull(Micros), "finished_at": OrNull(Micros), "events": List(event(a)),
		"progress": OrNull(Object(Keys{"phase": Text, "done": Integer, "total": Integer, "unit": Enum("bytes", "seconds")})),
	})
}

// shareKeys are the keys of a share as everybody reads it (SH-01).
func shareKeys(a question) Keys {
	k := Keys{
		inForm(a, "share_id", "shareId"): UUID, "tag": Text,
		"status": Enum("attaching", "inactive", "active", "error", "detaching"),
	}
	if a.Extended {
		k["fault"] = Optional(Object(Keys{"created": Seconds, "message": Text}))
	}
	return k
}

// inForm is a key as Nova spells it, or as the document of shares does.
func inForm(a question, shipped, documents string) string {
	if a.Extended {
		return documents
	}
	return shipped
}

// pair is a map of one item.
var pair = Schema{"type": "object", "additionalProperties": Text, "minProperties": 1, "maxProperties": 1}

func instanceAction(a question) Keys {
	k := Keys{
		"action": Text, "instance_uuid": UUID, "request_id": Request, "user_id": Text, "project_id": Text,
		"start_time": Micros, "message": OrNull(Text),
	}
	since(a, k, 58, "updated_at", OrNull(Micros))
	return k
}

func event(a question) Schema {
	k := Keys{"event": Text, "start_time": Micros, "finish_time": OrNull(Micros), "result": OrNull(Text)}
	since(a, k, 62, "hostId", Pattern(`^([0-9a-f]{56})?$`))
	if a.admin() {
		k["traceback"] = OrNull(Text)
		since(a, k, 62, "host", OrNull(Text))
		since(a, k, 84, "details", OrNull(Text))
	}
	return Object(k)
}

// moved are the keys that both views of a migration have.
func moved(a question) Keys {
	k := Keys{"id": Integer, "status": Text, "created_at": Micros, "updated_at": OrNull(Micros)}
	for _, name := range strings.Fields("source_compute source_node dest_compute dest_node dest_host") {
		k[name] = OrNull(Text)
	}
	since(a, k, 59, "uuid", UUID)
	since(a, k, 80, "user_id", Text)
	since(a, k, 80, "project_id", Text)
	return k
}

func migration(a question) Schema {
	k := moved(a)
	k["instance_uuid"], k["old_instance_type_id"], k["new_instance_type_id"] = UUID, Integer, Integer
	if !a.v(23) {
		return Object(k)
	}
	k["migration_type"] = Enum("migration", "resize", "live-migration", "evacuation")
	k["links"] = Optional(Links("self", "bookmark"))
	s := Object(k)
	s["if"] = Schema{"properties": Keys{"migration_type": Enum("live-migration"), "status": Enum("queued", "preparing", "running", "post-migrating")}}
	s["then"], s["else"] = Schema{"required": []string{"links"}}, Schema{"not": Schema{"required": []string{"links"}}}
	return s
}

func liveMigration(a question) Schema {
	k := moved(a)
	k["server_uuid"] = UUID
	for _, name := range strings.Fields("memory_total_bytes memory_processed_bytes memory_remaining_bytes disk_total_bytes disk_processed_bytes disk_remaining_bytes") {
		k[name] = OrNull(Integer)
	}
	return Object(k)
}

var diagnostics = Object(Keys{
	"state": Enum("running"), "driver": Enum("libvirt"), "hypervisor": Text, "hypervisor_os": Text, "uptime": Integer, "config_drive": Boolean,
	"num_cpus": Integer, "num_disks": Integer, "num_nics": Integer,
	"cpu_details":    List(Object(Keys{"id": Integer, "time": Integer, "utilisation": Null})),
	"disk_details":   List(Object(Keys{"read_bytes": Integer, "read_requests": Integer, "write_bytes": Integer, "write_requests": Integer, "errors_count": Null})),
	"memory_details": Object(Keys{"maximum": Integer, "used": Integer}),
	"nic_details": List(Object(Keys{
		"mac_address": Text, "rx_octets": Integer, "rx_packets": Integer, "rx_errors": Integer, "rx_drop": Integer, "rx_rate": Null,
		"tx_octets": Integer, "tx_packets": Integer, "tx_errors": Integer, "tx_drop": Integer, "tx_rate": Null,
	})),
})
