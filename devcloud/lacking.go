package devcloud

import (
	"slices"
	"strings"
)

// lacking are the resources of the real services, by the first part of their path, and what is said of a request for one of them that has no handler here.
var lacking = []struct {
	path, kinds, words string
}{
	{
		"/identity/v3/",
		`credentials domains endpoints groups limits policies projects region regions registered_limits role_assignments role_inferences roles services
		system users OS-EP-FILTER OS-FEDERATION OS-INHERIT OS-OAUTH1 OS-OAUTH2 OS-REVOKE OS-TRUST`,
		"This identity service, of strongroom dev, has projects, users and the roles that users have on projects; it has one domain and no groups, trusts, " +
			"roles, application credentials and entries of the catalog that you make. " + takeKeystone,
	},
	{
		"/image/v2/",
		"cache images metadefs stores tasks",
		"This image service, of strongroom dev, has images, their data and their tags; it has no members, imports, tasks, locations and definitions of metadata. " +
			"For these run it on a Glance: strongroom dev --cloud FILE.",
	},
	{
		"/network/v2.0/",
		`address-groups address-scopes agents auto-allocated-topology availability_zones default-security-group-rules flavors floatingips fwaas local-ips log
		metering ndp-proxies network-ip-availabilities network_segment_ranges networks ports qos quotas rbac-policies routers security-group-rules
		security-groups segments service-providers service_profiles subnetpools subnets trunks vpn`,
		"This network service, of strongroom dev, is there to read: each project has one network, and one security group that lets everything pass; servers make the ports. " +
			"For networks, ports, rules and routers of your own run it on a cloud with Neutron, with STRONGROOM_NETWORKS__BACKEND=neutron: strongroom dev --cloud FILE.",
	},
}

// lacks says what to do about a request for which there is no handler: "" where the real service has no such resources either.
func lacks(path string) string {
	for _, l := range lacking {
		if rest, ok := strings.CutPrefix(path, l.path); ok {
			kind, _, _ := strings.Cut(strings.TrimSuffix(rest, ".json"), "/")
			if slices.Contains(strings.Fields(l.kinds), kind) {
				return l.words
			}
		}
	}
	return ""
}
