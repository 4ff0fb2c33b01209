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

// checkQuota refuses, with Forbidden, more ports than the project may have. Where the service does not tell, it
// says it once they are made.
func checkQuota(ctx context.Context, s Service, cred compute.Credential, planned []compute.Network) error {
	quotas, told := s.(Quotas)
	made := 0
	for _, n := range planned {
		if n.Port.ID == nil {
			made++
		}
	}
	if !told || made == 0 {
		return nil
	}
	if left, err := quotas.PortsLeft(ctx, cred); err == nil && left < made {
		return OverQuota()
	}
	return nil
}
