package api_test

import (
	"strings"

	. "strongroom/api/answertest" //nolint:revive // the words of schemas
)

var (
	auditTime        = Pattern(`^\d{4}-\d\d-01 00:00:00$`)
	usageAuditAnswer = Object(Keys{
		"period_beginning": auditTime, "period_ending": auditTime, "num_hosts": Integer, "num_hosts_done": Integer, "num_hosts_running": Integer,
		"num_hosts_not_run": Integer, "hosts_not_run": List(Text), "total_instances": Integer, "total_errors": Integer, "overall_status": Text, "log": Object(Keys{}),
	})
	extensionShape = Object(Keys{"name": Text, "alias": Text, "description": Text, "links": Empty, "updated": Seconds, "namespace": Href})
	specsShape     = One("extra_specs", Texts)
	// Of a rule, group or ip_range is empty.
	securityRuleShape = Object(Keys{
		"id": Text, "parent_group_id": Text, "ip_protocol": OrNull(Text), "from_port": OrNull(Integer), "to_port": OrNull(Integer), "group": Texts, "ip_range": Texts,
	})
	securityGroupShape = Object(Keys{"id": UUID, "name": Text, "description": Text, "tenant_id": Text, "rules": List(securityRuleShape)})
	tenantNetwork      = Object(Keys{"id": UUID, "label": Text, "cidr": Enum("None")})
	accessShape        = One("flavor_access", List(Object(Keys{"flavor_id": Text, "tenant_id": Text})))
)

// oldNetwork is a network without anything that Neutron does not have.
func oldNetwork(a question) Schema {
	k, names := Keys{"id": UUID, "label": Text}, "cidr netmask gateway broadcast dns1 dns2 cidr_v6 gateway_v6 netmask_v6"
	if a.admin() {
		names += " created_at updated_at deleted_at deleted injected bridge vlan vpn_public_address vpn_public_port vpn_private_address dhcp_start project_id " +
			"host bridge_interface multi_host priority rxtx_base mtu dhcp_server enable_dhcp share_address"
	}
	for _, name := range strings.Fields(names) {
		k[name] = Null
	}
	return Object(k)
}

var otherAnswers = map[string]func(question) Schema{
	"GET /extensions":        always(One("extensions", List(extensionShape))),
	"GET /extensions/:alias": always(One("extension", extensionShape)),

	"GET /flavors": func(a question) Schema {
		k := Keys{"id": Text, "name": Text, "links": Links("self", "bookmark")}
		since(a, k, 55, "description", OrNull(Text))
		return page("flavors", Object(k))
	},
	"GET /flavors/detail":                         func(a question) Schema { return page("flavors", flavor(a)) },
	"GET /flavors/:id":                            oneFlavor,
	"POST /flavors":                               oneFlavor,
	"PUT /flavors/:id":                            oneFlavor,
	"DELETE /flavors/:id":                         nothing,
	"GET /flavors/:id/os-extra_specs":             always(specsShape),
	"POST /flavors/:id/os-extra_specs":            always(specsShape),
	"GET /flavors/:id/os-extra_specs/:key":        always(pair),
	"PUT /flavors/:id/os-extra_specs/:key":        always(pair),
	"DELETE /flavors/:id/os-extra_specs/:key":     nothing,
	"GET /flavors/:id/os-flavor-access":           always(accessShape),
	"POST /flavors/:id/action addTenantAccess":    always(accessShape),
	"POST /flavors/:id/action removeTenantAccess": always(accessShape),

	"GET /images":                      always(page("images", Object(imageKeys()))),
	"GET /images/detail":               always(page("images", fullImage())),
	"GET /images/:id":                  always(One("image", fullImage())),
	"DELETE /images/:id":               nothing,
	"GET /images/:id/metadata":         always(One("metadata", Texts)),
	"POST /images/:id/metadata":        always(One("metadata", Texts)),
	"PUT /images/:id/metadata":         always(One("metadata", Texts)),
	"GET /images/:id/metadata/:key":    always(One("meta", pair)),
	"PUT /images/:id/metadata/:key":    always(One("meta", pair)),
	"DELETE /images/:id/metadata/:key": nothing,

	"GET /os-keypairs": func(a question) Schema {
		list := Keys{"keypairs": List(One("keypair", Object(keypairKeys(a))))}
		since(a, list, 35, "keypairs_links", Optional(Links("next")))
		return Object(list)
	},
	"GET /os-keypairs/:name": func(a question) Schema {
		k := keypairKeys(a)
		k["id"], k["user_id"], k["created_at"], k["updated_at"] = Integer, Text, Micros, OrNull(Micros)
		k["deleted"], k["deleted_at"] = Enum(false), Null
		return One("keypair", Object(k))
	},
	"POST /os-keypairs":         madeKeypair,
	"DELETE /os-keypairs/:name": nothing,

	"GET /os-services": func(a question) Schema {
		k := service(a)
		if a.Extended {
			k["drain"], k["fence_after"] = OrNull(Object(Keys{
				"operation_id": Text, "state": Text, "moving": Integer, "moved": Integer, "left": Integer, "failed": Integer, "to_remove": Integer,
			})), Integer
		}
		return One("services", List(Object(k)))
	},
	"PUT /os-services/:id": func(a question) Schema {
		if a.v(53) {
			return One("service", Object(service(a)))
		}
		return One("service", Object(Keys{
			"host": Text, "binary": Text, "status": Optional(Enum("enabled", "disabled")), "disabled_reason": Optional(Text), "forced_down": Optional(Boolean),
		}))
	},
	"GET /os-services/:id/drain": func(question) Schema {
		one := forecast()
		one["id"], one["name"], one["vm_state"] = UUID, Text, Text
		return One("dry_run", Object(Keys{
			"action": Enum("drain"), "succeeds": Boolean, "refusals": refusals, "host": Object(Keys{"id": UUID, "name": Text}), "cold": Boolean,
			"bytes": Integer, "servers": List(Object(one)),
		}))
	},
	"DELETE /os-services/:id":    nothing,
	"GET /os-hypervisors":        hypervisors(false),
	"GET /os-hypervisors/detail": hypervisors(true),
	"GET /os-hypervisors/statistics": func(question) Schema {
		k := Keys{"count": Integer}
		counters(k)
		return One("hypervisor_statistics", Object(k))
	},
	"GET /os-hypervisors/:id": func(a question) Schema { return One("hypervisor", Object(hypervisor(a, true))) },
	"GET /os-hypervisors/:id/uptime": func(a question) Schema {
		k := hypervisor(a, false)
		k["uptime"] = Text
		return One("hypervisor", Object(k))
	},
	"GET /os-hypervisors/:id/search": func(a question) Schema { return One("hypervisors", List(Object(hypervisor(a, false)))) },
	"GET /os-hypervisors/:id/servers": func(a question) Schema {
		k := hypervisor(a, false)
		k["servers"] = Optional(List(Object(Keys{"name": Text, "uuid": UUID})))
		return One("hypervisors", List(Object(k)))
	},
	"GET /os-hosts": always(One("hosts", List(Object(Keys{"host_name": Text, "service": Enum("compute"), "zone": Text})))),
	"GET /os-hosts/:name": always(One("host", List(One("resource", Object(Keys{
		"host": Text, "project": Text, "cpu": Integer, "memory_mb": Integer, "disk_gb": Integer,
	}))))),
	"PUT /os-hosts/:name":            nothing, // refused
	"GET /os-hosts/:name/startup":    nothing,
	"GET /os-hosts/:name/shutdown":   nothing,
	"GET /os-hosts/:name/reboot":     nothing,
	"GET /os-aggregates":             func(a question) Schema { return One("aggregates", List(Object(aggregate(a)))) },
	"POST /os-aggregates":            madeAggregate,
	"GET /os-aggregates/:id":         oneAggregate,
	"PUT /os-aggregates/:id":         oneAggregate,
	"DELETE /os-aggregates/:id":      nothing,
	"POST /os-aggregates/:id/images": nothing, // refused

	"POST /os-aggregates/:id/action add_host":     oneAggregate,
	"POST /os-aggregates/:id/action remove_host":  oneAggregate,
	"POST /os-aggregates/:id/action set_metadata": oneAggregate,
	"GET /os-simple-tenant-usage": func(a question) Schema {
		k := Keys{"tenant_usages": List(usageAnswer(a.query["detailed"] != nil && a.query["detailed"][0] == "1"))}
		since(a, k, 40, "tenant_usages_links", Optional(Links("next")))
		return Object(k)
	},
	"GET /os-simple-tenant-usage/:id": func(a question) Schema {
		k := Keys{"tenant_usage": Either(Object(Keys{}), usageAnswer(true))}
		since(a, k, 40, "tenant_usage_links", Optional(Links("next")))
		return Object(k)
	},
	"GET /os-instance_usage_audit_log":         always(One("instance_usage_audit_logs", usageAuditAnswer)),
	"GET /os-instance_usage_audit_log/:before": always(One("instance_usage_audit_log", usageAuditAnswer)),
	"GET /os-server-groups":                    func(a question) Schema { return One("server_groups", List(serverGroup(a))) },
	"GET /os-server-groups/:id":                func(a question) Schema { return One("server_group", serverGroup(a)) },
	"POST /os-server-groups":                   func(a question) Schema { return One("server_group", serverGroup(a)) },
	"DELETE /os-server-groups/:id":             nothing,
	"GET /os-availability-zone":                always(zones(Null)),
	"GET /os-availability-zone/detail": always(zones(OrNull(Map(One("nova-compute", Object(Keys{
		"available": Boolean, "active": Boolean, "updated_at": OrNull(Micros),
	})))))),

	"GET /os-networks":                    func(a question) Schema { return One("networks", List(oldNetwork(a))) },
	"GET /os-networks/:id":                func(a question) Schema { return One("network", oldNetwork(a)) },
	"GET /os-tenant-networks":             always(One("networks", List(tenantNetwork))),
	"GET /os-tenant-networks/:id":         always(One("network", tenantNetwork)),
	"GET /os-security-groups":             always(One("security_groups", List(securityGroupShape))),
	"GET /os-security-groups/:id":         always(One("security_group", securityGroupShape)),
	"POST /os-security-groups":            always(One("security_group", securityGroupShape)),
	"PUT /os-security-groups/:id":         always(One("security_group", securityGroupShape)),
	"DELETE /os-security-groups/:id":      nothing,
	"POST /os-security-group-rules":       always(One("security_group_rule", securityRuleShape)),
	"DELETE /os-security-group-rules/:id": nothing,

	"GET /limits":                     limits,
	"GET /os-quota-sets/:id":          quotasAnswer(Keys{"id": Text}, Integer),
	"GET /os-quota-sets/:id/defaults": quotasAnswer(Keys{"id": Text}, Integer),
	"GET /os-quota-sets/:id/detail":   quotasAnswer(Keys{"id": Text}, Object(Keys{"limit": Integer, "in_use": Integer, "reserved": Integer})),
	"PUT /os-quota-sets/:id":          quotasAnswer(Keys{}, Integer),
	"DELETE /os-quota-sets/:id":       nothing,
	"GET /os-quota-class-sets/:id":    quotaClass,
	"PUT /os-quota-class-sets/:id":    quotaClass,
}

// imageKeys are the keys of an image in a list.
func imageKeys() Keys {
	rel := func(rel string) Schema { return Object(Keys{"rel": Enum(rel), "href": Href}) }
	elsewhere := Object(Keys{"rel": Enum("alternate"), "type": Enum("application/vnd.openstack.image"), "href": Href})
	return Keys{"id": UUID, "name": OrNull(Text), "links": {
		"type": "array", "prefixItems": []Schema{rel("self"), rel("bookmark"), elsewhere}, "minItems": 3, "maxItems": 3,
	}}
}

func fullImage() Schema {
	k := imageKeys()
	k["minRam"], k["minDisk"], k["OS-EXT-IMG-SIZE:size"], k["metadata"] = Integer, Integer, Integer, Texts
	k["created"], k["updated"] = Seconds, Seconds
	k["status"], k["progress"] = Enum("ACTIVE", "SAVING", "DELETED", "ERROR", "UNKNOWN"), Enum(0, 25, 50, 100)
	k["server"] = Optional(Object(Keys{"id": UUID, "links": Links("self", "bookmark")}))
	k["OS-DCF:diskConfig"] = Optional(Enum("AUTO", "MANUAL"))
	return Object(k)
}
