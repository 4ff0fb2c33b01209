package api_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/api"
	"strongroom/compute"
)

func (n *network) Visible(_ context.Context, cred compute.Credential) ([]compute.NamedNetwork, error) {
	n.enter(cred)()
	return n.visible, n.refuse
}

func (n *network) Network(_ context.Context, cred compute.Credential, id compute.NetworkID) (compute.NamedNetwork, error) {
	n.enter(cred)()
	if n.refuse != nil {
		return compute.NamedNetwork{}, n.refuse
	}
	i := slices.IndexFunc(n.visible, func(o compute.NamedNetwork) bool { return o.ID == id })
	if i < 0 {
		return compute.NamedNetwork{}, compute.Errorf(compute.NotFound, "Network %s could not be found.", id)
	}
	return n.visible[i], nil
}

func (n *network) OwnGroups() api.OwnGroups {
	if n.own == nil {
		return nil
	}
	return n.own
}

// Each route asks the network service with the credential of its requester alone.
func TestTheNetworkServiceIsAskedForTheRequester(t *testing.T) {
	t.Parallel()
	c, n := setupNetwork(t)
	server, _ := c.plugged()
	n.visible = []compute.NamedNetwork{{ID: compute.NetworkID{UUID: uuid.MustParse(networkID)}, Name: "lan"}}
	for _, by := range []struct {
		as            who
		project, user string
	}{{member, project, "user-member"}, {admin, project, "user-admin"}, {stranger, elsewhere, "user-stranger"}, {operator, elsewhere, "user-operator"}} {
		n.own = &ownGroups{}
		web := n.own.named("web", by.project)
		for route, body := range groupRoutes(web.ID.String()) {
			n.own.groups = []compute.SecurityGroup{{ID: web.ID, Name: "web", ProjectID: by.project, Rules: []compute.SecurityGroupRule{{ID: web.ID.String()}}}}
			method, path, _ := strings.Cut(route, " ")
			require.Less(t, c.do(t, by.as, method, path, body, at("2.35")).code, 300, route)
			n.own.requireBy(t, by.project, by.user, route)
		}
		n.by = nil
		for _, path := range []string{"/os-networks", "/os-networks/" + networkID, "/os-tenant-networks", "/os-tenant-networks/" + networkID} {
			c.do(t, by.as, "GET", path, "", at("2.35")).ok(200)
			n.requireBy(t, by.project, by.user, path)
		}
		c.do(t, by.as, "POST", "/servers", c.body(map[string]any{"networks": "auto"}), at("2.90")).ok(202)
		n.requireBy(t, by.project, by.user, "create")
		if by.as == stranger {
			continue
		}
		c.do(t, by.as, "GET", "/servers/"+server+"/os-security-groups", "", at("2.35")).ok(200)
		n.requireBy(t, by.project, by.user, "os-security-groups")
		for _, action := range []string{"addSecurityGroup", "removeSecurityGroup"} {
			c.act(t, by.as, server, `{"`+action+`":{"name":"web"}}`, at("2.35")).ok(202)
			n.requireBy(t, by.project, by.user, action)
		}
	}
}

// To 2.35 the networks that the requester sees are shown as Nova shows them: most of what they had before Neutron is null.
func TestNetworksOfTheNetworkService(t *testing.T) {
	t.Parallel()
	c, n := setupNetwork(t)
	lan, wan := uuid.NewString(), uuid.NewString()
	n.visible = []compute.NamedNetwork{{ID: compute.NetworkID{UUID: uuid.MustParse(lan)}, Name: "lan"}, {ID: compute.NetworkID{UUID: uuid.MustParse(wan)}, Name: "wan"}}
	old := func(id, label, fields string) map[string]any {
		one := map[string]any{"id": id, "label": label}
		for field := range strings.FieldsSeq(fields) {
			one[field] = nil
		}
		return one
	}
	const everybody = "cidr netmask gateway broadcast dns1 dns2 cidr_v6 gateway_v6 netmask_v6"
	const admins = everybody + ` created_at updated_at deleted_at deleted injected bridge vlan vpn_public_address vpn_public_port vpn_private_address
		dhcp_start project_id host bridge_interface multi_host priority rxtx_base mtu dhcp_server enable_dhcp share_address`
	tenant := func(id, label string) map[string]any { return map[string]any{"id": id, "label": label, "cidr": "None"} }
	for _, asked := range []struct {
		as       who
		path     string
		lan, wan map[string]any
	}{
		{reader, "/os-networks", old(lan, "lan", everybody), old(wan, "wan", everybody)},
		{admin, "/os-networks", old(lan, "lan", admins), old(wan, "wan", admins)},
		{reader, "/os-tenant-networks", tenant(lan, "lan"), tenant(wan, "wan")},
		{admin, "/os-tenant-networks", tenant(lan, "lan"), tenant(wan, "wan")},
	} {
		for _, version := range []string{"2.1", "2.20", "2.35"} {
			n.refuse = nil
			get := func(path string) answer { return c.do(t, asked.as, "GET", asked.path+path, "", at(version)) }
			get("").is(200, string(marshal(t, map[string]any{"networks": []any{asked.lan, asked.wan}})))
			get("/"+wan).is(200, string(marshal(t, map[string]any{"network": asked.wan})))
			for _, unknown := range []string{uuid.NewString(), "lan", "0"} {
				get("/"+unknown).fails(404, "itemNotFound", "Network not found")
			}
			n.refuse = compute.Errorf(compute.Unavailable, "list networks: the network service does not answer")
			for _, path := range []string{"", "/" + lan} {
				require.NotEmpty(t, get(path).fails(503, "serviceUnavailable", n.refuse.Error()).header.Get("Retry-After"))
			}
		}
		n.refuse = nil
		for _, path := range []string{"", "/" + lan} {
			c.do(t, asked.as, "GET", asked.path+path, "", at("2.36")).fails(404, "itemNotFound", "API version 2.36 is not supported on this method.")
		}
		c.do(t, powerless, "GET", asked.path, "", at("2.35")).ok(403)
	}
	n.visible = nil
	c.do(t, member, "GET", "/os-networks", "").is(200, `{"networks":[]}`)
	for _, version := range []string{"2.1", "2.35"} { // Nova changes none either
		for _, route := range []string{"POST /os-networks", "DELETE /os-networks/" + lan, "POST /os-tenant-networks", "DELETE /os-tenant-networks/" + lan} {
			method, path, _ := strings.Cut(route, " ")
			c.do(t, admin, method, path, "", at(version)).fails(410, "computeFault", gone)
		}
	}
}
