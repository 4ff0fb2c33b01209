package port

import (
	"context"
	"net/netip"
	"slices"

	"strongroom/compute"
)

// FloatingAddresses is what a Service has whose ports can be reached from external networks.
type FloatingAddresses interface {
	// Floating gives the addresses of external networks at which ports are reached, as far as strongroom's own user
	// sees them. Of a port that is not there it gives none.
	Floating(ctx context.Context, ports []ID) ([]Floating, error)
}

// Floating is an address of an external network.
type Floating struct {
	IP    netip.Addr
	Port  ID
	Fixed netip.Addr // of the port, at which what is sent to IP arrives
}

// Reached gives interfaces with the addresses of external networks at which their ports are reached now.
func Reached(ctx context.Context, s Service, networks []compute.Network) ([]compute.Network, error) {
	service, has := s.(FloatingAddresses)
	var ids []ID
	for _, n := range networks {
		if n.PortExists() && len(n.Port.Addresses) > 0 {
			ids = append(ids, *n.Port.ID)
		}
	}
	if !has || len(ids) == 0 {
		return networks, nil
	}
	all, err := service.Floating(ctx, ids)
	if err != nil {
		return nil, err
	}
	out := slices.Clone(networks)
	for i, n := range out {
		if !n.PortExists() {
			continue
		}
		reached := *n.Port
		reached.Addresses = slices.Clone(reached.Addresses)
		for j, a := range reached.Addresses {
			a.Floating = nil
			for _, f := range all {
				if f.Port == *reached.ID && f.Fixed.String() == a.IP {
					a.Floating = append(a.Floating, f.IP.String())
				}
			}
			reached.Addresses[j] = a
		}
		out[i].Port = &reached
	}
	return out, nil
}
