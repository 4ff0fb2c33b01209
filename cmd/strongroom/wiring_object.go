package main

import (
	"context"

	"strongroom/activities/object"
	"strongroom/compute"
)

// objectAccess lets the api ask whether objects can be used.
type objectAccess struct{ object.Store }

// Has implements api.ObjectStore. It reads the manifest alone.
func (o objectAccess) Has(ctx context.Context, cred compute.Credential, stored compute.StoredTPM) error {
	m, err := o.Get(ctx, cred, stored.Object)
	if err == nil && m.SHA256 != stored.SHA256 {
		return compute.Errorf(compute.Corrupt, "object %s is not what was stored", stored.Object)
	}
	return err
}
