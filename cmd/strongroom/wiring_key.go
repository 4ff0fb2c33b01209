package main

import (
	"context"

	"strongroom/activities/key"
	"strongroom/compute"
)

// keyAccess lets the api try what a request's credential may do with keys.
type keyAccess struct{ key.Manager }

// Look implements api.KeyManager.
func (k keyAccess) Look(ctx context.Context, cred compute.Credential, id compute.SecretID) error {
	return (&key.Activities{Manager: k.Manager}).Check(ctx, key.CheckInput{Credential: cred, Secret: id})
}
