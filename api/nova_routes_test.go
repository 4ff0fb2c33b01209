package api_test

import "strings"

// novaRoutes are the routes and actions of Nova's compute API up to 2.97, those among them that Nova itself answers with
// a 410 left out.
func novaRoutes() (rows []tableRow) {
	for line := range strings.Lines(novaTable) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		versions := ""
		if last := fields[len(fields)-1]; strings.ContainsAny(last[:1], "<>") {
			versions = strings.NewReplacer("<", "to ", ">", "from ").Replace(last)
			fields = fields[:len(fields)-1]
		}
		for method := range strings.SplitSeq(fields[0], ",") {
			if len(fields) == 2 {
				rows = append(rows, tableRow{method: method, path: fields[1], versions: versions, state: "not there"})
				continue
			}
			for _, action := range fields[2:] {
				rows = append(rows, tableRow{method: method, path: fields[1], action: action, versions: versions, state: "not there"})
			}
		}
	}
	return rows
}

// A line has methods, the path, actions, and to (<) or from (>) which version Nova has it.
const novaTable = `
GET /extensions
GET /extensions/{alias}
GET,POST /flavors
GET /flavors/detail
GET,PUT,DELETE /flavors/{id}
POST /flavors/{id}/action addTenantAccess removeTenantAccess
GET,POST /flavors/{id}/os-extra_specs
GET,PUT,DELETE /flavors/{id}/os-extra_specs/{key}
GET /flavors/{id}/os-flavor-access
GET /images <2.35
GET /images/detail <2.35
GET,DELETE /images/{id} <2.35
GET,POST,PUT /images/{id}/metadata <2.38
GET,PUT,DELETE /images/{id}/metadata/{key} <2.38
GET /limits
GET,POST /os-aggregates
GET,PUT,DELETE /os-aggregates/{id}
POST /os-aggregates/{id}/action add_host remove_host set_metadata
POST /os-aggregates/{id}/images >2.81
POST /os-assisted-volume-snapshots
DELETE /os-assisted-volume-snapshots/{id}
GET /os-availability-zone
GET /os-availability-zone/detail
GET /os-baremetal-nodes <2.35
GET /os-baremetal-nodes/{id} <2.35
GET /os-console-auth-tokens/{token}
GET,POST /os-floating-ips <2.35
GET,DELETE /os-floating-ips/{id} <2.35
GET /os-floating-ip-pools <2.35
GET /os-hosts <2.42
GET,PUT /os-hosts/{name} <2.42
GET /os-hosts/{name}/reboot <2.42
GET /os-hosts/{name}/shutdown <2.42
GET /os-hosts/{name}/startup <2.42
GET /os-hypervisors
GET /os-hypervisors/detail
GET /os-hypervisors/statistics <2.87
GET /os-hypervisors/{id}
GET /os-hypervisors/{id}/uptime <2.87
GET /os-hypervisors/{id}/search <2.52
GET /os-hypervisors/{id}/servers <2.52
GET /os-instance_usage_audit_log
GET /os-instance_usage_audit_log/{before}
GET,POST /os-keypairs
GET,DELETE /os-keypairs/{name}
GET /os-migrations
GET /os-networks <2.35
GET /os-networks/{id} <2.35
GET,PUT /os-quota-class-sets/{id}
GET,PUT,DELETE /os-quota-sets/{id}
GET /os-quota-sets/{id}/defaults
GET /os-quota-sets/{id}/detail
POST /os-security-group-rules <2.35
DELETE /os-security-group-rules/{id} <2.35
GET,POST /os-security-groups <2.35
GET,PUT,DELETE /os-security-groups/{id} <2.35
POST /os-server-external-events
GET,POST /os-server-groups
GET,DELETE /os-server-groups/{id}
GET /os-services
PUT,DELETE /os-services/{id}
GET /os-simple-tenant-usage
GET /os-simple-tenant-usage/{id}
GET,POST /os-snapshots <2.35
GET /os-snapshots/detail <2.35
GET,DELETE /os-snapshots/{id} <2.35
GET /os-tenant-networks <2.35
GET /os-tenant-networks/{id} <2.35
GET,POST /os-volumes <2.35
GET /os-volumes/detail <2.35
GET,DELETE /os-volumes/{id} <2.35
GET,POST /servers
GET /servers/detail
GET,PUT,DELETE /servers/{id}
POST /servers/{id}/action addFloatingIp removeFloatingIp addFixedIp removeFixedIp <2.43
POST /servers/{id}/action os-getVNCConsole os-getSPICEConsole os-getRDPConsole os-getSerialConsole <2.5
POST /servers/{id}/action addSecurityGroup removeSecurityGroup changePassword confirmResize createBackup createImage evacuate
POST /servers/{id}/action forceDelete restore lock unlock migrate os-migrateLive os-getConsoleOutput os-resetState os-start os-stop
POST /servers/{id}/action pause unpause suspend resume reboot rebuild rescue unrescue resize revertResize shelve shelveOffload unshelve
POST /servers/{id}/action trigger_crash_dump >2.17
GET /servers/{id}/diagnostics
GET /servers/{id}/ips
GET /servers/{id}/ips/{network}
GET,POST,PUT /servers/{id}/metadata
GET,PUT,DELETE /servers/{id}/metadata/{key}
GET /servers/{id}/migrations >2.23
GET /servers/{id}/migrations/{migration} >2.23
DELETE /servers/{id}/migrations/{migration} >2.24
POST /servers/{id}/migrations/{migration}/action force_complete >2.22
GET /servers/{id}/os-instance-actions
GET /servers/{id}/os-instance-actions/{request_id}
GET,POST /servers/{id}/os-interface
GET,DELETE /servers/{id}/os-interface/{port}
GET /servers/{id}/os-security-groups
GET,DELETE /servers/{id}/os-server-password
GET,POST /servers/{id}/os-volume_attachments
GET,PUT,DELETE /servers/{id}/os-volume_attachments/{volume}
POST /servers/{id}/remote-consoles >2.6
GET,POST /servers/{id}/shares >2.97
GET,DELETE /servers/{id}/shares/{share_id} >2.97
GET,PUT,DELETE /servers/{id}/tags >2.26
GET,PUT,DELETE /servers/{id}/tags/{tag} >2.26
GET /servers/{id}/topology >2.78
`
