package api

import (
	"fmt"
	"net/http"
	"strings"

	"strongroom/api/fault"
	"strongroom/api/microversion"
	"strongroom/api/policy"
	"strongroom/compute"
)

// What the API of Nova's first years had beside servers. Much of that is gone from it, whatever the version; and to some
// version it stands in for other services. For the image service and for most of the network service it does so here, too: images.go,
// network_proxies.go, security_groups.go.

// goneReason is Nova's.
const goneReason = "This resource is no longer available.  No forwarding address is given."

// A line has methods, a path, and actions.
const goneRoutes = `
GET,POST /os-agents
PUT,DELETE /os-agents/:id
GET,POST /os-cells
GET /os-cells/capacities
GET /os-cells/detail
GET /os-cells/info
POST /os-cells/sync_instances
GET,PUT,DELETE /os-cells/:id
GET /os-cells/:id/capacities
POST /os-certificates
GET /os-certificates/:id
GET,POST /os-cloudpipe
PUT /os-cloudpipe/:id
GET /os-fixed-ips/:id
POST /os-fixed-ips/:id/action reserve unreserve
GET /os-floating-ip-dns
PUT,DELETE /os-floating-ip-dns/:id
GET,PUT,DELETE /os-floating-ip-dns/:id/entries/:entry
GET,POST /os-floating-ips-bulk
GET,PUT /os-floating-ips-bulk/:id
GET /os-fping
GET /os-fping/:id
POST /os-networks
POST /os-networks/add
DELETE /os-networks/:id
POST /os-networks/:id/action disassociate disassociate_host disassociate_project associate_host
GET,POST /os-security-group-default-rules
GET,DELETE /os-security-group-default-rules/:id
POST /os-tenant-networks
DELETE /os-tenant-networks/:id
GET,POST /servers/:id/consoles
GET,DELETE /servers/:id/consoles/:console
GET /servers/:id/os-virtual-interfaces
`

func (a *API) goneFromNova() Resource {
	return Resource{Routes: routesOf(goneRoutes, goneReason, func(*Request) (any, error) {
		return nil, fault.Errorf(http.StatusGone, goneReason)
	})}
}

const (
	proxiesUntil       microversion.Version = 35
	imageMetadataUntil microversion.Version = 38
	addressesUntil     microversion.Version = 43
)

// proxyRoutes are those with which Nova stands in for another service and this API does not, by service.
var proxyRoutes = []struct {
	service string
	until   microversion.Version
	routes  string
}{
	{"network", proxiesUntil, `
GET /os-floating-ip-pools
GET,POST /os-floating-ips
GET,DELETE /os-floating-ips/:id`},
	{"block storage", proxiesUntil, `
GET,POST /os-snapshots
GET /os-snapshots/detail
GET,DELETE /os-snapshots/:id
GET,POST /os-volumes
GET /os-volumes/detail
GET,DELETE /os-volumes/:id`},
	{"bare metal", proxiesUntil, `
GET /os-baremetal-nodes
GET /os-baremetal-nodes/:id`},
}

// noProxies says with whom to speak. From the version after on they are no more there in Nova either, with the same status.
func (a *API) noProxies() (out Resource) {
	for _, of := range proxyRoutes {
		why := fmt.Sprintf("This API does not pass this on. Ask the %s service itself.", of.service)
		routes := routesOf(of.routes, why, func(*Request) (any, error) { return nil, fault.NotFound("%s", why) })
		for i := range routes {
			routes[i].Max = of.until
		}
		out.Routes = append(out.Routes, routes...)
	}
	return out
}

// routesOf reads lines of routes that are refused for one reason.
func routesOf(lines, why string, handle func(*Request) (any, error)) (routes []Route) {
	for line := range strings.Lines(strings.TrimSpace(lines)) {
		words := strings.Fields(line)
		actions := words[2:]
		if len(actions) == 0 {
			actions = []string{""}
		}
		for method := range strings.SplitSeq(words[0], ",") {
			for _, action := range actions {
				routes = append(routes, Route{Method: method, Path: words[1], Action: action, Refused: why, Handle: handle})
			}
		}
	}
	return routes
}

const ruleFloatingAddress = "os_compute_api:os-floating-ips:"

const addressesElsewhere = "Addresses of a server are changed at its ports. Ask the network service itself."

// addressActions refuse to change a server's addresses, which Nova does for the network service.
func (a *API) addressActions() Resource {
	out := Resource{Rules: policy.Rules{}}
	for key, rule := range map[string]string{
		"addFloatingIp": ruleFloatingAddress + "add", "removeFloatingIp": ruleFloatingAddress + "remove",
		"addFixedIp": "os_compute_api:os-multinic:add", "removeFixedIp": "os_compute_api:os-multinic:remove",
	} {
		route := actionRoute(key, bare(key), func(r *Request) (any, error) {
			if _, err := a.findServer(r, rule); err != nil {
				return nil, err
			}
			return nil, compute.Errorf(compute.Invalid, addressesElsewhere)
		})
		route.Max, route.Refused = addressesUntil, addressesElsewhere
		out.Rules[rule], out.Routes = policy.ProjectMemberOrAdmin, append(out.Routes, route)
	}
	return out
}
