package local

import (
	"context"

	"strongroom/activities/port"
	"strongroom/compute"
)

// ServerGroups implements port.SecurityGroups.
func (s *Service) ServerGroups(ctx context.Context, cred compute.Credential, project string, server compute.ServerID) ([]compute.SecurityGroup, error) {
	if cred.ProjectID == "" {
		return nil, forbidden()
	}
	has, err := s.Attached(ctx, compute.Credential{ProjectID: project}, server)
	if err != nil || len(has) == 0 {
		return nil, err
	}
	only := group(project)
	out := compute.SecurityGroup{
		ID: only, Name: compute.DefaultGroup, Description: "Default security group", ProjectID: project,
		Rules: []compute.SecurityGroupRule{{ID: port.OpenRule(only, "ingress").String()}},
	}
	for _, p := range has {
		out.Ports = append(out.Ports, p.ID)
	}
	return []compute.SecurityGroup{out}, nil
}

// AddGroup implements port.SecurityGroups: every port has the project's only group already.
func (s *Service) AddGroup(ctx context.Context, cred compute.Credential, server compute.ServerID, name string) error {
	return s.checkGroup(ctx, cred, server, name)
}

// RemoveGroup implements port.SecurityGroups. Invalid: no port can be without the project's only group.
func (s *Service) RemoveGroup(ctx context.Context, cred compute.Credential, server compute.ServerID, name string) error {
	if err := s.checkGroup(ctx, cred, server, name); err != nil {
		return err
	}
	return compute.Errorf(compute.Invalid, "Security group %s is the only one here, and no port can be without it.", name)
}

// checkGroup refuses, with NotFound, another group than the project's only one, and a server without ports.
func (s *Service) checkGroup(ctx context.Context, cred compute.Credential, server compute.ServerID, name string) error {
	_, err := s.Groups(ctx, cred, []string{name})
	if compute.Is(err, compute.NotFound) {
		return port.NotInProject(name, cred.ProjectID)
	}
	if err != nil {
		return err
	}
	has, err := s.Attached(ctx, cred, server)
	if err == nil && len(has) == 0 {
		err = compute.HasNoPorts(server)
	}
	return err
}
