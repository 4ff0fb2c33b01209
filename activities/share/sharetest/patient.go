package sharetest

import (
	"context"
	"testing"
	"time"

	"strongroom/activities/secret"
	"strongroom/activities/share"
	"strongroom/compute"
)

// patient is a service whose calls are tried again as activities are: where it did not answer, or answered with
// an error of its own, for a while. A busy Manila says 500 to lists now and then.
type patient struct {
	testing.TB
	share.Service
}

// How often and how soon.
const (
	tries     = 6
	firstWait = 500 * time.Millisecond
)

// try calls do until the service has answered. What it answered before is told.
func try[Out any](ctx context.Context, p patient, call string, do func() (Out, error)) (out Out, err error) {
	for attempt := range tries {
		if out, err = do(); !compute.Is(err, compute.Unavailable) || attempt == tries-1 {
			break
		}
		p.Logf("%s is tried again: %v", call, err)
		select {
		case <-ctx.Done():
			return out, err
		case <-time.After(firstWait << attempt):
		}
	}
	return out, err
}

func (p patient) Get(ctx context.Context, cred compute.Credential, id share.ID) (share.Share, error) {
	return try(ctx, p, "get", func() (share.Share, error) { return p.Service.Get(ctx, cred, id) })
}

func (p patient) Locations(ctx context.Context, cred compute.Credential, id share.ID) ([]share.Location, error) {
	return try(ctx, p, "locations", func() ([]share.Location, error) { return p.Service.Locations(ctx, cred, id) })
}

func (p patient) Allow(ctx context.Context, in share.AllowInput) (share.Rule, error) {
	return try(ctx, p, "allow", func() (share.Rule, error) { return p.Service.Allow(ctx, in) })
}

func (p patient) AccessKey(ctx context.Context, cred compute.Credential, id share.ID, to share.Grantee) (*secret.Passphrase, error) {
	return try(ctx, p, "key", func() (*secret.Passphrase, error) { return p.Service.AccessKey(ctx, cred, id, to) })
}

func (p patient) Deny(ctx context.Context, in share.DenyInput) error {
	_, err := try(ctx, p, "deny", func() (struct{}, error) { return struct{}{}, p.Service.Deny(ctx, in) })
	return err
}

func (p patient) List(ctx context.Context, cred compute.Credential) ([]share.Rule, error) {
	return try(ctx, p, "list", func() ([]share.Rule, error) { return p.Service.List(ctx, cred) })
}

func (p patient) Standing(ctx context.Context, cred compute.Credential, ids []share.ID) (share.Looked, error) {
	return try(ctx, p, "standing", func() (share.Looked, error) { return p.Service.Standing(ctx, cred, ids) })
}
