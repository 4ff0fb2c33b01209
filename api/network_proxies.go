package api

import (
	"net/http"
	"strings"

	"github.com/google/uuid"

	"strongroom/api/fault"
	"strongroom/api/policy"
	"strongroom/compute"
)

// noNetworks is why nothing of a network service is shown where there is none.
const noNetworks = "There is no network service here that this API could stand in for."

// networkService gives the network service for which this API stands in. 404: there is none.
func (a *API) networkService() (Networks, error) {
	if a.config.Networks == nil {
		return nil, fault.NotFound(noNetworks)
	}
	return a.config.Networks, nil
}

// viewNetwork is how one of the two old calls shows a network.
type viewNetwork func(*Request, compute.NamedNetwork) map[string]any

// networkProxies are the networks that the requester sees in the network service, as Nova shows them to 2.35.
func (a *API) networkProxies() Resource {
	out := Resource{Rules: policy.Rules{}}
	for name, view := range map[string]viewNetwork{"os-networks": viewOldNetwork, "os-tenant-networks": viewTenantNetwork} {
		list, show := "os_compute_api:"+name+":list", "os_compute_api:"+name+":show"
		out.Rules[list], out.Rules[show] = policy.ProjectReaderOrAdmin, policy.ProjectReaderOrAdmin
		out.Routes = append(out.Routes,
			Route{Method: http.MethodGet, Path: "/" + name, Max: proxiesUntil, Rule: list, Handle: a.listNetworks(view)},
			Route{Method: http.MethodGet, Path: "/" + name + "/:id", Max: proxiesUntil, Rule: show, Handle: a.showNetwork(view)},
		)
	}
	return out
}

func (a *API) listNetworks(view viewNetwork) func(*Request) (any, error) {
	return func(r *Request) (any, error) {
		service, err := a.networkService()
		if err != nil {
			return nil, err
		}
		all, err := service.Visible(r.Context(), r.Credential())
		shown := []map[string]any{}
		for _, n := range all {
			shown = append(shown, view(r, n))
		}
		return map[string]any{"networks": shown}, err
	}
}

func (a *API) showNetwork(view viewNetwork) func(*Request) (any, error) {
	return func(r *Request) (any, error) {
		service, err := a.networkService()
		if err != nil {
			return nil, err
		}
		id, err := uuid.Parse(r.Param("id"))
		if err != nil {
			return nil, fault.NotFound("Network not found")
		}
		n, err := service.Network(r.Context(), r.Credential(), compute.NetworkID{UUID: id})
		if compute.Is(err, compute.NotFound) {
			return nil, fault.NotFound("Network not found")
		}
		return map[string]any{"network": view(r, n)}, err
	}
}

// What networks had before there was a network service. All of it is null, as in Nova.
var (
	networkFields      = strings.Fields("cidr netmask gateway broadcast dns1 dns2 cidr_v6 gateway_v6 netmask_v6")
	adminNetworkFields = strings.Fields(`created_at updated_at deleted_at deleted injected bridge vlan vpn_public_address vpn_public_port
		vpn_private_address dhcp_start project_id host bridge_interface multi_host priority rxtx_base mtu dhcp_server enable_dhcp share_address`)
)

func viewOldNetwork(r *Request, n compute.NamedNetwork) map[string]any {
	view := map[string]any{"id": n.ID, "label": n.Name}
	for _, field := range networkFields {
		view[field] = nil
	}
	if r.IsAdmin() {
		for _, field := range adminNetworkFields {
			view[field] = nil
		}
	}
	return view
}

// viewTenantNetwork has the text "None" for its range of addresses, as in Nova.
func viewTenantNetwork(_ *Request, n compute.NamedNetwork) map[string]any {
	return map[string]any{"id": n.ID, "label": n.Name, "cidr": "None"}
}
