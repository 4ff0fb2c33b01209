package main

import (
	"context"
	"reflect"
	"slices"

	"strongroom/activities/port"
	"strongroom/api"
	"strongroom/compute"
)

// networkAccess lets the api ask the network service; nil: there is none.
func networkAccess(service port.Service) api.Networks {
	if _, none := service.(port.None); none {
		return nil
	}
	return networkRecords{service}
}

type networkRecords struct{ service port.Service }

// Plan implements api.Networks.
func (n networkRecords) Plan(ctx context.Context, cred compute.Credential, asked compute.NetworkRequest) ([]compute.Network, error) {
	return port.Plan(ctx, n.service, cred, asked)
}

// Renew implements api.Networks. strongroom's own user looks. A port that somebody deleted there has no addresses any more:
// they may be another server's by now.
func (n networkRecords) Renew(ctx context.Context, projectID string, server compute.ServerID, known []compute.Network) ([]compute.Network, error) {
	has, err := n.service.Attached(ctx, compute.Credential{ProjectID: projectID}, server)
	if err != nil {
		return nil, err
	}
	now := slices.Clone(known)
	for i, k := range now {
		if !k.HasPort() {
			continue
		}
		at := slices.IndexFunc(has, func(p port.Port) bool { return p.ID == *k.Port.ID })
		if at < 0 {
			if k.Port.Type != "" { // else it is not bound yet
				now[i] = port.Deleted(k)
			}
			continue
		}
		now[i] = has[at].Plugged(k)
	}
	reached, failure := port.Reached(ctx, n.service, now)
	if failure == nil { // else those that are known stay
		now = reached
	}
	if reflect.DeepEqual(now, known) {
		now = nil
	}
	return now, failure
}

// ServerGroups implements api.Networks.
func (n networkRecords) ServerGroups(ctx context.Context, cred compute.Credential, server compute.ServerID) ([]compute.SecurityGroup, error) {
	groups, err := n.groups()
	if err != nil {
		return nil, err
	}
	return groups.ServerGroups(ctx, cred, server)
}

// AddGroup implements api.Networks.
func (n networkRecords) AddGroup(ctx context.Context, cred compute.Credential, server compute.ServerID, name string) error {
	groups, err := n.groups()
	if err != nil {
		return err
	}
	return groups.AddGroup(ctx, cred, server, name)
}

// RemoveGroup implements api.Networks.
func (n networkRecords) RemoveGroup(ctx context.Context, cred compute.Credential, server compute.ServerID, name string) error {
	groups, err := n.groups()
	if err != nil {
		return err
	}
	return groups.RemoveGroup(ctx, cred, server, name)
}

// groups gives the service's security groups. Invalid: its ports have none.
func (n networkRecords) groups() (port.SecurityGroups, error) {
	if groups, ok := n.service.(port.SecurityGroups); ok {
		return groups, nil
	}
	return nil, compute.Errorf(compute.Invalid, "the network service has no security groups that can be changed")
}
