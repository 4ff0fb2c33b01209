package port

import (
	"context"

	"strongroom/compute"
)

// None is the Service of a cloud whose servers have networks of their hosts alone. What servers have
// of ports waits until there is one again.
type None struct{}

var _ Service = None{}

func none() error {
	return compute.Errorf(compute.Unavailable, "there is no network service: networks.backend is none")
}

// Network implements Service.
func (None) Network(context.Context, compute.Credential, NetworkID) (Network, error) {
	return Network{}, none()
}

// Networks implements Service.
func (None) Networks(context.Context, compute.Credential) ([]Network, error) { return nil, none() }

// Visible implements Service.
func (None) Visible(context.Context, compute.Credential) ([]compute.NamedNetwork, error) {
	return nil, none()
}

// Groups implements Service.
func (None) Groups(context.Context, compute.Credential, []string) ([]GroupID, error) {
	return nil, none()
}

// GroupNames implements Service.
func (None) GroupNames(context.Context, compute.Credential, []GroupID) (map[GroupID]string, error) {
	return nil, none()
}

// ServerGroups implements Service.
func (None) ServerGroups(context.Context, compute.Credential, string, compute.ServerID) ([]compute.SecurityGroup, error) {
	return nil, none()
}

// AddGroup implements Service.
func (None) AddGroup(context.Context, compute.Credential, compute.ServerID, string) error {
	return none()
}

// RemoveGroup implements Service.
func (None) RemoveGroup(context.Context, compute.Credential, compute.ServerID, string) error {
	return none()
}

// Get implements Service.
func (None) Get(context.Context, compute.Credential, ID) (Port, error) { return Port{}, none() }

// Attached implements Service.
func (None) Attached(context.Context, compute.Credential, compute.ServerID) ([]Port, error) {
	return nil, none()
}

// Ensure implements Service.
func (None) Ensure(context.Context, EnsureInput) (Port, error) { return Port{}, none() }

// Bind implements Service.
func (None) Bind(context.Context, BindInput) (Port, error) { return Port{}, none() }

// Unbind implements Service.
func (None) Unbind(context.Context, UnbindInput) error { return none() }

// Prepare implements Service.
func (None) Prepare(context.Context, BindInput) (VIF, error) { return VIF{}, none() }

// Activate implements Service.
func (None) Activate(context.Context, BindInput) error { return none() }

// Withdraw implements Service.
func (None) Withdraw(context.Context, BindInput) error { return none() }

// Remove implements Service.
func (None) Remove(context.Context, RemoveInput) error { return none() }

// List implements Service.
func (None) List(context.Context, compute.Credential) ([]Port, error) { return nil, none() }
