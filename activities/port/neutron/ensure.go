package neutron

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"strongroom/activities/openstack"
	"strongroom/activities/port"
	"strongroom/compute"
)

// Ensure implements port.Service. To look for a port and to make one is not one step in
// Neutron: after one is made, it is looked for others.
func (s *Service) Ensure(ctx context.Context, in port.EnsureInput) (port.Port, error) {
	if err := in.Check(); err != nil {
		return port.Port{}, err
	}
	client, err := s.client(ctx, in.Credential)
	if err != nil {
		return port.Port{}, err
	}
	var failure error
	for tried := false; ; tried = true {
		found, err := named(ctx, client, in.Credential, in.Name)
		if err != nil {
			return port.Port{}, err
		}
		if len(found) > 0 {
			for _, double := range found[1:] {
				if err := erase(ctx, client, double.ID); err != nil {
					return port.Port{}, err
				}
			}
			return found[0].port(), nil
		}
		if failure != nil { // what has the address, or the last one of the quota, is no earlier try of this
			return port.Port{}, failure
		}
		if tried {
			return port.Port{}, compute.Errorf(compute.Unavailable, "the network service made port %s and does not list it", in.Name)
		}
		if failure = create(ctx, client, in); compute.Is(failure, compute.Unavailable) {
			return port.Port{}, failure
		}
	}
}

// named gives the project's ports of a name, the one that stays first.
func named(ctx context.Context, client *gophercloud.ServiceClient, cred compute.Credential, name string) ([]document, error) {
	found, err := list(ctx, client, ports.ListOpts{Name: name, ProjectID: cred.ProjectID})
	// What does not filter, or does it otherwise, must not cost a user his ports.
	found = slices.DeleteFunc(found, func(d document) bool { return d.Name != name || !d.isOurs(cred.ProjectID) })
	slices.SortFunc(found, byAge)
	return found, err
}

func create(ctx context.Context, client *gophercloud.ServiceClient, in port.EnsureInput) error {
	opts := ports.CreateOpts{NetworkID: in.Network.String(), Name: in.Name, DeviceID: in.Server.String()}
	if in.Address.IsValid() {
		opts.FixedIPs = []ports.IP{{IPAddress: in.Address.String()}}
	}
	if in.Groups != nil {
		texts := make([]string, len(in.Groups))
		for i, g := range in.Groups {
			texts[i] = g.String()
		}
		opts.SecurityGroups = &texts
	}
	return refused(ports.Create(ctx, client, opts).Err, in)
}

// refused turns a refusal to make a port into Nova's. The name of Neutron's exception tells
// apart what has one status.
func refused(err error, in port.EnsureInput) error {
	switch faultOf(err) {
	case "NetworkNotFound":
		return port.MissingNetwork(in.Network)
	case "SecurityGroupNotFound":
		return missingGroups(in.Groups)
	case "PortSecurityAndIPRequiredForSecurityGroups":
		return port.Ungroupable()
	case "OverQuota":
		return port.OverQuota()
	case "IpAddressInUse", "IpAddressAlreadyAllocated":
		return port.Taken(in.Address)
	case "InvalidIpForNetwork", "InvalidIpForSubnet", "InvalidAddressRequest":
		return port.Outside(in.Address.String(), in.Network)
	case "IpAddressGenerationFailure", "IpAddressGenerationFailureAllSubnets", "IpAddressGenerationFailureNoMatchingSubnet":
		return port.Exhausted(in.Network)
	}
	return openstack.Error(err, fmt.Sprintf("make port %s", in.Name))
}

// missingGroups is the error for security groups of which one is not there.
func missingGroups(asked []port.GroupID) error {
	if len(asked) == 1 {
		return port.MissingGroup(asked[0].String())
	}
	return compute.Errorf(compute.NotFound, "One of the security groups %s was not found.", asked)
}

// faultOf gives the name of Neutron's exception; "": it said none.
func faultOf(err error) string {
	var code gophercloud.ErrUnexpectedResponseCode
	var said struct {
		NeutronError struct {
			Type string `json:"type"`
		}
	}
	if !errors.As(err, &code) || json.Unmarshal(code.Body, &said) != nil {
		return ""
	}
	return said.NeutronError.Type
}

// Remove implements port.Service. strongroom's own user may, so that it needs no token of
// anybody; where Neutron's policy keeps it from that, the credential may.
func (s *Service) Remove(ctx context.Context, in port.RemoveInput) error {
	if !compute.IsPortName(in.Name) {
		return compute.Errorf(compute.Invalid, "%q is no name of a port that strongroom makes", in.Name)
	}
	if in.Credential.ProjectID == "" {
		return compute.Errorf(compute.Forbidden, "a port is removed with a credential of the project that owns it")
	}
	return compute.WithAny([]compute.Credential{own, in.Credential}, func(cred compute.Credential) error {
		client, err := s.client(ctx, cred)
		if err != nil {
			return err
		}
		doomed, err := named(ctx, client, in.Credential, in.Name)
		if err != nil {
			return err
		}
		if in.ID != nil && !slices.ContainsFunc(doomed, func(d document) bool { return d.ID == *in.ID }) {
			// A user may have given it another name: then it is marked by nothing but its id.
			switch d, err := get(ctx, client, *in.ID); {
			case err == nil && d.ProjectID == in.Credential.ProjectID:
				doomed = append(doomed, d)
			case err != nil && !compute.Is(err, compute.NotFound):
				return err
			}
		}
		if len(doomed) == 0 && cred.IsDeployment() {
			return sees(ctx, client, in.Credential.ProjectID)
		}
		for _, d := range doomed {
			if err := erase(ctx, client, d.ID); err != nil {
				return err
			}
		}
		return nil
	})
}

// erase ensures that there is no port of the id.
func erase(ctx context.Context, client *gophercloud.ServiceClient, id port.ID) error {
	err := openstack.Error(ports.Delete(ctx, client, id.String()).ExtractErr(), fmt.Sprintf("remove port %s", id))
	if compute.Is(err, compute.NotFound) {
		return nil
	}
	return err
}
