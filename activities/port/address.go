package port

import (
	"context"
	"net/netip"

	"strongroom/compute"
)

// Addresses is what a Service has that tells who has an address.
type Addresses interface {
	// Holder gives the port, whoever's it is, that has an address of a network which the credential's project
	// sees; nil: none has.
	Holder(ctx context.Context, cred compute.Credential, network NetworkID, address netip.Addr) (*Port, error)
}

// checkFree refuses an address that a port has. Where the service does not tell, it says so once the port is made.
func (p *planner) checkFree(ctx context.Context, network NetworkID, text string) error {
	service, tells := p.service.(Addresses)
	address, err := netip.ParseAddr(text)
	if err != nil || !tells {
		return err
	}
	holder, err := service.Holder(ctx, p.cred, network, address)
	switch {
	case err != nil || holder == nil:
		return nil //nolint:nilerr // the port that is to be made tells
	case holder.ProjectID != p.cred.ProjectID: // whose server that is concerns nobody else
		return p.taken(text, "")
	}
	return p.taken(text, holder.Device)
}

// taken is the refusal of an address that another port has, as Nova gives it: a create's is a 400, an attachment's a 409.
func (p *planner) taken(address, server string) error {
	switch {
	case !p.create:
		return compute.Errorf(compute.Conflict, takenText, address)
	case server == "":
		return compute.Errorf(compute.Invalid, takenText, address)
	}
	return compute.Errorf(compute.Invalid, "Fixed IP address %s is already in use on instance %s.", address, server)
}

// sameAddress reports whether two texts name one address.
func sameAddress(a, b string) bool {
	one, err := netip.ParseAddr(a)
	other, otherErr := netip.ParseAddr(b)
	return err == nil && otherErr == nil && one == other
}
