package share

import (
	"context"

	"strongroom/activities/secret"
	"strongroom/compute"
)

// None is the Service of a cloud that has none. What servers have of shares waits until there
// is one again.
type None struct{}

var _ Service = None{}

func none() error {
	return compute.Errorf(compute.Unavailable, "there is no shared file systems service: shares.backend is none")
}

// Get implements Service.
func (None) Get(context.Context, compute.Credential, ID) (Share, error) { return Share{}, none() }

// Locations implements Service.
func (None) Locations(context.Context, compute.Credential, ID) ([]Location, error) {
	return nil, none()
}

// Allow implements Service.
func (None) Allow(context.Context, AllowInput) (Rule, error) { return Rule{}, none() }

// AccessKey implements Service.
func (None) AccessKey(context.Context, compute.Credential, ID, Grantee) (*secret.Passphrase, error) {
	return nil, none()
}

// Deny implements Service.
func (None) Deny(context.Context, DenyInput) error { return none() }

// List implements Service.
func (None) List(context.Context, compute.Credential) ([]Rule, error) { return nil, none() }

// Standing implements Service.
func (None) Standing(context.Context, compute.Credential, []ID) (Looked, error) {
	return Looked{}, none()
}
