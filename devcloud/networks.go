package devcloud

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"strongroom/activities/port"
	"strongroom/compute"
)

// networks is the network service, Neutron's API v2.0, to read: what clients look up before they
// ask for a server, and what they show of it. Ports are made by servers.
type networks struct {
	*Server

	service port.Service
}

func (n *networks) mount(g *echo.Group) {
	for _, path := range []string{"", "/"} {
		g.GET(path, n.versions)
		g.GET("/v2.0"+path, n.resources)
	}
	get := func(path string, h echo.HandlerFunc) { // a group with middleware answers other methods with 404
		g.GET("/v2.0/"+path, h, n.authenticated)
	}
	get("extensions", func(c echo.Context) error { return c.JSON(http.StatusOK, map[string]any{"extensions": extensions()}) })
	get("extensions/:id", showExtension)
	get("quotas/:id", n.showQuota)
	for kind, list := range map[string]func(context.Context, session) ([]document, error){
		"networks": n.networks, "subnets": n.subnets, "ports": n.ports, "security-groups": n.groups, "security-group-rules": n.rules,
	} {
		key := strings.ReplaceAll(kind, "-", "_")
		get(kind, func(c echo.Context) error {
			all, err := n.list(c, list)
			if err != nil {
				return err
			}
			return c.JSON(http.StatusOK, map[string]any{key: all})
		})
		get(kind+"/:id", func(c echo.Context) error {
			all, err := n.read(c, list)
			if err != nil {
				return err
			}
			i := slices.IndexFunc(all, func(d document) bool { return d["id"] == c.Param("id") })
			if i < 0 {
				return fault(http.StatusNotFound, "%s %s could not be found.", kind, c.Param("id"))
			}
			return c.JSON(http.StatusOK, map[string]any{strings.TrimSuffix(key, "s"): all[i]})
		})
	}
}

func (n *networks) versions(c echo.Context) error {
	return c.JSON(http.StatusOK, map[string]any{"versions": []any{map[string]any{
		"id": "v2.0", "status": "CURRENT", "links": []map[string]string{{"rel": "self", "href": n.NetworkURL() + "/v2.0/"}},
	}}})
}

func (n *networks) resources(c echo.Context) error {
	all := []map[string]any{}
	for _, kind := range []string{"networks", "subnets", "ports", "security-groups", "security-group-rules", "quotas", "extensions"} {
		all = append(all, map[string]any{"name": kind, "collection": kind, "links": []map[string]string{{"rel": "self", "href": n.NetworkURL() + "/v2.0/" + kind}}})
	}
	return c.JSON(http.StatusOK, map[string]any{"resources": all})
}

// read gives all of a kind that the caller's project sees.
func (n *networks) read(c echo.Context, list func(context.Context, session) ([]document, error)) ([]document, error) {
	caller := callerOf(c)
	if caller.project == nil {
		return nil, forbidden("network:get")
	}
	return list(c.Request().Context(), caller)
}

// list gives those of a kind that the query asks for, with the fields that it asks for.
func (n *networks) list(c echo.Context, list func(context.Context, session) ([]document, error)) ([]document, error) {
	all, err := n.read(c, list)
	if err != nil {
		return nil, err
	}
	query := c.QueryParams()
	out := []document{}
	for _, d := range all {
		matches, err := d.matches(query)
		if err != nil {
			return nil, err
		}
		if matches {
			out = append(out, d.only(query["fields"]))
		}
	}
	return out, nil
}

// document is what an answer says of one thing.
type document map[string]any

// unfiltered are the keys of a query that are no filter. There are never so many things that they are
// given in pages.
var unfiltered = []string{"fields", "limit", "marker", "page_reverse", "sort_key", "sort_dir"}

// matches reports whether the thing is one that a query asks for: it has one of the values of each key.
func (d document) matches(query map[string][]string) (bool, error) {
	for key, values := range query {
		if slices.Contains(unfiltered, key) {
			continue
		}
		has, known := d[key]
		if !known {
			return false, fault(http.StatusBadRequest, "[%q] is invalid attribute for filtering", key)
		}
		if !slices.ContainsFunc(values, func(value string) bool { return isAsked(has, value) }) {
			return false, nil
		}
	}
	return true, nil
}

// isAsked compares a value with a query's; of addresses "ip_address=…" and "subnet_id=…".
func isAsked(has any, value string) bool {
	if addresses, ok := has.([]map[string]string); ok {
		key, want, _ := strings.Cut(value, "=")
		return slices.ContainsFunc(addresses, func(a map[string]string) bool { return a[key] == want })
	}
	if list, ok := has.([]string); ok {
		return slices.Contains(list, value)
	}
	if flag, ok := has.(bool); ok {
		return strings.EqualFold(fmt.Sprint(flag), value)
	}
	return fmt.Sprint(has) == value
}

func (d document) only(fields []string) document {
	if len(fields) == 0 {
		return d
	}
	out := document{}
	for _, f := range fields {
		if value, ok := d[f]; ok {
			out[f] = value
		}
	}
	return out
}

// owned begins the document of a thing of a project's.
func owned(id fmt.Stringer, project, name string, more document) document {
	more["id"], more["name"], more["description"], more["tags"] = id.String(), name, "", []string{}
	more["project_id"], more["tenant_id"] = project, project
	return more
}

func (n *networks) networks(ctx context.Context, caller session) ([]document, error) {
	all, err := n.service.Networks(ctx, caller.credential())
	out := []document{}
	for _, one := range all {
		subnets := []string{}
		for _, s := range one.Subnets {
			subnets = append(subnets, s.ID.String())
		}
		out = append(out, owned(one.ID, one.ProjectID, one.Name, document{
			"status": port.StatusActive, "admin_state_up": true, "shared": one.Shared, "router:external": one.External, "is_default": false, "mtu": one.MTU,
			"subnets": subnets, "port_security_enabled": true, "availability_zones": []string{}, "availability_zone_hints": []string{},
		}))
	}
	return out, err
}

func (n *networks) subnets(ctx context.Context, caller session) ([]document, error) {
	all, err := n.service.Networks(ctx, caller.credential())
	out := []document{}
	for _, one := range all {
		for _, s := range one.Subnets {
			servers := []string{}
			for _, a := range s.DNS {
				servers = append(servers, a.String())
			}
			out = append(out, owned(s.ID, one.ProjectID, one.Name, document{
				"network_id": one.ID.String(), "ip_version": 4, "cidr": s.Prefix.String(), "gateway_ip": s.Gateway.String(), "enable_dhcp": s.DHCP,
				"dns_nameservers": servers, "allocation_pools": []any{}, "host_routes": []any{}, "subnetpool_id": nil, "ipv6_address_mode": nil, "ipv6_ra_mode": nil,
			}))
		}
	}
	return out, err
}

func (n *networks) ports(ctx context.Context, caller session) ([]document, error) {
	all, err := n.service.Attached(ctx, caller.credential(), compute.ServerID{})
	out := []document{}
	for _, p := range all {
		addresses, groups, owner := []map[string]string{}, []string{}, ""
		for _, a := range p.Addresses {
			addresses = append(addresses, map[string]string{"subnet_id": a.Subnet.String(), "ip_address": a.IP.String()})
		}
		for _, g := range p.Groups {
			groups = append(groups, g.String())
		}
		if p.Device != "" {
			owner = "compute:nova"
		}
		d := document{
			"network_id": p.Network.String(), "mac_address": p.MAC, "fixed_ips": addresses, "security_groups": groups, "status": p.Status,
			"admin_state_up": true, "device_id": p.Device, "device_owner": owner, "port_security_enabled": true, "allowed_address_pairs": []any{},
			"binding:vnic_type": "normal",
		}
		if caller.has("admin") {
			d["binding:host_id"], d["binding:vif_type"], d["binding:profile"] = p.Host, "unbound", map[string]any{}
			d["binding:vif_details"] = map[string]any{"bridge_name": p.VIF.Bridge}
			if p.VIF.Type != "" {
				d["binding:vif_type"] = p.VIF.Type
			}
		}
		out = append(out, owned(p.ID, p.ProjectID, p.Name, d))
	}
	return out, err
}
