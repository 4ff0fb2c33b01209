package port

import (
	"net/netip"
	"regexp"
	"strings"

	"github.com/google/uuid"

	"strongroom/compute"
)

// Check refuses what no service can do, with Invalid.
func (in EnsureInput) Check() error {
	switch {
	case !compute.IsPortName(in.Name):
		return compute.Errorf(compute.Invalid, "%q is no name of a port that strongroom makes", in.Name)
	case in.Server.UUID == uuid.Nil:
		return compute.Errorf(compute.Invalid, "a port needs a server that it is for")
	}
	return nil
}

// Check refuses what no service can do, with Invalid.
func (in BindInput) Check() error {
	if in.Server.UUID == uuid.Nil || in.Host == "" {
		return compute.Errorf(compute.Invalid, "a port is bound for a server and to a host")
	}
	return nil
}

// CheckAttachable refuses, as Nova does, a network that servers cannot be on: Forbidden for an
// external one that is another project's, unless the requester may have servers there; Invalid for one without a subnet.
func (n Network) CheckAttachable(cred compute.Credential, external bool) error {
	switch {
	case n.External && !external && !n.Shared && n.ProjectID != cred.ProjectID:
		return compute.Errorf(compute.Forbidden, "It is not allowed to create an interface on external network %s", n.ID)
	case len(n.Subnets) == 0:
		return compute.Errorf(compute.Invalid, "Network %s requires a subnet in order to boot instances on.", n.ID)
	}
	return nil
}

// CheckUsable refuses, as Nova does, a port that a server cannot have: Invalid where it has no
// address, Conflict where another server, or something else, has it.
func (p Port) CheckUsable(server compute.ServerID) error {
	switch {
	case p.Device != "" && p.Device != server.String():
		return compute.PortInUse(p.ID)
	case len(p.Addresses) == 0:
		return compute.Errorf(compute.Invalid, "Port %s requires a FixedIP in order to be used.", p.ID)
	}
	return nil
}

// CheckNamed refuses, as Nova does, a port to which its user gave another name in DNS than a server's hostname, of which "" is
// not known. called is what the refusal calls the server.
func (p Port) CheckNamed(called, hostname string) error {
	name := DNSName(hostname)
	if name == "" || p.DNSName == "" || p.DNSName == name {
		return nil
	}
	return compute.Errorf(compute.Invalid, "Port %s not usable for instance %s. Value %s assigned to dns_name attribute does not match instance's hostname %s",
		p.ID, called, p.DNSName, name)
}

var ofDNS = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// DNSName is a server's hostname as Neutron takes and keeps it; "": Neutron would refuse it, as one whose last part is a number.
func DNSName(hostname string) string {
	name := strings.ToLower(hostname)
	last := strings.LastIndex(name, ".")
	if !ofDNS.MatchString(name) || last >= 0 && strings.Trim(name[last+1:], "0123456789") == "" {
		return ""
	}
	return name
}

// CheckBound refuses, with Conflict, a binding that no host here can plug.
func (v VIF) CheckBound(id ID) error {
	if v.Type != compute.VIFOpenVSwitch && v.Type != compute.VIFBridge {
		return compute.Errorf(compute.Conflict, "Binding failed for port %s, please check neutron logs for more information.", id)
	}
	return nil
}

// checkHybrid refuses, with Conflict, a binding that hosts here do not plug.
func (v VIF) checkHybrid(at BindInput) error {
	if v.Hybrid {
		return compute.Errorf(compute.Conflict, "Port %s is bound with ovs_hybrid_plug on host %s, which hosts here do not plug.", at.Port, at.Host)
	}
	return nil
}

// The errors that adapters give, with Nova's texts.

// Missing is the error for a port that is not there, or not for this credential.
func Missing(id ID) error {
	return compute.Errorf(compute.NotFound, "Port id %s could not be found.", id)
}

// MissingNetwork is that for a network.
func MissingNetwork(id NetworkID) error {
	return compute.Errorf(compute.NotFound, "Network %s could not be found.", id)
}

// MissingGroup is that for a security group.
func MissingGroup(name string) error {
	return compute.Errorf(compute.NotFound, "Security group %s not found.", name)
}

// AmbiguousGroup is the error for a name that several security groups have.
func AmbiguousGroup(name string) error {
	return compute.Errorf(compute.Conflict, "Multiple security groups found matching '%s'. Use an ID to be more specific.", name)
}

// Taken is the error for an address that another port has.
func Taken(address netip.Addr) error {
	return compute.Errorf(compute.Conflict, takenText, address)
}

const takenText = "Fixed IP %s is already in use."

// Outside is the error for an address that is none of a network's.
func Outside(address string, network NetworkID) error {
	return compute.Errorf(compute.Invalid, "Fixed IP %s is not a valid ip address for network %s.", address, network)
}

// Exhausted is the error for a network that has no address left.
func Exhausted(network NetworkID) error {
	return compute.Errorf(compute.Invalid, "No fixed IP addresses available for network: %s", network)
}

// OverQuota is the error for a project that may have no more ports.
func OverQuota() error {
	return compute.Errorf(compute.Forbidden, "Maximum number of ports exceeded")
}
