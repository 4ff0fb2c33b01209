package api_test

import (
	"maps"
	"net/http"
	"strings"

	. "strongroom/api/answertest" //nolint:revive // the words of schemas
)

// versionAnswer is a document of versions, at paths that have none.
func versionAnswer(path string, code int) Schema {
	self, media := Links("self"), List(Object(Keys{"base": Text, "type": Text}))
	if code == http.StatusMultipleChoices {
		return One("choices", List(Object(Keys{"id": Text, "status": Text, "links": self, "media-types": media})))
	}
	k := Keys{"id": Text, "status": Enum("CURRENT", "DEPRECATED"), "version": Text, "min_version": Text, "updated": Seconds, "links": self}
	if path == "/" || path == "" {
		return One("versions", List(Object(k)))
	}
	k["media-types"] = media
	k["links"] = Schema{"prefixItems": []Schema{
		Object(Keys{"rel": Enum("self"), "href": Href}), Object(Keys{"rel": Enum("describedby"), "type": Enum("text/html"), "href": Href}),
	}, "minItems": 2, "maxItems": 2}
	return One("version", Object(k))
}

const onServer = "POST /servers/:id/action "

var actionAnswers = map[string]func(question) Schema{
	onServer + "os-start": nothing, onServer + "os-stop": nothing, onServer + "reboot": nothing, onServer + "pause": nothing,
	onServer + "unpause": nothing, onServer + "suspend": nothing, onServer + "resume": nothing, onServer + "forceDelete": nothing, onServer + "restore": nothing, onServer + "lock": nothing, onServer + "unlock": nothing, onServer + "os-resetState": nothing,
	onServer + "rotateKeys": nothing, onServer + "unrescue": nothing, onServer + "shelve": nothing, onServer + "shelveOffload": nothing,
	onServer + "unshelve": nothing, onServer + "resize": nothing, onServer + "confirmResize": nothing, onServer + "revertResize": nothing,
	onServer + "migrate": nothing, onServer + "addSecurityGroup": nothing, onServer + "removeSecurityGroup": nothing, onServer + "os-migrateLive": nothing,
	onServer + "trigger_crash_dump": nothing, onServer + "changePassword": nothing, onServer + "addFloatingIp": nothing,
	onServer + "removeFloatingIp": nothing, onServer + "addFixedIp": nothing, onServer + "removeFixedIp": nothing,
	onServer + "createImage":  imageOf,
	onServer + "createBackup": imageOf,
	onServer + "rebuild":      func(a question) Schema { return One("server", server(a, rebuilt)) },
	onServer + "rescue":       always(One("adminPass", Text)),
	onServer + "evacuate": func(a question) Schema {
		if a.v(14) {
			return nil
		}
		return One("adminPass", Text)
	},
	onServer + "os-getConsoleOutput": always(One("output", Text)),
	onServer + "os-getVNCConsole":    consoleOf("console", Keys{"type": Enum("novnc"), "url": Href}),
	onServer + "os-getSerialConsole": consoleOf("console", Keys{"type": Enum("serial"), "url": Text}),
	onServer + "os-getSPICEConsole":  nothing, onServer + "os-getRDPConsole": nothing,
	onServer + "dryRun": func(question) Schema { return One("dry_run", Object(forecast())) },
}

func consoleOf(name string, keys Keys) func(question) Schema { return always(One(name, Object(keys))) }

// forecast are the keys of what a move would need.
func forecast() Keys {
	host := Keys{"id": UUID, "name": Text}
	unfit := Keys{"id": UUID, "name": Text, "why": Text}
	data := List(Object(Keys{"what": Text, "bytes": OrNull(Integer), "exact": Boolean}))
	return Keys{
		"action": Text, "succeeds": Boolean, "refusals": refusals,
		"stops_guest": Boolean, "host": OrNull(Object(host)), "unfit_hosts": List(Object(unfit)), "data": data, "bytes": Integer,
		"lost": data, "keys": List(Object(Keys{"secret_uuid": UUID, "of": Text, "secret_security": Text, "read_by": Text, "readable": Boolean})),
	}
}

var refusals = List(Object(Keys{"code": Optional(Integer), "message": Text}))

func imageOf(a question) Schema {
	if a.v(45) {
		return One("image_id", UUID)
	}
	return nil
}

func flavor(a question) Schema {
	swap := Either(Enum(""), Schema{"type": "integer", "minimum": 1})
	if a.v(75) {
		swap = Integer
	}
	k := Keys{
		"id": Text, "name": Text, "ram": Integer, "disk": Integer, "swap": swap, "vcpus": Integer, "OS-FLV-EXT-DATA:ephemeral": Integer,
		"OS-FLV-DISABLED:disabled": Boolean, "os-flavor-access:is_public": Boolean, "rxtx_factor": Number, "links": Links("self", "bookmark"),
	}
	since(a, k, 55, "description", OrNull(Text))
	if a.specs() {
		since(a, k, 61, "extra_specs", Texts)
	}
	return Object(k)
}

func oneFlavor(a question) Schema { return One("flavor", flavor(a)) }

func keypairKeys(a question) Keys {
	k := Keys{"name": Text, "public_key": Text, "fingerprint": Text}
	since(a, k, 2, "type", Enum("ssh", "x509"))
	return k
}

func madeKeypair(a question) Schema {
	k := keypairKeys(a)
	k["user_id"] = Text
	k["private_key"] = Optional(Text)
	if a.v(92) {
		delete(k, "private_key")
	}
	return One("keypair", Object(k))
}

func hostNumber(a question) Schema {
	if a.v(53) {
		return UUID
	}
	return Integer
}

func hypervisor(a question, detail bool) Keys {
	k := Keys{"id": hostNumber(a), "hypervisor_hostname": Text, "state": Enum("up", "down"), "status": Enum("enabled", "disabled")}
	if a.v(53) && a.query["with_servers"] != nil {
		k["servers"] = Optional(List(Object(Keys{"name": Text, "uuid": UUID})))
		if a.v(75) && strings.EqualFold(a.query["with_servers"][0], "true") {
			k["servers"] = List(Object(Keys{"name": Text, "uuid": UUID}))
		}
	}
	if !detail {
		return k
	}
	k["hypervisor_type"], k["hypervisor_version"], k["host_ip"] = Text, Integer, OrNull(Text)
	k["service"] = Object(Keys{"id": hostNumber(a), "host": Text, "disabled_reason": OrNull(Text)})
	if a.v(88) {
		k["uptime"] = OrNull(Text)
		return k
	}
	counters(k)
	if k["cpu_info"] = Text; a.v(28) {
		k["cpu_info"] = Map(Any)
	}
	return k
}

func counters(k Keys) {
	for _, name := range strings.Fields("vcpus vcpus_used memory_mb memory_mb_used free_ram_mb local_gb local_gb_used free_disk_gb disk_available_least running_vms current_workload") {
		k[name] = Integer
	}
}

func hypervisors(detail bool) func(question) Schema {
	return func(a question) Schema {
		if a.v(33) {
			return page("hypervisors", Object(hypervisor(a, detail)))
		}
		return One("hypervisors", List(Object(hypervisor(a, detail))))
	}
}

func service(a question) Keys {
	k := Keys{
		"id": hostNumber(a), "binary": Enum("nova-compute"), "host": Text, "zone": Text, "status": Enum("enabled", "disabled"),
		"state": Enum("up", "down"), "updated_at": OrNull(Micros), "disabled_reason": OrNull(Text),
	}
	since(a, k, 11, "forced_down", Boolean)
	return k
}

func zones(hosts Schema) Schema {
	return One("availabilityZoneInfo", List(Object(Keys{"zoneName": Text, "zoneState": One("available", Boolean), "hosts": hosts})))
}

var (
	files    = strings.Fields("injected_files injected_file_content_bytes injected_file_path_bytes")
	networks = strings.Fields("fixed_ips floating_ips security_groups security_group_rules")
)

// quotasAnswer are those of a project: networks' went in 2.36, files' in 2.57. A change answers them without its id.
func quotasAnswer(id Keys, of Schema) func(question) Schema {
	return func(a question) Schema {
		names := strings.Fields("instances cores ram key_pairs metadata_items server_groups server_group_members")
		if !a.v(36) {
			names = append(names, networks...)
		}
		return One("quota_set", quotaKeys(a, id, names, of))
	}
}

func quotaKeys(a question, id Keys, names []string, of Schema) Schema {
	k := maps.Clone(id)
	if !a.v(57) {
		names = append(names, files...)
	}
	for _, name := range names {
		k[name] = of
	}
	return Object(k)
}

func quotaClass(a question) Schema {
	names := append(strings.Fields("instances cores ram key_pairs metadata_items"), networks...)
	if a.v(50) {
		names = strings.Fields("instances cores ram key_pairs metadata_items server_groups server_group_members")
	}
	return One("quota_class_set", quotaKeys(a, Keys{"id": Text}, names, Integer))
}

func limits(a question) Schema {
	k, names := Keys{}, "maxServerMeta maxTotalCores maxTotalInstances maxTotalKeypairs maxTotalRAMSize maxServerGroups maxServerGroupMembers "+
		"totalCoresUsed totalInstancesUsed totalRAMUsed totalServerGroupsUsed"
	if !a.v(36) {
		names += " maxSecurityGroups maxSecurityGroupRules maxTotalFloatingIps totalSecurityGroupsUsed totalFloatingIpsUsed"
	}
	if !a.v(39) {
		names += " maxImageMeta"
	}
	if !a.v(57) {
		names += " maxPersonality maxPersonalitySize"
	}
	for _, name := range strings.Fields(names) {
		k[name] = Integer
	}
	return One("limits", Object(Keys{"rate": Empty, "absolute": Object(k)}))
}

func serverGroup(a question) Schema {
	k := Keys{"id": UUID, "name": Text, "members": List(UUID)}
	since(a, k, 13, "project_id", Text)
	since(a, k, 13, "user_id", Text)
	policy := Enum("affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity")
	if a.v(64) {
		k["policy"], k["rules"] = policy, Object(Keys{"max_server_per_host": Optional(Integer)})
	} else {
		k["policies"], k["metadata"] = List(policy), Object(Keys{})
	}
	return Object(k)
}

func aggregate(a question) Keys {
	k := Keys{
		"id": Integer, "name": Text, "availability_zone": OrNull(Text), "hosts": List(Text), "metadata": Texts,
		"created_at": Micros, "updated_at": OrNull(Micros), "deleted": Enum(false), "deleted_at": Null,
	}
	since(a, k, 41, "uuid", UUID)
	return k
}

func oneAggregate(a question) Schema { return One("aggregate", Object(aggregate(a))) }

func madeAggregate(a question) Schema {
	k := aggregate(a)
	delete(k, "hosts")
	delete(k, "metadata")
	return One("aggregate", Object(k))
}

func usageAnswer(detailed bool) Schema {
	k := Keys{
		"tenant_id": Text, "total_local_gb_usage": Number, "total_vcpus_usage": Number, "total_memory_mb_usage": Number, "total_hours": Number,
		"start": Micros, "stop": Micros,
	}
	if detailed {
		k["server_usages"] = List(Object(Keys{
			"instance_id": UUID, "name": Text, "tenant_id": Text, "flavor": Text, "vcpus": Integer, "memory_mb": Integer, "local_gb": Integer,
			"hours": Number, "uptime": Integer, "started_at": Micros, "ended_at": OrNull(Micros), "state": Text,
		}))
	}
	return Object(k)
}
