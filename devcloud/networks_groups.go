package devcloud

import (
	"context"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"strongroom/activities/port"
	"strongroom/compute"
)

// groups gives a project its only security group, which lets everything pass.
func (n *networks) groups(ctx context.Context, caller session) ([]document, error) {
	rules, err := n.rules(ctx, caller)
	if err != nil {
		return nil, err
	}
	ids, err := n.service.Groups(ctx, caller.credential(), []string{compute.DefaultGroup})
	out := []document{}
	for _, id := range ids {
		out = append(out, owned(id, caller.project.ID, compute.DefaultGroup, document{"stateful": true, "security_group_rules": rules}))
	}
	return out, err
}

// rules are those of the only group: all IPv4 in both directions.
func (n *networks) rules(ctx context.Context, caller session) ([]document, error) {
	ids, err := n.service.Groups(ctx, caller.credential(), []string{compute.DefaultGroup})
	out := []document{}
	for _, id := range ids {
		for _, direction := range []string{"egress", "ingress"} {
			out = append(out, owned(port.OpenRule(id, direction), caller.project.ID, "", document{
				"security_group_id": id.String(), "direction": direction, "ethertype": "IPv4", "protocol": nil,
				"port_range_min": nil, "port_range_max": nil, "remote_ip_prefix": nil, "remote_group_id": nil,
			}))
		}
	}
	return out, err
}

// showQuota is GET /v2.0/quotas/PROJECT: nothing is limited here.
func (n *networks) showQuota(c echo.Context) error {
	caller := callerOf(c)
	if caller.project == nil || c.Param("id") != caller.project.ID && !caller.has("admin") {
		return forbidden("get_quota")
	}
	quota := map[string]int{}
	for _, kind := range []string{"network", "subnet", "port", "security_group", "security_group_rule", "router", "floatingip", "subnetpool", "rbac_policy"} {
		quota[kind] = -1
	}
	return c.JSON(http.StatusOK, map[string]any{"quota": quota})
}

// extensions are those whose attributes the documents have.
func extensions() []document {
	out := []document{}
	for _, e := range [][2]string{
		{"security-group", "security-group"}, {"binding", "Port Binding"}, {"net-mtu", "Network MTU"}, {"external-net", "Neutron external network"},
		{"port-security", "Port Security"}, {"quotas", "Quota management support"},
	} {
		out = append(out, document{"alias": e[0], "name": e[1], "description": e[1], "updated": "2026-01-01T00:00:00-00:00", "links": []any{}})
	}
	return out
}

func showExtension(c echo.Context) error {
	all := extensions()
	i := slices.IndexFunc(all, func(e document) bool { return e["alias"] == c.Param("id") })
	if i < 0 {
		return fault(http.StatusNotFound, "Extension with alias %s does not exist", c.Param("id"))
	}
	return c.JSON(http.StatusOK, map[string]any{"extension": all[i]})
}
