package api

import (
	"net/netip"

	"strongroom/api/fault"
	"strongroom/compute"
)

// addresses are a server's, by the names of its networks. inServer: as a view of the server has them.
func addresses(networks []compute.Network, inServer bool) map[string][]map[string]any {
	out := map[string][]map[string]any{}
	add := func(n compute.Network, kind, address string) {
		version := 4
		if ip, err := netip.ParseAddr(address); err == nil && ip.Is6() {
			version = 6
		}
		one := map[string]any{"addr": address, "version": version}
		if inServer {
			one["OS-EXT-IPS:type"], one["OS-EXT-IPS-MAC:mac_addr"] = kind, n.MAC
		}
		out[n.Port.Label] = append(out[n.Port.Label], one)
	}
	for _, kind := range []string{"fixed", "floating"} {
		for _, n := range networks {
			if !n.PortExists() {
				continue
			}
			for _, a := range n.Port.Addresses {
				shown := a.Floating
				if kind == "fixed" {
					shown = []string{a.IP}
				}
				for _, address := range shown {
					add(n, kind, address)
				}
			}
		}
	}
	return out
}

// interfaces gives what is known of a server's ports: what the network service says now or, where it
// does not answer, what it said last.
func (a *API) interfaces(r *Request, row serverRow) []compute.Network {
	s := row.Server
	if a.config.Networks == nil || !(compute.Server{Networks: s.Networks}).UsesPorts() {
		return s.Networks
	}
	now, err := a.config.Networks.Renew(r.Context(), s.ProjectID, s.ID, s.Networks)
	if err != nil {
		a.config.Logger.WarnContext(r.Context(), "ports are shown as they were seen last", "server", s.ID, "error", err)
	}
	if now == nil {
		return s.Networks
	}
	return now
}

func (a *API) listInterfaces(r *Request) (any, error) {
	row, err := a.findServer(r, ruleInterfaces)
	if err != nil {
		return nil, err
	}
	list := []map[string]any{}
	for _, n := range a.interfaces(r, row) {
		if n.PortExists() {
			list = append(list, viewInterface(r, n))
		}
	}
	return map[string]any{"interfaceAttachments": list}, nil
}

func (a *API) showInterface(r *Request) (any, error) {
	row, err := a.findServer(r, ruleInterface)
	if err != nil {
		return nil, err
	}
	for _, n := range a.interfaces(r, row) {
		if n.PortExists() && n.Port.ID.String() == r.Param("port") {
			return map[string]any{"interfaceAttachment": viewInterface(r, n)}, nil
		}
	}
	return nil, fault.NotFound("Instance %s does not have a port with id %s", row.Server.ID, r.Param("port"))
}

func viewInterface(r *Request, n compute.Network) map[string]any {
	ips := []map[string]any{}
	for _, a := range n.Port.Addresses {
		ips = append(ips, map[string]any{"ip_address": a.IP, "subnet_id": a.Subnet.String()})
	}
	out := map[string]any{
		"port_id": n.Port.ID.String(), "net_id": n.UUID, "mac_addr": n.MAC, "port_state": n.Port.Status, "fixed_ips": ips,
	}
	if r.Version >= 70 {
		out["tag"] = orNull(n.Tag)
	}
	return out
}
