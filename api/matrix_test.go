package api_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/api"
	"strongroom/api/microversion"
	"strongroom/compute"
)

// caller is who asks, as the policy sees them.
type caller struct {
	as    who
	home  bool // their project is the one whose things are asked for
	power int  // of their role there
}

// The power of roles: each may do what those before it may.
const (
	visitor = iota // of no role that means anything
	reads
	writes
	rules // the whole cloud, whatever the project
)

// callers are one of each.
var callers = map[string]caller{
	"no role":                 {powerless, true, visitor},
	"reader":                  {reader, true, reads},
	"member":                  {member, true, writes},
	"admin":                   {admin, true, rules},
	"owner":                   {creator, true, writes}, // who has made all of it
	"reader of another":       {observer, false, reads},
	"member of another":       {stranger, false, writes},
	"admin in another":        {operator, false, rules},
	"admin without a project": {unscoped, false, visitor},
}

// right is whose request is answered, and how the others are refused.
type right func(by caller, granted int) int

// In the words of the policy: on what, and from which role on.
var (
	anybody  right = func(_ caller, granted int) int { return granted }
	anyScope right = func(by caller, granted int) int {
		if by.as == unscoped {
			return http.StatusForbidden
		}
		return granted
	}
	// ofOwn is about the caller's own project, whichever that is.
	ofOwn = func(from int) right {
		return func(by caller, granted int) int {
			if by.power < from {
				return http.StatusForbidden
			}
			return granted
		}
	}
	onlyAdmin = ofOwn(rules)
	// on is about a thing of the project: it is not there for other projects.
	on = func(from int) right {
		return func(by caller, granted int) int {
			switch {
			case by.power == rules:
				return granted
			case !by.home:
				return http.StatusNotFound
			case by.power < from:
				return http.StatusForbidden
			}
			return granted
		}
	}
	// named is on where the path names the project: another one is forbidden.
	named right = func(by caller, granted int) int {
		if by.power == rules || by.home && by.power >= reads {
			return granted
		}
		return http.StatusForbidden
	}
	// ofScope is on a thing that everybody of the project may see, behind a rule about any project.
	ofScope right = func(by caller, granted int) int {
		if by.as == unscoped {
			return http.StatusForbidden
		}
		return on(visitor)(by, granted)
	}
	// ofImage is about an image: an administrator's token, too, is of its own project alone.
	ofImage = func(from int) right {
		return func(by caller, granted int) int {
			switch {
			case by.as == unscoped:
				return http.StatusForbidden
			case !by.home:
				return http.StatusNotFound
			case by.power < from:
				return http.StatusForbidden
			}
			return granted
		}
	}
	// ofUser is about a thing that its user alone has.
	ofUser right = func(by caller, granted int) int {
		switch by.as {
		case creator:
			return granted
		case unscoped:
			return http.StatusForbidden
		default:
			return http.StatusNotFound
		}
	}
	// ofNamedUser is ofUser where the query names the user.
	ofNamedUser right = func(by caller, granted int) int {
		if by.power == rules || by.as == creator {
			return granted
		}
		return http.StatusForbidden
	}
	// behind is about the own project's servers or images behind one of them.
	behind right = func(by caller, granted int) int {
		if by.power >= reads && !by.home {
			return http.StatusBadRequest
		}
		return ofOwn(reads)(by, granted)
	}
	// specOf is on a flavor, behind a rule about the own project.
	specOf right = func(by caller, granted int) int {
		if by.power < reads {
			return http.StatusForbidden
		}
		return on(reads)(by, granted)
	}
)

// A demand is a request of a route that its caller is granted or refused.
type demand struct {
	right   right
	granted int
	query   string
	body    string
	version string          // default: the newest that the route has, and for GET the oldest, too
	from    compute.VMState // of the server; default active
	to      string          // in place of the path
}

// demands has what every route is asked for. Words in capitals stand for what the tests'
// projects have.
var demands = map[string][]demand{
	"GET /extensions":                             {{right: anyScope, granted: 200}},
	"GET /extensions/:alias":                      {{right: anyScope, granted: 200}},
	"GET /flavors":                                {{right: anybody, granted: 200}},
	"GET /flavors/detail":                         {{right: anybody, granted: 200}, {right: anybody, granted: 200, query: "is_public=None&limit=1"}},
	"GET /flavors/:id":                            {{right: on(visitor), granted: 200}},
	"POST /flavors":                               {{right: onlyAdmin, granted: 200, body: `{"flavor":{"name":"new","ram":64,"vcpus":1,"disk":1,"OS-FLV-EXT-DATA:ephemeral":1,"swap":64,"rxtx_factor":1.5,"os-flavor-access:is_public":true}}`}},
	"PUT /flavors/:id":                            {{right: onlyAdmin, granted: 200, body: `{"flavor":{"description":"of mine"}}`}},
	"DELETE /flavors/:id":                         {{right: onlyAdmin, granted: 202}},
	"GET /flavors/:id/os-extra_specs":             {{right: specOf, granted: 200}},
	"POST /flavors/:id/os-extra_specs":            {{right: onlyAdmin, granted: 200, body: `{"extra_specs":{"shape":"round"}}`}},
	"GET /flavors/:id/os-extra_specs/:key":        {{right: specOf, granted: 200}},
	"PUT /flavors/:id/os-extra_specs/:key":        {{right: onlyAdmin, granted: 200, body: `{"color":"red"}`}},
	"DELETE /flavors/:id/os-extra_specs/:key":     {{right: onlyAdmin, granted: 200}},
	"GET /flavors/:id/os-flavor-access":           {{right: onlyAdmin, granted: 200}},
	"POST /flavors/:id/action addTenantAccess":    {{right: onlyAdmin, granted: 200, body: `{"addTenantAccess":{"tenant":"ffffffffffffffffffffffffffffffff"}}`}},
	"POST /flavors/:id/action removeTenantAccess": {{right: onlyAdmin, granted: 200, body: `{"removeTenantAccess":{"tenant":"PROJECT"}}`}},

	"GET /images": {
		{right: ofOwn(reads), granted: 200}, {right: behind, granted: 200, query: "marker=IMAGE&limit=1"},
		{right: ofOwn(reads), granted: 200, query: "name=MARK&status=ACTIVE&server=SERVER&type=snapshot&minRam=0&minDisk=1&changes-since=2020-01-01T00:00:00Z&property-color=MARK"},
	},
	"GET /images/detail":               {{right: ofOwn(reads), granted: 200}, {right: behind, granted: 200, query: "marker=IMAGE&limit=1"}},
	"GET /images/:id":                  {{right: ofImage(reads), granted: 200}},
	"DELETE /images/:id":               {{right: ofImage(writes), granted: 204}},
	"GET /images/:id/metadata":         {{right: ofImage(reads), granted: 200}},
	"POST /images/:id/metadata":        {{right: ofImage(writes), granted: 200, body: `{"metadata":{"a":"b"}}`}},
	"PUT /images/:id/metadata":         {{right: ofImage(writes), granted: 200, body: `{"metadata":{"a":"b"}}`}},
	"GET /images/:id/metadata/:key":    {{right: ofImage(reads), granted: 200}},
	"PUT /images/:id/metadata/:key":    {{right: ofImage(writes), granted: 200, body: `{"meta":{"color":"red"}}`}},
	"DELETE /images/:id/metadata/:key": {{right: ofImage(writes), granted: 204}},

	"GET /os-keypairs":       {{right: anyScope, granted: 200}, {right: ofNamedUser, granted: 200, query: "user_id=USER&limit=10", version: "2.97"}},
	"GET /os-keypairs/:name": {{right: ofUser, granted: 200}, {right: ofNamedUser, granted: 200, query: "user_id=USER", version: "2.97"}},
	"POST /os-keypairs": {
		{right: anyScope, granted: 200, body: `{"keypair":{"name":"mine","public_key":"PUBLIC"}}`, version: "2.1"},
		{right: anyScope, granted: 201, body: `{"keypair":{"name":"mine","type":"ssh","public_key":"PUBLIC"}}`, version: "2.97"},
		{right: ofNamedUser, granted: 201, body: `{"keypair":{"name":"mine","type":"ssh","public_key":"PUBLIC","user_id":"USER"}}`, version: "2.97"},
	},
	"DELETE /os-keypairs/:name": {
		{right: ofUser, granted: 202, version: "2.1"}, {right: ofUser, granted: 204, version: "2.97"},
		{right: ofNamedUser, granted: 204, query: "user_id=USER", version: "2.97"},
	},

	"POST /os-server-external-events": {{right: onlyAdmin, granted: 200, body: `{"events":[{"name":"network-changed","server_uuid":"SERVER"}]}`}},
	"GET /os-services":                {{right: onlyAdmin, granted: 200}},
	"PUT /os-services/:id": {
		{right: onlyAdmin, granted: 200, body: `{"host":"node-2","binary":"nova-compute"}`, to: "/os-services/disable", version: "2.11"},
		{right: onlyAdmin, granted: 200, body: `{"status":"disabled","disabled_reason":"because"}`, version: "2.97"},
	},
	"GET /os-services/:id/drain":                  {{right: onlyAdmin, granted: 200, query: "cold=true", version: "2.97"}},
	"DELETE /os-services/:id":                     {{right: onlyAdmin, granted: 204}},
	"GET /os-hypervisors":                         {{right: onlyAdmin, granted: 200}},
	"GET /os-hypervisors/detail":                  {{right: onlyAdmin, granted: 200}, {right: onlyAdmin, granted: 200, query: "with_servers=true&hypervisor_hostname_pattern=node", version: "2.97"}},
	"GET /os-hypervisors/statistics":              {{right: onlyAdmin, granted: 200}},
	"GET /os-hypervisors/:id":                     {{right: onlyAdmin, granted: 200, version: "2.97"}},
	"GET /os-hypervisors/:id/uptime":              {{right: onlyAdmin, granted: 200, version: "2.87"}},
	"GET /os-hypervisors/:id/search":              {{right: onlyAdmin, granted: 200, to: "/os-hypervisors/node/search"}},
	"GET /os-hypervisors/:id/servers":             {{right: onlyAdmin, granted: 200, to: "/os-hypervisors/node/servers"}},
	"GET /os-hosts":                               {{right: onlyAdmin, granted: 200}, {right: onlyAdmin, granted: 200, query: "zone=nova"}},
	"GET /os-hosts/:name":                         {{right: onlyAdmin, granted: 200, to: "/os-hosts/node-2"}},
	"PUT /os-hosts/:name":                         {{right: onlyAdmin, granted: 501, to: "/os-hosts/node-2", body: `{"status":"disable"}`}},
	"GET /os-hosts/:name/startup":                 {{right: onlyAdmin, granted: 501, to: "/os-hosts/node-2/startup"}},
	"GET /os-hosts/:name/shutdown":                {{right: onlyAdmin, granted: 501, to: "/os-hosts/node-2/shutdown"}},
	"GET /os-hosts/:name/reboot":                  {{right: onlyAdmin, granted: 501, to: "/os-hosts/node-2/reboot"}},
	"GET /os-aggregates":                          {{right: onlyAdmin, granted: 200}},
	"POST /os-aggregates":                         {{right: onlyAdmin, granted: 200, body: `{"aggregate":{"name":"fast","availability_zone":"nova"}}`}},
	"GET /os-aggregates/:id":                      {{right: onlyAdmin, granted: 200}},
	"PUT /os-aggregates/:id":                      {{right: onlyAdmin, granted: 200, body: `{"aggregate":{"name":"slow","availability_zone":"nova"}}`}},
	"DELETE /os-aggregates/:id":                   {{right: onlyAdmin, granted: 200, to: "/os-aggregates/HOSTLESS"}},
	"POST /os-aggregates/:id/images":              {{right: onlyAdmin, granted: 400, body: `{"cache":[{"id":"IMAGE"}]}`}}, // none is cached ahead
	"POST /os-aggregates/:id/action add_host":     {{right: onlyAdmin, granted: 200, body: `{"add_host":{"host":"node-1"}}`}},
	"POST /os-aggregates/:id/action remove_host":  {{right: onlyAdmin, granted: 200, body: `{"remove_host":{"host":"node-2"}}`}},
	"POST /os-aggregates/:id/action set_metadata": {{right: onlyAdmin, granted: 200, body: `{"set_metadata":{"metadata":{"a":"b","color":null}}}`}},
	"GET /os-instance_usage_audit_log":            {{right: onlyAdmin, granted: 200}},
	"GET /os-instance_usage_audit_log/:before":    {{right: onlyAdmin, granted: 200, to: "/os-instance_usage_audit_log/2026-03-10%2012:00:00"}},
	"GET /os-simple-tenant-usage":                 {{right: onlyAdmin, granted: 200, query: "detailed=1&start=2020-01-01T00:00:00&end=2040-01-01T00:00:00"}},
	"GET /os-simple-tenant-usage/:id":             {{right: named, granted: 200, query: "start=2020-01-01T00:00:00&end=2040-01-01T00:00:00"}},
	"GET /os-server-groups":                       {{right: ofOwn(reads), granted: 200}, {right: ofOwn(reads), granted: 200, query: "all_projects=1&limit=5&offset=0"}},
	"GET /os-server-groups/:id":                   {{right: on(reads), granted: 200}},
	"POST /os-server-groups": {
		{right: ofOwn(writes), granted: 200, body: `{"server_group":{"name":"new","policies":["affinity"]}}`, version: "2.63"},
		{right: ofOwn(writes), granted: 200, body: `{"server_group":{"name":"new","policy":"anti-affinity","rules":{"max_server_per_host":2}}}`},
	},
	"DELETE /os-server-groups/:id":     {{right: on(writes), granted: 204}},
	"GET /os-availability-zone":        {{right: ofOwn(reads), granted: 200}},
	"GET /os-availability-zone/detail": {{right: onlyAdmin, granted: 200}},

	// There is no network service.
	"GET /os-networks":                    {{right: ofOwn(reads), granted: 404}},
	"GET /os-networks/:id":                {{right: ofOwn(reads), granted: 404}},
	"GET /os-tenant-networks":             {{right: ofOwn(reads), granted: 404}},
	"GET /os-tenant-networks/:id":         {{right: ofOwn(reads), granted: 404}},
	"GET /os-security-groups":             {{right: ofOwn(reads), granted: 404}, {right: ofOwn(reads), granted: 404, query: "all_tenants=1&limit=5&offset=0"}},
	"GET /os-security-groups/:id":         {{right: ofOwn(reads), granted: 404}},
	"POST /os-security-groups":            {{right: ofOwn(writes), granted: 404, body: `{"security_group":{"name":"web","description":"of the shop"}}`}},
	"PUT /os-security-groups/:id":         {{right: ofOwn(writes), granted: 404, body: `{"security_group":{"name":"web","description":"of the shop"}}`}},
	"DELETE /os-security-groups/:id":      {{right: ofOwn(writes), granted: 404}},
	"POST /os-security-group-rules":       {{right: ofOwn(writes), granted: 404, body: `{"security_group_rule":{"parent_group_id":"SECURED","ip_protocol":"tcp","from_port":"80","to_port":81,"cidr":"10.0.0.0/8"}}`}},
	"DELETE /os-security-group-rules/:id": {{right: ofOwn(writes), granted: 404}},

	"GET /limits": {{right: anyScope, granted: 200}, {right: func(by caller, granted int) int {
		if by.as == unscoped || !by.home && by.power < rules {
			return http.StatusForbidden
		}
		return granted
	}, granted: 200, query: "tenant_id=PROJECT"}},
	"GET /os-quota-sets/:id":          {{right: named, granted: 200}},
	"GET /os-quota-sets/:id/defaults": {{right: anyScope, granted: 200}},
	"GET /os-quota-sets/:id/detail":   {{right: named, granted: 200}},
	"PUT /os-quota-sets/:id": {
		{right: onlyAdmin, granted: 200, body: `{"quota_set":{"instances":100,"force":"True"}}`},
		{right: onlyAdmin, granted: 200, body: `{"quota_set":{"injected_files":"5","floating_ips":-1}}`, version: "2.1"},
	},
	"DELETE /os-quota-sets/:id":    {{right: onlyAdmin, granted: 202}},
	"GET /os-quota-class-sets/:id": {{right: onlyAdmin, granted: 200}},
	"PUT /os-quota-class-sets/:id": {{right: onlyAdmin, granted: 403}}, // it cannot be changed here, also by whom the policy lets

	"GET /servers": {
		{right: ofOwn(reads), granted: 200}, {right: onlyAdmin, granted: 200, query: "all_tenants=1"},
		{right: behind, granted: 200, query: "marker=SERVER&limit=1"},
		{right: ofOwn(reads), granted: 200, query: "project_id=PROJECT&user_id=USER&name=MARK&sort_key=display_name&sort_dir=asc"},
	},
	"GET /servers/detail": {
		{right: ofOwn(reads), granted: 200}, {right: onlyAdmin, granted: 200, query: "all_tenants=1&limit=1"},
		{right: ofOwn(reads), granted: 200, query: "tenant_id=PROJECT&uuid=SERVER&flavor=FLAVOR&image=IMAGE&key_name=KEY&changes-since=2020-01-01T00:00:00Z"},
		{right: ofOwn(reads), granted: 200, query: "tags=TAG&tags-any=TAG&hostname=MARK", version: "2.97"},
	},
	"POST /servers": {
		{right: ofOwn(writes), granted: 202, body: `{"server":{"name":"one","imageRef":"PUBLIC-IMAGE","flavorRef":"42","networks":"none"}}`},
		{right: func(by caller, granted int) int { // of an image and a flavor of the project's own
			if by.power < writes {
				return http.StatusForbidden
			} else if !by.home {
				return http.StatusBadRequest
			}
			return granted
		}, granted: 202, body: `{"server":{"name":"one","imageRef":"IMAGE","flavorRef":"FLAVOR","networks":"none"}}`},
		{right: func(by caller, granted int) int { // with a key that is one user's
			if by.power < writes {
				return http.StatusForbidden
			} else if by.as != creator {
				return http.StatusBadRequest
			}
			return granted
		}, granted: 202, body: `{"server":{"name":"one","imageRef":"PUBLIC-IMAGE","flavorRef":"42","networks":"none","key_name":"KEY"}}`},
		{right: func(by caller, granted int) int { // into a group of the project's, away from a server of it
			switch {
			case by.power == rules:
				return granted
			case by.power < writes:
				return http.StatusForbidden
			case !by.home:
				return http.StatusBadRequest
			}
			return granted
		}, granted: 202, body: `{"server":{"name":"one","imageRef":"PUBLIC-IMAGE","flavorRef":"42","networks":"none"},"os:scheduler_hints":{"group":"GROUP"}}`},
		{right: func(by caller, granted int) int {
			switch {
			case by.power == rules:
				return granted
			case by.power < writes:
				return http.StatusForbidden
			case !by.home:
				return http.StatusBadRequest
			}
			return granted
		}, granted: 202, body: `{"server":{"name":"one","imageRef":"PUBLIC-IMAGE","flavorRef":"42","networks":"none"},"os:scheduler_hints":{"different_host":["SERVER"]}}`},
		{right: onlyAdmin, granted: 202, body: `{"server":{"name":"one","imageRef":"PUBLIC-IMAGE","flavorRef":"42","networks":"none","host":"node-2"}}`},
		{right: onlyAdmin, granted: 202, body: `{"server":{"name":"one","imageRef":"PUBLIC-IMAGE","flavorRef":"42","networks":"none","availability_zone":":node-2"}}`},
	},
	"GET /servers/:id":                                              {{right: on(reads), granted: 200}},
	"PUT /servers/:id":                                              {{right: on(writes), granted: 200, body: `{"server":{"name":"other","description":null,"accessIPv4":"192.0.2.1","OS-DCF:diskConfig":"AUTO","hostname":"other"}}`}},
	"DELETE /servers/:id":                                           {{right: on(writes), granted: 204}},
	"GET /servers/:id/metadata":                                     {{right: on(reads), granted: 200}},
	"POST /servers/:id/metadata":                                    {{right: on(writes), granted: 200, body: `{"metadata":{"a":"b"}}`}},
	"PUT /servers/:id/metadata":                                     {{right: on(writes), granted: 200, body: `{"metadata":{"a":"b"}}`}},
	"GET /servers/:id/metadata/:key":                                {{right: on(reads), granted: 200}},
	"PUT /servers/:id/metadata/:key":                                {{right: on(writes), granted: 200, body: `{"meta":{"color":"red"}}`}},
	"DELETE /servers/:id/metadata/:key":                             {{right: on(writes), granted: 204}},
	"GET /servers/:id/tags":                                         {{right: on(reads), granted: 200}},
	"PUT /servers/:id/tags":                                         {{right: on(writes), granted: 200, body: `{"tags":["a","b"]}`}},
	"DELETE /servers/:id/tags":                                      {{right: on(writes), granted: 204}},
	"GET /servers/:id/tags/:tag":                                    {{right: on(reads), granted: 204}},
	"PUT /servers/:id/tags/:tag":                                    {{right: on(writes), granted: 201, to: "/servers/SERVER/tags/new"}},
	"DELETE /servers/:id/tags/:tag":                                 {{right: on(writes), granted: 204}},
	"GET /servers/:id/ips":                                          {{right: on(reads), granted: 200}},
	"GET /servers/:id/ips/:network":                                 {{right: on(reads), granted: 404}},
	"GET /servers/:id/os-security-groups":                           {{right: on(reads), granted: 200}},
	"GET /servers/:id/os-interface":                                 {{right: on(reads), granted: 200}},
	"GET /servers/:id/os-interface/:port":                           {{right: on(reads), granted: 404}},                                      // it has none
	"POST /servers/:id/os-interface":                                {{right: on(writes), granted: 400, body: `{"interfaceAttachment":{}}`}}, // there is no network service
	"DELETE /servers/:id/os-interface/:port":                        {{right: on(writes), granted: 404}},
	"GET /servers/:id/os-volume_attachments":                        {{right: on(reads), granted: 200}},
	"POST /servers/:id/os-volume_attachments":                       {{right: on(writes), granted: 400, body: `{"volumeAttachment":{"volumeId":"00000000-0000-0000-0000-000000000000"}}`}},
	"GET /servers/:id/os-volume_attachments/:volume":                {{right: on(reads), granted: 404}}, // it has none
	"PUT /servers/:id/os-volume_attachments/:volume":                {{right: on(writes), granted: 404, body: `{"volumeAttachment":{"volumeId":"00000000-0000-0000-0000-000000000000"}}`}},
	"DELETE /servers/:id/os-volume_attachments/:volume":             {{right: on(writes), granted: 404}},
	"GET /servers/:id/os-server-password":                           {{right: on(reads), granted: 200}},
	"DELETE /servers/:id/os-server-password":                        {{right: on(writes), granted: 204}},
	"GET /servers/:id/topology":                                     {{right: on(reads), granted: 200}},
	"GET /servers/:id/shares":                                       {{right: on(reads), granted: 200}},
	"GET /servers/:id/shares/:share_id":                             {{right: on(reads), granted: 404}}, // it has none
	"POST /servers/:id/shares":                                      {{right: on(writes), granted: 409, body: `{"share":{"share_id":"` + goodShare + `","tag":"data"}}`, from: compute.VMStopped}},
	"DELETE /servers/:id/shares/:share_id":                          {{right: on(writes), granted: 404, from: compute.VMStopped}},
	"GET /servers/:id/diagnostics":                                  {{right: on(rules), granted: 200}},
	"GET /servers/:id/disks":                                        {{right: on(reads), granted: 200}},
	"GET /servers/:id/tpm-certificates":                             {{right: on(reads), granted: 404}}, // it has none
	"GET /servers/:id/operations":                                   {{right: on(reads), granted: 200}},
	"GET /servers/:id/operations/:operation":                        {{right: on(reads), granted: 200}},
	"DELETE /servers/:id/operations/:operation":                     {{right: on(writes), granted: 409}}, // it has ended, or not begun
	"GET /servers/:id/os-instance-actions":                          {{right: on(reads), granted: 200}},
	"GET /os-migrations":                                            {{right: onlyAdmin, granted: 200}},
	"GET /servers/:id/migrations":                                   {{right: on(rules), granted: 200}},
	"GET /servers/:id/migrations/:migration":                        {{right: on(rules), granted: 404}},
	"DELETE /servers/:id/migrations/:migration":                     {{right: on(rules), granted: 404}},
	"POST /servers/:id/migrations/:migration/action force_complete": {{right: on(rules), granted: 404, body: `{"force_complete":null}`}},
	"GET /servers/:id/os-instance-actions/:request_id":              {{right: on(reads), granted: 200}},

	"POST /servers/:id/action os-start":            {{right: on(writes), granted: 202, body: `{"os-start":null}`, from: compute.VMStopped}},
	"POST /servers/:id/action os-stop":             {{right: on(writes), granted: 202, body: `{"os-stop":null}`}},
	"POST /servers/:id/action reboot":              {{right: on(writes), granted: 202, body: `{"reboot":{"type":"HARD"}}`}},
	"POST /servers/:id/action addSecurityGroup":    {{right: on(writes), granted: 404, body: `{"addSecurityGroup":{"name":"web"}}`}},
	"POST /servers/:id/action removeSecurityGroup": {{right: on(writes), granted: 404, body: `{"removeSecurityGroup":{"name":"web"}}`}},
	"POST /servers/:id/action pause":               {{right: on(writes), granted: 202, body: `{"pause":null}`}},
	"POST /servers/:id/action unpause":             {{right: on(writes), granted: 202, body: `{"unpause":null}`, from: compute.VMPaused}},
	"POST /servers/:id/action suspend":             {{right: on(writes), granted: 202, body: `{"suspend":null}`}},
	"POST /servers/:id/action resume":              {{right: on(writes), granted: 202, body: `{"resume":null}`, from: compute.VMSuspended}},
	"POST /servers/:id/action trigger_crash_dump":  {{right: on(writes), granted: 202, body: `{"trigger_crash_dump":null}`}},
	"POST /servers/:id/action changePassword":      {{right: on(writes), granted: 409, body: `{"changePassword":{"adminPass":"secret"}}`}},
	"POST /servers/:id/action addFloatingIp":       {{right: on(writes), granted: 400, body: `{"addFloatingIp":{"address":"192.0.2.1"}}`}},
	"POST /servers/:id/action removeFloatingIp":    {{right: on(writes), granted: 400, body: `{"removeFloatingIp":{"address":"192.0.2.1"}}`}},
	"POST /servers/:id/action addFixedIp":          {{right: on(writes), granted: 400, body: `{"addFixedIp":{"networkId":"1"}}`}},
	"POST /servers/:id/action removeFixedIp":       {{right: on(writes), granted: 400, body: `{"removeFixedIp":{"address":"192.0.2.1"}}`}},
	"POST /servers/:id/action lock":                {{right: on(writes), granted: 202, body: `{"lock":{"locked_reason":"why"}}`}},
	"POST /servers/:id/action unlock":              {{right: on(writes), granted: 202, body: `{"unlock":null}`}},
	"POST /servers/:id/action os-resetState":       {{right: on(rules), granted: 202, body: `{"os-resetState":{"state":"error"}}`}},
	"POST /servers/:id/action createImage":         {{right: on(writes), granted: 202, body: `{"createImage":{"name":"copy","metadata":{"a":"b"}}}`}},
	"POST /servers/:id/action createBackup":        {{right: on(writes), granted: 202, body: `{"createBackup":{"name":"copy","backup_type":"daily","rotation":1}}`}},
	"POST /servers/:id/action resize":              {{right: on(writes), granted: 202, body: `{"resize":{"flavorRef":"42","OS-DCF:diskConfig":"AUTO"}}`}},
	"POST /servers/:id/action forceDelete":         {{right: on(writes), granted: 202, body: `{"forceDelete":null}`}},
	"POST /servers/:id/action restore":             {{right: on(writes), granted: 409, body: `{"restore":null}`}},
	"POST /servers/:id/action rebuild": {{right: on(writes), granted: 202,
		body: `{"rebuild":{"imageRef":"PUBLIC-IMAGE","name":"new","metadata":{"a":"b"},"description":"d","preserve_ephemeral":false,"user_data":"dGV4dA==","key_name":null}}`}},
	"POST /servers/:id/action dryRun": {
		{right: on(writes), granted: 200, body: `{"dryRun":{"shelve":null}}`},
		{right: on(writes), granted: 200, body: `{"dryRun":{"unshelve":{"availability_zone":null}}}`},
		{right: on(writes), granted: 200, body: `{"dryRun":{"resize":{"flavorRef":"42","OS-DCF:diskConfig":"AUTO"}}}`},
		{right: on(rules), granted: 200, body: `{"dryRun":{"migrate":null}}`},
		{right: on(rules), granted: 200, body: `{"dryRun":{"os-migrateLive":{"host":null,"block_migration":"auto"}}}`},
		{right: on(rules), granted: 200, body: `{"dryRun":{"evacuate":{"adminPass":"secret"}}}`},
		{right: on(rules), granted: 200, body: `{"dryRun":{"shelveOffload":null}}`},
		{right: on(writes), granted: 200, body: `{"dryRun":{"confirmResize":null}}`},
		{right: on(writes), granted: 200, body: `{"dryRun":{"revertResize":null}}`},
	},
	"POST /servers/:id/action rotateKeys":          {{right: on(writes), granted: 409, body: `{"rotateKeys":null}`}}, // it has none
	"POST /servers/:id/action os-getConsoleOutput": {{right: on(writes), granted: 200, body: `{"os-getConsoleOutput":{"length":10}}`}},
	"POST /servers/:id/remote-consoles":            {{right: on(writes), granted: 200, body: `{"remote_console":{"protocol":"serial","type":"serial"}}`}},
	"POST /servers/:id/action os-getSerialConsole": {{right: on(writes), granted: 200, body: `{"os-getSerialConsole":{"type":"serial"}}`}},
	"POST /servers/:id/action os-getVNCConsole":    {{right: on(writes), granted: 400, body: `{"os-getVNCConsole":{"type":"novnc"}}`}}, // its machine has no screen
	"POST /servers/:id/action os-getSPICEConsole":  {{right: on(writes), granted: 400, body: `{"os-getSPICEConsole":{"type":"spice-html5"}}`}},
	"POST /servers/:id/action os-getRDPConsole":    {{right: on(writes), granted: 400, body: `{"os-getRDPConsole":{"type":"rdp-html5"}}`}},
	"GET /os-console-auth-tokens/:token":           {{right: onlyAdmin, granted: 400, version: "2.30"}, {right: onlyAdmin, granted: 404, version: "2.31"}}, // nobody asked for a console
	"POST /servers/:id/action rescue":              {{right: on(writes), granted: 200, body: `{"rescue":{"adminPass":"secret","rescue_image_ref":"PUBLIC-IMAGE"}}`}},
	"POST /servers/:id/action unrescue":            {{right: on(writes), granted: 202, body: `{"unrescue":null}`, from: compute.VMRescued}},
	"POST /servers/:id/action shelve":              {{right: on(writes), granted: 202, body: `{"shelve":null}`}},
	"POST /servers/:id/action shelveOffload":       {{right: on(rules), granted: 202, body: `{"shelveOffload":null}`, from: compute.VMShelved}},
	"POST /servers/:id/action migrate": {
		{right: on(rules), granted: 202, body: `{"migrate":null}`},
		{right: on(rules), granted: 400, body: `{"migrate":{"host":"nowhere"}}`},
	},
	"POST /servers/:id/action evacuate": {{right: on(rules), granted: 400, body: `{"evacuate":{"host":"nowhere","adminPass":"secret"}}`}}, // its host is up
	"POST /servers/:id/action os-migrateLive": {
		{right: on(rules), granted: 202, body: `{"os-migrateLive":{"host":null,"block_migration":"auto"}}`},
		{right: on(rules), granted: 400, body: `{"os-migrateLive":{"host":"nowhere","block_migration":true}}`},
	},
	"POST /servers/:id/action confirmResize": {{right: on(writes), granted: 409, body: `{"confirmResize":null}`}}, // it was not moved
	"POST /servers/:id/action revertResize":  {{right: on(writes), granted: 409, body: `{"revertResize":null}`}},
	"POST /servers/:id/action unshelve": {
		{right: on(writes), granted: 202, body: `{"unshelve":null}`, from: compute.VMShelved},
		{right: on(writes), granted: 202, body: `{"unshelve":{"availability_zone":null}}`, from: compute.VMShelvedOffloaded},
	},
}

// volumeDemands are demands of the routes of the volume types API.
var volumeDemands = map[string][]demand{
	"GET /types":                           {{right: anyScope, granted: 200}, {right: anyScope, granted: 200, query: "is_public=None&limit=1&sort=name:asc"}},
	"POST /types":                          {{right: onlyAdmin, granted: 200, body: `{"volume_type":{"name":"new","os-volume-type-access:is_public":true}}`}},
	"GET /types/:id":                       {{right: ofScope, granted: 200}, {right: anyScope, granted: 404, to: "/types/default"}}, // there is none
	"PUT /types/:id":                       {{right: onlyAdmin, granted: 200, body: `{"volume_type":{"description":"of mine"}}`}},
	"DELETE /types/:id":                    {{right: onlyAdmin, granted: 202}},
	"GET /types/:id/extra_specs":           {{right: ofScope, granted: 200}},
	"POST /types/:id/extra_specs":          {{right: onlyAdmin, granted: 200, body: `{"extra_specs":{"shape":"round"}}`}},
	"GET /types/:id/extra_specs/:key":      {{right: ofScope, granted: 200}},
	"PUT /types/:id/extra_specs/:key":      {{right: onlyAdmin, granted: 200, body: `{"multiattach":"<is> False"}`}},
	"DELETE /types/:id/extra_specs/:key":   {{right: onlyAdmin, granted: 202}},
	"GET /types/:id/os-volume-type-access": {{right: onlyAdmin, granted: 200}},
	"POST /types/:id/action": {
		{right: onlyAdmin, granted: 202, body: `{"addProjectAccess":{"project":"` + elsewhere + `"}}`},
		{right: onlyAdmin, granted: 202, body: `{"removeProjectAccess":{"project":"PROJECT"}}`},
	},
	"GET /types/:id/encryption":         {{right: onlyAdmin, granted: 200}},
	"POST /types/:id/encryption":        {{right: onlyAdmin, granted: 400, body: `{"encryption":{"provider":"luks","control_location":"front-end"}}`}}, // it has one
	"GET /types/:id/encryption/:key":    {{right: onlyAdmin, granted: 200, to: "/types/VOLUME/encryption/cipher"}},
	"PUT /types/:id/encryption/:key":    {{right: onlyAdmin, granted: 200, body: `{"encryption":{"key_size":256}}`, to: "/types/VOLUME/encryption/ENCRYPTION"}},
	"DELETE /types/:id/encryption/:key": {{right: onlyAdmin, granted: 202, to: "/types/VOLUME/encryption/ENCRYPTION"}},
	"GET /types/:id/changes":            {{right: onlyAdmin, granted: 200}},
	"GET /limits":                       {{right: ofOwn(reads), granted: 200}},
	"GET /qos-specs":                    {{right: onlyAdmin, granted: 200}},
	"GET /os-quota-sets/:id":            {{right: named, granted: 200}, {right: named, granted: 200, query: "usage=true"}},
	"GET /os-quota-sets/:id/defaults":   {{right: named, granted: 200}},
	"PUT /os-quota-sets/:id":            {{right: onlyAdmin, granted: 403, body: `{"quota_set":{"volumes":10}}`}}, // they cannot be changed
	"DELETE /os-quota-sets/:id":         {{right: onlyAdmin, granted: 403}},
	"GET /os-quota-class-sets/:id":      {{right: onlyAdmin, granted: 200}},
	"PUT /os-quota-class-sets/:id":      {{right: onlyAdmin, granted: 403, body: `{"quota_class_set":{"volumes":10}}`}},
}

// gone is why routes are refused that Nova has no more.
const gone = "This resource is no longer available.  No forwarding address is given."

// isElsewhere reports whether a route is one that Nova has no more, or with which Nova stands in for another service.
func isElsewhere(r api.Route) bool {
	return r.Refused == gone || strings.HasPrefix(r.Refused, "This API does not pass this on.")
}

// demandsOf are the demands of a route. What is elsewhere is refused to everybody who is let in.
func demandsOf(r api.Route) []demand {
	if !isElsewhere(r) {
		return demands[routeName(r)]
	}
	refused := demand{right: anybody, granted: http.StatusNotFound}
	if r.Refused == gone {
		refused.granted = http.StatusGone
	}
	if r.Action != "" {
		refused.body = `{"` + r.Action + `":null}`
	}
	return []demand{refused}
}

func routeName(r api.Route) string {
	return strings.TrimSpace(r.Method + " " + r.Path + " " + r.Action)
}

// routed is a route of either API as it is asked.
type routed struct {
	name, method, path string
	root               string   // what paths begin with
	service            string   // whose versions they are
	versions           []string // at which demands are made that name none
	covers             func(version string) bool
}

// routedOf gives a route of the compute API.
func routedOf(r api.Route) routed {
	newest := r.Max
	if newest == 0 {
		newest = microversion.Max
	}
	versions := []string{newest.String()}
	if r.Method == http.MethodGet {
		versions = slices.Compact([]string{max(r.Min, 1).String(), newest.String()})
	}
	return routed{routeName(r), r.Method, r.Path, "/v2.1", "compute", versions, func(version string) bool { return covers(r, version) }}
}

// routedOfVolumes gives a route of the volume types API, all of which are of all versions. In its paths the project of
// the token may stand, too.
func routedOfVolumes(name, root string) routed {
	method, path, _ := strings.Cut(name, " ")
	versions := []string{microversion.Volume.Text(microversion.Volume.Max)}
	if method == http.MethodGet {
		versions = append(versions, microversion.Volume.Text(microversion.Volume.Min))
	}
	return routed{name, method, path, root, "volume", versions, func(string) bool { return true }}
}

// words replaces the words in capitals by what a project has.
func (p *tenant) words(c *tenants) *strings.Replacer {
	return strings.NewReplacer("PUBLIC-IMAGE", c.image, "PUBLIC", publicKey, "PROJECT", p.project, "USER", p.user, "MARK", p.mark,
		"SERVER", p.server, "FLAVOR", p.flavor, "IMAGE", p.image, "KEY", p.key, "TAG", p.tag, "VOLUME", p.volume, "ENCRYPTION", p.encryption, "GROUP", p.group, "SECURED", p.secured.String(), "HOSTLESS", c.hostless)
}

// path is a route's path with what a project has in place of its parameters.
func (p *tenant) path(c *tenants, route string) string {
	id, key := p.server, "color"
	switch {
	case strings.HasPrefix(route, "/flavors/"):
		id = p.flavor
	case strings.HasPrefix(route, "/images/"):
		id = p.image
	case strings.HasPrefix(route, "/types/"):
		id, key = p.volume, "multiattach"
	case strings.HasPrefix(route, "/os-server-groups/"):
		id = p.group
	case strings.HasPrefix(route, "/os-aggregates/"):
		id = c.aggregate
	case strings.HasPrefix(route, "/os-security-group"): // its rule has the same
		id = p.secured.String()
	case strings.HasPrefix(route, "/os-quota-sets/"), strings.HasPrefix(route, "/os-simple-tenant-usage/"):
		id = p.project
	case strings.HasPrefix(route, "/os-services/"), strings.HasPrefix(route, "/os-hypervisors/"):
		id = c.spare.String()
	}
	return strings.NewReplacer(":id", id, ":key", key, ":name", p.key, ":tag", p.tag, ":alias", "os-keypairs",
		":network", "none", ":port", goodShare, ":share_id", goodShare, ":request_id", p.action, ":operation", p.action).Replace(route)
}

// versions are those at which a route is asked.
func (d demand) versions(r routed) []string {
	if d.version != "" {
		return []string{d.version}
	}
	return r.versions
}

// Every route answers each role, of the project whose things it is asked for and of another,
// as the policy says; the one who is of another sees nothing of them, not even that they are
// there. A route without a demand fails.
func TestEveryRouteAnswersEachRole(t *testing.T) {
	t.Parallel()
	c := setupTenants(t)
	left := maps.Clone(demands)
	for _, r := range c.api.Routes() {
		delete(left, routeName(r))
		c.demandAll(t, routedOf(r), demandsOf(r))
	}
	require.Empty(t, left, "there are no such routes")
	require.Empty(t, c.errors.all())
}

// The same of the volume types API (VT-07, VT-10), whose types may be a project's alone.
func TestEveryVolumeRouteAnswersEachRole(t *testing.T) {
	t.Parallel()
	c := setupTenants(t)
	left := maps.Clone(volumeDemands)
	for _, name := range c.api.VolumeRoutes() {
		delete(left, name)
		c.demandAll(t, routedOfVolumes(name, "/v3"), volumeDemands[name])
	}
	require.Empty(t, left, "there are no such routes")
	require.Empty(t, c.errors.all())
}

func (c *tenants) demandAll(t *testing.T, r routed, asked []demand) {
	t.Helper()
	require.NotEmpty(t, asked, "%s: say in its demands who may ask for it", r.name)
	t.Run(r.name, func(t *testing.T) {
		covered := false
		for _, d := range asked {
			for _, version := range d.versions(r) {
				if r.covers(version) {
					c.demand(t, r, d, version)
					covered = true
				}
			}
		}
		require.True(t, covered, "no demand is in its range of versions")
	})
}

func covers(r api.Route, version string) bool {
	for v := max(r.Min, 1); v <= microversion.Max; v++ {
		if v.String() == version {
			return r.Max == 0 || v <= r.Max
		}
	}
	return false
}

// demand asks as everybody.
func (c *tenants) demand(t *testing.T, r routed, d demand, version string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(callers)) {
		by := callers[name]
		if c.changed {
			c.renew()
		}
		from := d.from
		if from == "" {
			from = compute.VMActive
		}
		c.settle(c.home.server, from, compute.TaskNone)
		words := c.home.words(c)
		path := c.home.path(c, r.path)
		if d.to != "" {
			path = words.Replace(d.to)
		}
		if d.query != "" {
			path += "?" + words.Replace(d.query)
		}
		body := words.Replace(d.body)
		send := func(as who, path string) answer {
			t.Helper()
			return c.raw(t, as, r.method, r.root+path, body, header(microversion.Header, r.service+" "+version+", strongroom 1.0"))
		}
		what := r.name + " " + d.query + " " + body + " at " + version + ", as " + name
		require.Equal(t, http.StatusUnauthorized, send(nobody, path).code, what)
		another := c.home.project
		if by.home {
			another = c.there.project
		}
		require.Equal(t, http.StatusBadRequest, send(by.as, "/"+another+path).code, "%s: with another project in the path", what)
		got := send(by.as, path)
		c.changed = r.method != http.MethodGet && got.code < 300
		require.Equal(t, d.right(by, d.granted), got.code, "%s: %s", what, got.body)
		if by.power == rules {
			continue
		}
		foreign := c.there
		if !by.home {
			foreign = c.home
		}
		seen := got.body
		for _, values := range got.header {
			seen += strings.Join(values, " ")
		}
		for _, secret := range foreign.secrets() {
			if !strings.Contains(path+body, secret) { // what they said themselves
				require.NotContains(t, seen, secret, what)
			}
		}
		for root, id := range map[string]string{"/servers/": c.home.server, "/types/": c.home.volume, "/os-server-groups/": c.home.group, "/images/": c.home.image} {
			if !by.home && strings.HasPrefix(path, root) && strings.Contains(path, id) {
				other := uuid.NewString()
				none := send(by.as, strings.ReplaceAll(path, id, other))
				require.Equal(t, none.code, got.code, what)
				require.Equal(t, strings.ReplaceAll(none.body, other, id), got.body, "%s: it is told that it is there", what)
			}
		}
	}
}
