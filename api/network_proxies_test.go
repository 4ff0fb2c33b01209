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

func (n *network) Visible(context.Context, compute.Credential) ([]compute.NamedNetwork, error) {
	return n.visible, n.refuse
}

func (n *network) Network(_ context.Context, _ compute.Credential, id compute.NetworkID) (compute.NamedNetwork, error) {
	if n.refuse != nil {
		return compute.NamedNetwork{}, n.refuse
	}
	i := slices.IndexFunc(n.visible, func(o compute.NamedNetwork) bool { return o.ID == id })
	if i < 0 {
		return compute.NamedNetwork{}, compute.Errorf(compute.NotFound, "Network %s could not be found.", id)
	}
	return n.visible[i], nil
}

func (n *network) OwnGroups() api.SecurityGroups {
	if n.own == nil {
		return nil
	}
	return n.own
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
