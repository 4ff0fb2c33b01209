package port

import (
	"context"
	"math"

	"strongroom/compute"
)

// Quotas is what a Service has that tells how many ports a project may have.
type Quotas interface {
	// PortsLeft gives how many more ports the credential's project may have.
	PortsLeft(ctx context.Context, cred compute.Credential) (int, error)
}

// Unlimited is what PortsLeft gives where there is no limit.
const Unlimited = math.MaxInt

// Limits is what a Service has whose networks tell how many addresses they have left.
type Limits interface {
	// AddressesLeft gives how many more ports a network has addresses for.
	AddressesLeft(ctx context.Context, cred compute.Credential, network NetworkID) (int, error)
}

// fitting gives how many servers, of most, can have their ports: Forbidden where the project may not have those of
// least of them, Invalid where a network has no addresses for them. What the service does not tell, it says
// once they are made.
func fitting(ctx context.Context, s Service, cred compute.Credential, planned []compute.Network, least, most int) (int, error) {
	ports, addresses := 0, map[NetworkID]int{} // of each server
	var networks []NetworkID                   // in order
	for _, n := range planned {
		if n.Port.ID != nil {
			continue
		}
		ports++
		id, err := parseNetwork(n.UUID)
		if err != nil || n.Port.FixedIP != "" {
			continue
		}
		if addresses[id]++; addresses[id] == 1 {
			networks = append(networks, id)
		}
	}
	servers := most
	if quotas, told := s.(Quotas); told && ports > 0 {
		if left, err := quotas.PortsLeft(ctx, cred); err == nil {
			servers = min(servers, left/ports)
		}
	}
	if servers < least {
		return 0, OverQuota()
	}
	limits, told := s.(Limits)
	for _, id := range networks {
		if !told {
			break
		}
		if left, err := limits.AddressesLeft(ctx, cred, id); err == nil {
			servers = min(servers, left/addresses[id])
		}
		if servers < least {
			return 0, Exhausted(id)
		}
	}
	return servers, nil
}
